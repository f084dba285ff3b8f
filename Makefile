# Usage: make [target]. The first target that you use creates .venv and installs everything into it.
#
#   make setup       install and compile everything (the default)
#   make run         reproduce all figures and claims of the paper; writes results/paper/report.html
#   make test        run all checks and tests, as CI does
#   make quick       run the everyday tests (under 90 seconds)
#   make lint        run only the static checks
#   make docs        build the documentation; open docs/_build/html/index.html
#   make bench       measure speed, as ratios within one run
#   make chaos       disturb a fleet for 15 minutes, and for 5 each one with masks and one without a range
#   make pictures    draw the picture of the playground in README.md with a browser
#   make dist        build an sdist, a compiled and a pure wheel in dist/
#   make chromium    install a browser for the tests of the dashboard, if there is none
#   make mosquitto   install an MQTT broker for the tests of sources and sinks, if there is none
#   make prometheus  unpack Prometheus for the tests of its files, if there is none
#   make influxdb    unpack InfluxDB for the tests of its sink, if there is none
#   make iproute2    install ip and iptables for the tests of sites behind NAT, if they are missing
#   make clean       delete .venv and everything else that these targets create
#   make help        show this text
#
# PYTHON=python3.12 chooses the interpreter for .venv.

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.ready
INSTALL := $(BIN)/python -m pip install --no-compile --disable-pip-version-check -c constraints.txt
ROUND := $(wildcard setup.py src/gossamer/agents/round/*.p*)
# Two workers more than a small machine has cores: tests of fleets and pages wait for others most of the time.
PYTEST := $(BIN)/python -m pytest -n 4 --dist loadgroup

# Without bytecode on disk every process would compile a thousand modules again, which takes seconds.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup run test quick lint docs bench chaos pictures dist chromium mosquitto prometheus influxdb iproute2 clean help
.DEFAULT_GOAL := setup

help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' $(firstword $(MAKEFILE_LIST))

# Numba's code is compiled here as well, on all cores; if nothing has changed, this takes about a second.
setup: .venv/.compiled
	$(BIN)/gossamer warmup

# Installed code is not compiled ahead of time, because most of it is never imported. On a terminal, one line shows the
# current step of pip, whose output is in .venv/pip.log; the loop exits with the status of pip.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "Python 3.11 or newer is needed, this is " + sys.version'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "installing into .venv, which takes a few minutes the first time"
	@{ $(INSTALL) -e '.[all,dev,docs]'; echo "exit $$?"; } 2>&1 | tee .venv/pip.log | { n=0; code=; while read -r line; do \
	  case $$line in Collecting* | Processing*) n=$$((n + 1));; exit*) code=$${line#exit };; esac; \
	  if [ -t 1 ]; then printf '\r\033[K%d packages: %.60s' $$n "$$line"; fi; \
	done; if [ -t 1 ]; then printf '\r\033[K'; fi; \
	[ "$$code" = 0 ] || { tail -n 20 .venv/pip.log; exit 1; }; }
	touch $(STAMP)

# The compiled modules of an agent's round, rebuilt where their source has changed (see setup.py).
.venv/.compiled: $(STAMP) $(ROUND)
	@echo "compiling the rounds of agents, if their sources have changed"
	$(BIN)/python setup.py --quiet build_ext --inplace
	touch .venv/.compiled $(wildcard src/gossamer/agents/round/*.so)

run: setup
	$(BIN)/gossamer reproduce --backend processes --out results/paper
	@echo "See it move: $(BIN)/gossamer dashboard --open"

lint: .venv/.compiled
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

quick: setup
	$(PYTEST) -m "not slow"

# Offline, warnings are errors. From scratch: what is generated may not depend on what was there before.
docs: setup
	rm -rf docs/_build docs/_generated docs/auto_gallery docs/reference/api
	$(BIN)/python -m sphinx -b html -q -W --keep-going -n -j 2 docs docs/_build/html

# What fails next to three other tests is repeated once, alone: fleets and browsers share the cores. The first failure stays
# in the output, as a thing to find out; a failure that repeats is final. (With several workers the name of a test ends with
# that of its group, by which one worker would not find it.)
test:
	$(MAKE) -j 3 lint docs chromium mosquitto prometheus influxdb iproute2
	$(PYTEST) || { echo "repeating what failed, one test at a time"; \
	  sed -i 's/@[a-z]*": true/": true/' .pytest_cache/v/cache/lastfailed; \
	  $(PYTEST) -n 0 --last-failed --last-failed-no-failures none; }

# The dashboard is tested in a real browser; without one those tests are skipped, and say so. Debian's packages are
# installed one after the other, because apt locks its lists: next to another apt-get it fails.
chromium:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null \
	|| { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	  && { apt-get -qq update; apt-get -qq install --no-install-recommends -y chromium; } >/dev/null 2>&1; } \
	|| echo "No Chromium: tests in the browser will be skipped. On Debian or Ubuntu: apt-get install chromium"

# Sources and sinks of MQTT are tested with a real broker; without one those tests are skipped, and say so.
mosquitto: | chromium
	@command -v mosquitto >/dev/null || test -x /usr/sbin/mosquitto \
	|| { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	  && { apt-get -qq update; apt-get -qq install --no-install-recommends -y mosquitto mosquitto-clients; } >/dev/null 2>&1; } \
	|| echo "No Mosquitto: tests with a broker will be skipped. On Debian or Ubuntu: apt-get install mosquitto"

# The files for Prometheus are tested with a real one: its Debian package is unpacked, not installed, so no service starts.
prometheus: $(STAMP) | mosquitto
	@command -v prometheus promtool >/dev/null || test -x $(BIN)/promtool || { folder=$$(mktemp -d) && (cd $$folder \
	  && { apt-get -qq download prometheus || { apt-get -qq update && apt-get -qq download prometheus; }; } \
	  && dpkg-deb --extract prometheus_*.deb .) >/dev/null 2>&1 \
	  && cp $$folder/usr/bin/prometheus $$folder/usr/bin/promtool $(BIN)/ && rm -r $$folder; } \
	|| echo "No Prometheus: tests with it will be skipped. On Debian or Ubuntu: apt-get install prometheus"

# In the same way: a server for the sink that writes to InfluxDB.
influxdb: $(STAMP) | prometheus
	@command -v influxd >/dev/null || test -x $(BIN)/influxd || { folder=$$(mktemp -d) && (cd $$folder \
	  && { apt-get -qq download influxdb || { apt-get -qq update && apt-get -qq download influxdb; }; } \
	  && dpkg-deb --extract influxdb_*.deb .) >/dev/null 2>&1 \
	  && cp $$folder/usr/bin/influxd $(BIN)/ && rm -r $$folder; } \
	|| echo "No InfluxDB: the test with it will be skipped. On Debian or Ubuntu: apt-get install influxdb"

# Sites behind NAT are tested in network namespaces, which only root can make.
iproute2: | influxdb
	@{ command -v ip && command -v iptables; } >/dev/null || { [ -x /usr/sbin/ip ] && [ -x /usr/sbin/iptables ]; } \
	|| { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	  && { apt-get -qq update; apt-get -qq install --no-install-recommends -y iproute2 iptables; } >/dev/null 2>&1; } \
	|| echo "No ip or iptables: tests of sites behind NAT will be skipped. On Debian or Ubuntu: apt-get install iproute2 iptables"

bench: setup
	$(BIN)/python -m benchmarks

chaos: setup
	$(BIN)/python -m tests.chaos --agents 30 --minutes 15 --seed 0 --write
	$(BIN)/python -m tests.chaos --agents 8 --minutes 5 --seed 1 --honest --mask 100
	$(BIN)/python -m tests.chaos --agents 8 --minutes 5 --seed 1 --unbounded

pictures: setup chromium
	$(BIN)/python -m tests.pictures

dist: setup
	$(BIN)/python -m build --no-isolation
	GOSSAMER_PURE=1 $(BIN)/python -m build --no-isolation --wheel

clean:
	find src -name '*.so' -delete
	rm -rf docs/_build docs/_generated docs/auto_gallery docs/reference/api
	rm -rf .venv build dist results .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

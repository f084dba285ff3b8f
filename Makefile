# make run     everything the paper shows, reproduced, with a report        make test   all checks and tests
# make quick   the everyday tests (under 90 seconds)                        make bench  speed, as ratios in one run
# make chaos   a fleet in trouble for 15 minutes (docs/reliability.md)       make dist   sdist and wheels, in dist/
# make docs    the documentation site, in docs/_build/html
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.ready
ROUND := $(wildcard setup.py src/gossamer/agents/round/*.p*)
# One worker more than a small machine has cores: tests of fleets and pages wait for others most of the time.
PYTEST := $(BIN)/python -m pytest -n 3 --dist loadgroup

.PHONY: setup run test quick lint docs chromium prometheus bench chaos dist clean
.DEFAULT_GOAL := setup

# Numba's code, too, is compiled here, on all cores; where nothing has changed, this is a matter of a second.
setup: .venv/.compiled
	$(BIN)/gossamer warmup

# Not compiled while installing: most of what is installed is never imported.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "Python 3.11 or newer is needed, this is " + sys.version'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt -e '.[all,dev,docs]'
	touch $(STAMP)

# The compiled modules of an agent's round, rebuilt where their source has changed (see setup.py).
.venv/.compiled: $(STAMP) $(ROUND)
	$(BIN)/python setup.py --quiet build_ext --inplace
	touch .venv/.compiled $(wildcard src/gossamer/agents/round/*.so)

run: setup
	$(BIN)/gossamer reproduce --out results/paper
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

test:
	$(MAKE) -j 3 lint docs chromium prometheus
	$(PYTEST)

# The dashboard is tested in a real browser; without one those tests are skipped, and say so.
chromium:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null \
	|| { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	  && { apt-get -qq update; apt-get -qq install --no-install-recommends -y chromium; } >/dev/null 2>&1; } \
	|| echo "No Chromium: tests in the browser will be skipped. On Debian or Ubuntu: apt-get install chromium"

# The files for Prometheus are tested with a real one: its Debian package is unpacked, not installed, so no service starts.
prometheus: $(STAMP)
	@command -v prometheus promtool >/dev/null || test -x $(BIN)/promtool || { folder=$$(mktemp -d) && (cd $$folder \
	  && { apt-get -qq download prometheus || { apt-get -qq update && apt-get -qq download prometheus; }; } \
	  && dpkg-deb --extract prometheus_*.deb .) >/dev/null 2>&1 \
	  && cp $$folder/usr/bin/prometheus $$folder/usr/bin/promtool $(BIN)/ && rm -r $$folder; } \
	|| echo "No Prometheus: tests with it will be skipped. On Debian or Ubuntu: apt-get install prometheus"

bench: setup
	$(BIN)/python -m benchmarks

chaos: setup
	$(BIN)/python -m tests.chaos --agents 30 --minutes 15 --seed 0 --write

dist: setup
	$(BIN)/python -m build --no-isolation
	GOSSAMER_PURE=1 $(BIN)/python -m build --no-isolation --wheel

clean:
	find src -name '*.so' -delete
	rm -rf docs/_build docs/_generated docs/auto_gallery docs/reference/api
	rm -rf .venv build dist results .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

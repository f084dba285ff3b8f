"""The files in deploy/: valid as far as their own tools can tell, and about metrics that agents really serve."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import urllib.request
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
import yaml

from gossamer.agents.agent import Agent
from gossamer.agents.host.metrics import AgentCollector
from gossamer.agents.host.web import serve
from gossamer.agents.membership.changes import add, change, remove
from gossamer.agents.membership.fleet import Fleet
from gossamer.agents.membership.hosts import names_and_endpoints
from gossamer.agents.transports.memory import Memory
from gossamer.networks import Network
from tests.support.commands import invoke
from tests.support.small_fleets import fleet as fleet_settings
from tests.support.small_fleets import free_ports
from tests.support.waiting import until

DEPLOY = Path(__file__).parents[1] / "deploy"
DASHBOARD = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
RULES = yaml.safe_load((DEPLOY / "prometheus-rules.yml").read_text())["groups"][0]["rules"]


def queries() -> list[str]:
    """The dashboard's queries, with values in place of its variables."""
    found = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    return [
        q.replace("$__rate_interval", "1m").replace("$fleet", ".*").replace("$agent", ".*") for q in found
    ]


def program(name: str) -> str:
    """A program of Prometheus: the one that `make prometheus` put next to Python, or an installed one."""
    found = shutil.which(name, path=f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}")
    if found is None:
        pytest.skip(
            f"{name} is not installed; run `make prometheus`, or on Debian apt-get install prometheus"
        )
    return found


def promtool(*words: object) -> subprocess.CompletedProcess[str]:
    command = [program("promtool"), *map(str, words)]
    return subprocess.run(command, cwd=DEPLOY, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "words",
    [
        ("check", "config", "prometheus.yml"),
        ("check", "rules", "prometheus-rules.yml"),
        ("test", "rules", "prometheus-rules-test.yml"),
    ],
    ids=" ".join,
)
@pytest.mark.slow
def test_prometheus_accepts_its_files(words: tuple[str, ...]) -> None:
    done = promtool(*words)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_prometheus_scrapes_the_agents_of_a_fleet(tmp_path: Path) -> None:
    """One that is added is scraped, one that is removed no longer; the configuration is ours, with shorter times."""
    prometheus = program("prometheus")
    port, *ports = free_ports(5)
    metrics = {f"agent{k}": f"127.0.0.1:{place}" for k, place in enumerate(ports)}
    fleet = Fleet.create(Network.complete(3))
    agents = [msgspec.structs.replace(agent, metrics=metrics[agent.name]) for agent in fleet.agents]
    path = fleet.with_(agents=agents).write(tmp_path / "fleet")
    config = (DEPLOY / "prometheus.yml").read_text().replace("15s", "100ms")
    (tmp_path / "prometheus.yml").write_text(config)
    shutil.copy(DEPLOY / "prometheus-rules.yml", tmp_path)

    def publish() -> None:
        done = invoke("fleet", "targets", "-f", path, "--out", tmp_path / "gossamer-targets.json")
        assert done.exit_code == 0, done.output

    def scraped() -> set[str]:
        """The agents whose newest scrape succeeded."""
        try:
            query = f"http://127.0.0.1:{port}/api/v1/query?query=gossamer_round"
            with urllib.request.urlopen(query, timeout=60) as answer:
                found = json.load(answer)["data"]["result"]
        except OSError:
            return set()
        assert all(one["metric"]["fleet"] == "gossamer" for one in found)
        return {one["metric"]["agent"] for one in found}

    transport = Memory().transport(0, (1,))
    snapshot = Agent(fleet_settings(Network.path(2))[0], transport=transport).snapshot
    with ExitStack() as stack:
        for name, place in metrics.items():
            stack.callback(serve(AgentCollector(lambda: snapshot, name), str, int(place.rpartition(":")[2])))
        publish()
        storage = f"--storage.tsdb.path={tmp_path / 'data'}"
        process = subprocess.Popen(
            [
                prometheus,
                f"--config.file={tmp_path / 'prometheus.yml'}",
                storage,
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stderr=subprocess.DEVNULL,
        )
        stack.callback(process.wait)
        stack.callback(process.kill)
        until(lambda: scraped() == {"agent0", "agent1", "agent2"}, "the scrape of all")
        change(path, lambda draft: add(draft, "agent3", "h:1", ["agent0"], metrics=metrics["agent3"]))
        publish()
        until(lambda: "agent3" in scraped(), "the scrape of the one that was added")
        change(path, lambda draft: remove(draft, "agent1"))
        publish()
        until(
            lambda: scraped() == {"agent0", "agent2", "agent3"},
            "the end of scraping the one that was removed",
        )


def test_every_alert_is_tested() -> None:
    tests = yaml.safe_load((DEPLOY / "prometheus-rules-test.yml").read_text())["tests"]
    firing = {case["alertname"] for test in tests for case in test["alert_rule_test"] if case["exp_alerts"]}
    quiet = {case["alertname"] for case in tests[0]["alert_rule_test"]}
    assert firing == quiet == {rule["alert"] for rule in RULES}


def test_the_queries_of_the_dashboard_are_valid(tmp_path: Path) -> None:
    rules = [{"record": f"query:{k}", "expr": query} for k, query in enumerate(queries())]
    file = tmp_path / "queries.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    done = promtool("check", "rules", file)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_metric_is_one_that_an_agent_serves() -> None:
    """Metrics whose values are not known yet have no lines, so the families are compared."""
    settings = fleet_settings(Network.path(2))[0]
    agent = Agent(settings, transport=Memory().transport(0, (1,)))
    families = list(
        AgentCollector(lambda: agent.snapshot, "agent0", certificate_end=lambda: datetime.now(UTC)).collect()
    )
    served = {family.name + ("_total" if family.type == "counter" else "") for family in families}
    text = "\n".join([*queries(), *(rule["expr"] for rule in RULES)])
    for variable in DASHBOARD["templating"]["list"]:
        text += json.dumps(variable["query"])
    used = set(re.findall(r"gossamer_[a-z_]+", text))
    assert len(used) > 15
    assert used <= served


def test_the_dashboard_can_be_imported() -> None:
    assert DASHBOARD["uid"] == "gossamer-fleet"
    variables = [variable["name"] for variable in DASHBOARD["templating"]["list"]]
    assert variables == ["datasource", "fleet", "agent"]
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) > 10
    cells = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(cells)) == len(cells)  # no panel covers another
    assert max(x for x, _ in cells) < 24
    for panel in panels:
        assert panel["title"]
        assert all(
            target["expr"] and target["datasource"]["uid"] == "${datasource}" for target in panel["targets"]
        )


def test_the_unit_is_valid(tmp_path: Path) -> None:
    """With a program that exists here in place of the installed one."""
    tool = shutil.which("systemd-analyze")
    if tool is None:
        pytest.skip("systemd-analyze is not installed; on Debian, apt-get install systemd")
    text = (DEPLOY / "gossamer@.service").read_text()
    program = re.search(r"^ExecStart=(\S+) agent ", text, re.MULTILINE)
    assert program
    unit = tmp_path / "gossamer@.service"
    unit.write_text(text.replace(program[1], sys.executable))
    done = subprocess.run([tool, "verify", str(unit)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not [line for line in done.stderr.splitlines() if "gossamer@" in line]


SERVICE = """
import json, os, shlex, signal, subprocess, sys, time, urllib.request
from pathlib import Path
unit, folder, commands, packages = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4]
for place in ("/opt", "/var/lib"):
    subprocess.run(["mount", "-t", "tmpfs", "none", place], check=True)
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
offline = {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_QUIET": "1"}
offline |= {"PYTHONPATH": packages.replace("\\n", ":"), "CC": "false"}  # so nothing is compiled
for command in commands.splitlines():
    subprocess.run(command, shell=True, check=True, env=os.environ | offline)
    for site in Path("/opt/gossamer/venv/lib").glob("python*/site-packages"):
        (site / "packages.pth").write_text(packages)  # what pip would have fetched
home = Path("/var/lib/gossamer/agent0")
subprocess.run(["mkdir", "-p", home.parent], check=True)
subprocess.run(["cp", "-r", folder, home], check=True)
(home / "agent.env").write_text("GOSSAMER_SOURCE=cmd:while sleep 0.05; do echo 4; done\\n")
lines = dict(line.split("=", 1) for line in unit.read_text().replace("%i", "agent0").splitlines() if "=" in line)
assert lines["EnvironmentFile"] == f"-{home}/agent.env"
given = dict(line.split("=", 1) for line in (home / "agent.env").read_text().splitlines())
words = shlex.split(lines["ExecStart"])
def start():
    return subprocess.Popen(words, cwd=lines["WorkingDirectory"], env={"PATH": "/usr/bin:/bin"} | given,
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
agent, text = start(), ""
deadline = time.monotonic() + 120
while 'gossamer_estimate{agent="agent0",component="0"} 4.0' not in text and time.monotonic() < deadline:
    try:
        text = urllib.request.urlopen("http://127.0.0.2:9555/metrics", timeout=60).read().decode()
    except OSError:
        time.sleep(0.1)
agent.send_signal(signal.SIGTERM)
_, logged = agent.communicate(timeout=120)
file = home / "fleet.toml"
file.write_text(file.read_text().replace("format = 1", "format = 7"))
wrong = start()
print(json.dumps({"served": "gossamer_samples_total" in text, "code": agent.returncode, "wrong": wrong.wait(120),
                  "store": (home / "store" / "agent0.sqlite").exists(), "log": logged.decode()[-2000:]}))
"""


@pytest.mark.slow
def test_the_service_runs_from_its_environment(tmp_path: Path) -> None:
    """The commands of the README make its environment, and the unit's own command line runs an agent in it.

    In namespaces of mounts and networks, without a network: pip uses what this environment has. The agent serves its
    metrics where fleet.toml says, stops with 0, and ends with 2 if the file is wrong.
    """
    space = ["unshare", "--map-root-user", "--mount", "--net"]
    if (
        not all(map(shutil.which, ("unshare", "ip", "mount")))
        or subprocess.run([*space, "true"], check=False).returncode
    ):
        pytest.skip("this machine allows no namespaces, or has no ip or mount")
    sources = tmp_path / "sources"
    root = DEPLOY.parent
    shutil.copytree(
        root / "src", sources / "src", ignore=shutil.ignore_patterns("*.so", "*.egg-info", "__pycache__")
    )
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(root / name, sources)
    readme = (DEPLOY / "README.md").read_text()
    commands = re.search(r"```sh\n(python3 -m venv .*?)```", readme, re.DOTALL)
    assert commands
    made = Fleet.create(Network.path(2))
    first = msgspec.structs.replace(made.agents[0], metrics="127.0.0.2:9555")
    made.with_(agents=[first, made.agents[1]]).write(tmp_path / "fleet")
    packages = "\n".join(dict.fromkeys([sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]))
    python = sys.executable
    done = subprocess.run(
        [
            *space,
            python,
            "-c",
            SERVICE,
            DEPLOY / "gossamer@.service",
            tmp_path / "fleet",
            commands[1].replace("python3 ", f"{python} ", 1),
            packages,
        ],
        cwd=sources,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert (found["served"], found["code"], found["wrong"], found["store"]) == (True, 0, 2, True), found[
        "log"
    ]


def test_the_containers_are_those_of_their_fleet() -> None:
    """Each has an agent's name, which is its host name, its own key alone, and a port for metrics of its own."""
    network = Network.read(DEPLOY / "compose-edges.txt", format="edge-list")
    names, endpoints = names_and_endpoints(network, None)
    Fleet.create(network, names=names, endpoints=endpoints)
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    assert sorted(services) == sorted(names)
    assert endpoints == [f"{name}:7447" for name in names]
    assert len({service["ports"][0] for service in services.values()}) == 5
    script = (DEPLOY / "compose-folders.sh").read_text()
    assert f"for name in {' '.join(services)}; do" in script
    for name, service in services.items():
        assert service["command"][:2] == ["--id", name]
        assert all(volume.startswith(f"./agents/{name}") for volume in service["volumes"])
        assert f"./agents/{name}/certificates:/fleet/certificates:ro" in service["volumes"]
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]


@pytest.mark.slow
def test_the_image_has_what_an_agent_needs() -> None:
    """An agent runs without the packages that the image leaves out; `tests/agents/test_imports.py` has the list."""
    project = DEPLOY.parent / "pyproject.toml"
    script = DEPLOY / "agent_requirements.py"
    done = subprocess.run([sys.executable, script, project], capture_output=True, text=True, check=True)
    found = tomllib.loads(project.read_text())["project"]
    lines = done.stdout.split()
    extras = found["optional-dependencies"]
    assert set(lines) <= {*found["dependencies"], *extras["agents"], *extras["cli"]}
    assert not [line for line in lines if line.startswith(("numba", "scipy", "networkx", "matplotlib"))]
    program = """
import sys
for name in ("numba", "llvmlite", "scipy", "networkx", "matplotlib", "joblib", "threadpoolctl", "pyamg"):
    sys.modules[name] = None
from gossamer.cli import main
sys.argv[1:] = ["agent", "no-such-fleet.toml", "--id", "0", "--loss", "0.1"]
main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "no-such-fleet.toml cannot be read" in done.stderr, done.stderr


def test_the_container_is_not_root_and_says_whether_it_is_well() -> None:
    text = (DEPLOY / "Containerfile").read_text()
    last = text[text.rindex("\nFROM ") :]
    assert "\nUSER gossamer\n" in last
    assert "/readyz" in last[last.index("HEALTHCHECK") :]
    copied = {word for line in text.splitlines() if line.startswith("COPY ") for word in line.split()[1:-1]}
    assert all((DEPLOY.parent / name).exists() for name in copied)

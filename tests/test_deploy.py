"""The files in deploy/: valid as far as their own tools can tell, and about metrics that agents really serve."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from gossamer.agents.agent import Agent
from gossamer.agents.fleet.file import Fleet
from gossamer.agents.fleet.hosts import names_and_endpoints
from gossamer.agents.host.metrics import AgentCollector
from gossamer.agents.transports.memory import Memory
from gossamer.networks import Network
from tests.agents.small_fleets import fleet

DEPLOY = Path(__file__).parents[1] / "deploy"
DASHBOARD = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
RULES = yaml.safe_load((DEPLOY / "prometheus-rules.yml").read_text())["groups"][0]["rules"]


def queries() -> list[str]:
    """The dashboard's queries, with values in place of its variables."""
    found = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    return [
        q.replace("$__rate_interval", "1m").replace("$fleet", ".*").replace("$agent", ".*") for q in found
    ]


def promtool(*words: object) -> subprocess.CompletedProcess[str]:
    tool = shutil.which("promtool")
    if tool is None:
        pytest.skip("promtool is not installed; on Debian, apt-get install prometheus")
    return subprocess.run([tool, *map(str, words)], cwd=DEPLOY, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "words",
    [
        ("check", "config", "prometheus.yml"),
        ("check", "rules", "prometheus-rules.yml"),
        ("test", "rules", "prometheus-rules-test.yml"),
    ],
    ids=" ".join,
)
def test_prometheus_accepts_its_files(words: tuple[str, ...]) -> None:
    done = promtool(*words)
    assert done.returncode == 0, done.stdout + done.stderr


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
    settings = fleet(Network.path(2))[0]
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


def test_the_image_has_what_an_agent_needs() -> None:
    """An agent runs without the packages that the image leaves out; `tests/agents/test_imports.py` has the list."""
    project = DEPLOY.parent / "pyproject.toml"
    script = DEPLOY / "agent_requirements.py"
    done = subprocess.run([sys.executable, script, project], capture_output=True, text=True, check=True)
    found = tomllib.loads(project.read_text())["project"]
    lines = done.stdout.split()
    assert set(lines) <= {*found["dependencies"], *found["optional-dependencies"]["agents"]}
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

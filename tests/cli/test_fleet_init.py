"""gossamer fleet init: the networks that it takes, and where their agents are."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import pytest
from tests.support.commands import invoke

from gossamer.agents.membership.fleet import Fleet


@pytest.mark.parametrize("flag", ["--edges", "--topology"])
@pytest.mark.parametrize("text", ["0 1\n1 2\n", "1 2\n2 10.5\n", "node_1! b\nb c\n"])
def test_nodes_that_are_not_addresses_run_on_this_machine(tmp_path: Path, flag: str, text: str) -> None:
    """Numbers in a file of edges once became the addresses 0:7447, 1:7447, ..."""
    (tmp_path / "edges").write_text(text)
    out = tmp_path / "fleet"
    result = invoke("fleet", "init", flag, tmp_path / "edges", "--out", out, "--port", 24500)
    assert result.exit_code == 0, result.output
    assert "all on this machine, ports 24500 to 24502" in result.output
    assert ("agent0 is" in result.output) == (text[0] != "0")
    assert "gossamer fleet up" in result.output
    made = Fleet.read(out / "fleet.toml").agents
    assert [agent.name for agent in made] == ["agent0", "agent1", "agent2"]
    assert [agent.endpoint for agent in made] == [f"127.0.0.1:{port}" for port in range(24500, 24503)]
    assert all(agent.source.startswith("sim:") for agent in made)


def test_a_fleet_that_learns_a_model(tmp_path: Path) -> None:
    words = ("fleet", "init", "--topology", "cycle:3", "--out", tmp_path / "fleet", "--model")
    result = invoke(*words, "logistic:age + dose")
    assert result.exit_code == 0, result.output
    made = Fleet.read(tmp_path / "fleet" / "fleet.toml")
    assert (made.model.family, made.model.covariates) == ("logistic", ("age", "dose"))
    assert made.observations.weighting == "samples"
    assert [agent.source for agent in made.agents] == [f"csv:agent{i}.csv,target=label" for i in range(3)]
    assert "--model must be FAMILY:COVARIATE" in str(invoke(*words, "logistic").exception)
    refused = invoke(*words, "logistic:age", "--source", "sim:1,1,0")
    assert "a fleet that learns a model needs rows with labels" in str(refused.exception)


def test_nodes_that_are_addresses_stay_addresses(tmp_path: Path) -> None:
    (tmp_path / "edges").write_text("10.0.0.1 hostB:9000\nhostB:9000 c3\n")
    words = ("fleet", "init", "--edges", tmp_path / "edges", "--out", tmp_path / "fleet")
    result = invoke(*words)
    assert result.exit_code == 0, result.output
    made = Fleet.read(tmp_path / "fleet" / "fleet.toml").agents
    assert [agent.endpoint for agent in made] == ["10.0.0.1:7447", "hostB:9000", "c3:7447"]
    assert "on each host: gossamer agent" in result.output
    assert "--port has no effect" in str(invoke(*words, "--port", 24500).exception)
    (tmp_path / "edges").write_text("10.0.0.1 7\n7 c3\n")
    assert "got '10.0.0.1' and '7'; give hosts" in str(invoke(*words).exception)


def test_the_topology_may_be_any_file_of_a_network(tmp_path: Path) -> None:
    for text, name in (("0,1,0\n1,0,1\n0,1,0\n", "three.matrix"), (None, "net.graphml")):
        file = tmp_path / name
        if text is None:
            nx.write_graphml(nx.cycle_graph(4), file)
        else:
            file.write_text(text)
        result = invoke("fleet", "init", "--topology", file, "--out", tmp_path / file.stem)
        assert result.exit_code == 0, result.output
        edges = Fleet.read(tmp_path / file.stem / "fleet.toml").edges
        assert len(edges) == (2 if text else 4)
    assert "or a file: edge list" in " ".join(
        invoke("fleet", "init", "--help").output.replace("│", "").split()
    )


def test_a_fleet_with_noise_says_what_it_costs_and_gives(tmp_path: Path) -> None:
    words = ("fleet", "init", "--topology", "hypercube:3", "--out", tmp_path / "fleet", "--range=0,100")
    target = ("--mask", 1e4, "--epsilon", 1, "--delta", 1e-3, "--change", 10, "--honest", 0.8)
    result = invoke(*words, *target)
    assert result.exit_code == 0, result.output
    made = Fleet.read(tmp_path / "fleet" / "fleet.toml")
    assert made.privacy.honest == 6  # the file has the number, not the share
    (noise,) = made.settings(0, insecure=True).noise_scale
    assert (
        f"adds noise of standard deviation {noise:.4g} to its level: {noise / 8**0.5:.4g} in" in result.output
    )
    assert "against the worst single neighbor epsilon is 0.9" in result.output
    refused = invoke(*words[:4], "--out", tmp_path / "other", "--noise", "much")
    assert "--noise must be a number such as 100, or one per component, got 'much'" in str(refused.exception)

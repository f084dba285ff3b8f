"""The fleet's file: what is written is what is read, and a mistake is named with its field."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from tests.support import SUPPORT
from tests.support.own_methods import HeavyBall
from tests.support.reading import parse_source
from tests.support.small_fleets import free_ports

from gossamer.agents.config.tables import (
    MethodTable,
    ObservationsTable,
    RoundsTable,
    StatisticsTable,
    duration,
)
from gossamer.agents.host.options import Options
from gossamer.agents.membership.fleet import Fleet, simulated_sources
from gossamer.agents.membership.hosts import names_and_endpoints, read_hosts, with_port
from gossamer.agents.sources.kinds import PacedSource
from gossamer.errors import InvalidInput
from gossamer.facts import UnknownFacts
from gossamer.methods import SDA, SSDA, AnytimeSDA, Method
from gossamer.networks import Network


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A fleet with weights and with parameters from its spectrum, as all files had them before there was a choice."""
    return Fleet.create(Network.grid(2, 3), method=AnytimeSDA()).write(tmp_path / "fleet")


def edit(path: Path, old: str, new: str) -> Path:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    return path


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    made = Fleet.create(
        Network.cycle(5),
        fleet="pumps",
        observations=ObservationsTable(dimension=3, range=((0.0, 1.0), (0.0, 2.0), (-1.0, 3.0))),
        statistics=StatisticsTable(variance=True, bins=(0.0, 1.0, 2.5)),
        rounds=RoundsTable(every="0", timeout="1s", death="1m"),
    )
    path = made.write(tmp_path)
    assert Fleet.read(path) == made
    for agent in made.agents:
        for suffix in ("pem", "key"):
            assert (tmp_path / "certificates" / f"{agent.name}.{suffix}").is_file()


def test_the_range_and_the_number_of_members_reach_every_agent(path: Path) -> None:
    settings = Fleet.read(edit(path, "range = []", "range = [-40, 60]")).settings(0, insecure=True)
    assert (settings.range, settings.outside, settings.members) == (((-40.0, 60.0),), "refuse", 6)


def test_every_field_is_explained_by_a_comment(path: Path) -> None:
    lines = path.read_text().splitlines()
    fields = [k for k, line in enumerate(lines) if re.match(r"[a-z_]+ = ", line)]
    assert len(fields) >= 45
    for k in fields:
        assert lines[k - 1].startswith("# "), lines[k]
    assert tomllib.loads(path.read_text())["format"] == 1


def test_the_methods_parameters_come_from_the_spectrum() -> None:
    network = Network.grid(3, 4)
    made = Fleet.create(network, method=AnytimeSDA())
    c = AnytimeSDA().coefficients(network, 1)
    written = made.method.parameters
    assert made.method.name == "anytime-sda"
    assert written["step_size"] == pytest.approx(1 / network.lambda_max)
    assert written["step_size"] == c.step_size
    assert written["momentum"] == c.momentum
    assert written["smoothing"] == AnytimeSDA().window(network)
    np.testing.assert_allclose(made.gossip(), network.gossip.toarray(), atol=1e-15)
    assert made.facts.condition_number == pytest.approx(network.condition_number)


def test_by_default_nothing_needs_the_spectrum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No parameters, no weights, and neither writing nor reading computes an eigenvalue."""
    network = Network.grid(3, 4)

    def refuse(*_: object) -> None:
        raise AssertionError("eigenvalues were computed")

    monkeypatch.setattr(Network, "spectrum", property(refuse))
    monkeypatch.setattr(np.linalg, "eigvalsh", refuse)
    path = Fleet.create(network).write(tmp_path)
    found = tomllib.loads(path.read_text())
    assert found["method"] == {"name": "anytime-sda", "acceleration": "local-heavy-ball", "gain": 0.0}
    assert found["edges"] == network.edges.tolist()
    settings = Fleet.read(path).settings(4, tmp_path)
    assert settings.facts == UnknownFacts()
    for n in settings.neighbors:
        assert n.weight == 0.0  # from the degrees
        assert n.degree == len(network.neighbors(n.id))


def test_weights_that_do_not_follow_from_the_degrees_are_written(tmp_path: Path) -> None:
    network = Network.path(4, weights="max-degree")
    read = Fleet.read(Fleet.create(network).write(tmp_path))
    np.testing.assert_allclose(read.gossip(), network.gossip.toarray(), atol=1e-15)


def test_a_step_size_of_the_local_form_is_checked(tmp_path: Path) -> None:
    """Its step size may exceed 1/lambda_max, here 0.625, because it is stable up to 4/(3 lambda_max)."""
    network = Network.hypercube(4)
    method = AnytimeSDA("local", step_size=0.65, ramp=8.0)
    path = Fleet.create(network, method=method).write(tmp_path)
    assert Fleet.read(path).settings(0, insecure=True).method == method
    lines = path.read_text().splitlines()
    for name in ("acceleration", "ramp"):
        at = next(k for k, line in enumerate(lines) if line.startswith(f"{name} = "))
        assert lines[at - 1].startswith("# ")
    path.write_text(path.read_text().replace("step_size = 0.65", "step_size = 0.85"))
    with pytest.raises(InvalidInput, match=r"method\.step_size must be at most 1\.3/lambda_max = 0\.8125"):
        Fleet.read(path)


def test_an_agent_gets_its_own_part(path: Path) -> None:
    network = Network.grid(2, 3)
    fleet = Fleet.read(path)
    for i in range(6):
        settings = fleet.settings(i, path.parent, every=0.0, store=Path("x"))
        assert [n.id for n in settings.neighbors] == network.neighbors(i).tolist()
        for n in settings.neighbors:
            assert n.weight == pytest.approx(-network.gossip[i, n.id])
            assert n.endpoint == fleet.agents[n.id].endpoint
        assert settings.pace is None
        assert settings.store == Path("x")
        assert settings.tls is not None
        settings.tls.check_files()
    assert fleet.settings("agent3", path.parent).id == 3
    assert fleet.settings("3", path.parent).pace == 0.1
    assert fleet.settings(3, insecure=True).tls is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("format = 1", "format = 2", "format must be 1, got 2"),
        (
            "momentum = ",
            "momentun = ",
            r"method: anytime-sda takes .*momentum, ramp, got 'momentun' \(did you mean 'momentum'\?\)",
        ),
        ('every = "100ms"', "every = 100", r"rounds\.every: a value of type str is required, got int"),
        ('every = "100ms"', 'every = "soon"', r"rounds\.every must be a time .* got 'soon'"),
        ('every = "100ms"', 'every = "-1s"', r"rounds\.every must be a time"),
        (
            '\ntimeout = "auto"',
            '\ntimeout = "0"',
            r": rounds\.timeout must be a finite number above 0, got 0",
        ),
        ('\ntimeout = "auto"', '\ntimeout = "soon"', r'rounds\.timeout must be "auto" or a time such as'),
        (
            'stop_timeout = "5s"',
            'stop_timeout = "1s"',
            r"rounds\.stop_timeout must be a finite number of at least 3",
        ),
        ('\ntimeout = "auto"', '\ntimeout = "6s"', r": rounds\.death must be longer than timeout"),
        ("momentum = ", "momentum = 1", r": method\.momentum must be .* below 1, got"),
        ("smoothing = ", "smoothing = 999999", r": method\.smoothing must be .* at most 10000, got 999999"),
        ("range = []", "range = [60, -40]", r": observations\.range must be the least and the largest"),
        (
            "range = []",
            "range = [[0, 1], [0, 1]]",
            r": observations\.range must be .* each of the 1 component",
        ),
        ('outside = "refuse"', 'outside = "keep"', r": observations\.outside must be 'refuse' or 'clip'"),
        ("bins = []", "bins = [2.0, 1.0]", r": statistics\.bins must be at least two increasing"),
        ("message_bytes = 0", "message_bytes = -1", r": wire\.message_bytes must be a whole number"),
        (
            "message_bytes = 0",
            "message_bytes = 100",
            r": wire\.message_bytes must be at least 336, the length",
        ),
        (
            "dimension = 1",
            "dimension = 0",
            r": observations\.dimension must be a whole number of at least 1, got 0",
        ),
        ('weighting = "agents"', 'weighting = "votes"', r": observations\.weighting must be 'agents' or"),
        ("{id = 2,", "{id = 7,", r"edges\[2\]: an edge must join .* of this fleet, once, got \[1, 2\]"),
        ("{id = 2,", "{id = 1,", "agents: id must be different for every agent, got 1 twice"),
        ("{id = 2,", "{id = -2,", r"agents\[2\]\.id must be a whole number from 0 to 4294967295, got -2"),
        ('name = "agent2"', 'name = "agent2", common_name = "agent1@2"', r"agents\[2\]\.common_name must be"),
        ('name = "agent2"', 'name = "agent2", listen = "here"', r"listen must be host:port.*got 'here'"),
        ('name = "agent2"', 'name = "agent1"', "agents: name must be different .* got 'agent1' twice"),
        ('name = "agent2"', 'name = "a/b"', r": agents\[2\]\.name: an agent's name must have 1 to 64"),
        ('127.0.0.1:7449"', '127.0.0.1:7448"', "agents: endpoint must be different"),
        ('127.0.0.1:7449"', 'nowhere"', r": agents\[2\]\.endpoint must be host:port"),
        ('127.0.0.1:7449"', '"', r"agents\[2\]\.endpoint must be host:port.*got ''"),
        ('127.0.0.1:7449"', '::1"', r"agents\[2\]\.endpoint must be host:port.*got '::1'"),
        ('127.0.0.1:7449"', 'pümp:7449"', r"agents\[2\]\.endpoint must be .*ASCII"),
        ("{id = 2,", '{id = "2",', r"agents\[2\]\.id: a value of type int is required, got str"),
        (
            "[0, 1, ",
            "[0, 0, ",
            r"edges\[0\]: an edge must join two different agents of this fleet, once, got \[0, 0\]",
        ),
        ("[0, 1, ", "[0, 9, ", r"edges\[0\]: .* got \[0, 9\]"),
        ("[0, 3, ", "[0, 1, ", r"edges\[1\]: .* once"),
        (
            "[0, 1, 0.25]",
            "[0, 1, -1.0]",
            r"edges\[0\]: a weight must be a finite number above 0, or left out, got -1\.0",
        ),
        (
            "[0, 1, 0.25]",
            "[0, 1, 25.0]",
            r"method\.step_size must be at most 1/lambda_max = .*acceleration = \"local-heavy-ball\"",
        ),
        ("edges = [", "edges = [[", "must be a valid TOML file: "),
        ("rounds_ahead = ", "rounds_ahed = ", r"wire: there is no field 'rounds_ahed'"),
    ],
)
def test_a_mistake_is_named_with_its_field(path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as error:
        Fleet.read(edit(path, old, new))
    assert str(path) in str(error.value)


def test_messages_of_just_the_limit_are_allowed(path: Path) -> None:
    assert Fleet.read(edit(path, "message_bytes = 0", "message_bytes = 336")).wire.message_bytes == 336


@pytest.mark.parametrize("file", ["ca.pem", "agent2.pem", "agent2.key"])
def test_a_missing_certificate_says_what_to_do(path: Path, file: str) -> None:
    (path.parent / "certificates" / file).unlink()
    with pytest.raises(InvalidInput, match=rf"{file}.*`gossamer fleet init`.*copy"):
        Fleet.read(path).settings(2, path.parent)


def test_a_fleet_that_falls_apart_is_refused(path: Path) -> None:
    """Both edges of a corner agent of the 2 x 3 grid are gone."""
    text = re.sub(r"  \[0, [13], .*\],\n", "", path.read_text())
    path.write_text(text)
    with pytest.raises(
        InvalidInput, match=r"connected network, but this graph has 2 components \(sizes 5, 1\)"
    ):
        Fleet.read(path)


def test_an_unknown_agent_or_a_missing_file_says_so(path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"agents 0 to 5 \(agent0 to agent5\), got '9'"):
        Fleet.read(path).member("9")
    with pytest.raises(InvalidInput, match=r"cannot be read .*gossamer fleet init"):
        Fleet.read(path.parent / "flet.toml")


@pytest.mark.parametrize(
    ("text", "numbers"), [("0-2,5", [0, 1, 2, 5]), ("agent3, 1", [3, 1]), ("4", [4]), ("2-2", [2])]
)
def test_some_agents_can_be_chosen(path: Path, text: str, numbers: list[int]) -> None:
    assert [member.id for member in Fleet.read(path).some(text)] == numbers


def test_ids_may_have_gaps(path: Path) -> None:
    """Agent 5, a corner of the grid, is gone, and agent 4 has the number 9."""
    text = re.sub(r"  \[(\d, 5|5, \d), .*\],\n|  \{id = 5.*\n", "", path.read_text())
    text = text.replace("{id = 4,", "{id = 9,").replace("[1, 4,", "[1, 9,").replace("[3, 4,", "[3, 9,")
    path.write_text(text)
    fleet = Fleet.read(path)
    assert fleet.member(9).name == "agent4"
    assert [member.id for member in fleet.some("2-9")] == [2, 3, 9]
    assert [n.id for n in fleet.settings(9, path.parent).neighbors] == [1, 3]
    assert fleet.facts.agents == 5
    with pytest.raises(InvalidInput, match=r"agents 0 to 9 \(agent0 to agent4\), got 4"):
        fleet.member(4)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "only must name agents such as 0-3,7: this fleet has the agents 0 to 5"),
        ("0,9", "agents 0 to 5 .* got '9'"),
        ("0-999999999", "agents 0 to 5 .* got '999999999'"),
        ("3-", "got '3-'"),
        ("1,agent1", "only must name each agent once"),
        ("3-1", "from the smaller number to the larger, got 3-1; write 1-3"),
    ],
)
def test_a_choice_of_agents_says_what_was_required(path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Fleet.read(path).some(text)


def test_names_win_over_numbers() -> None:
    fleet = Fleet.create(Network.path(4), names=["1", "2", "3", "1-3"])
    assert fleet.member("1").id == 0
    assert fleet.member(1).id == 1
    assert fleet.member("0").id == 0
    assert fleet.settings("2", insecure=True).id == 1
    assert [member.id for member in fleet.some("1,2")] == [0, 1]
    assert [member.id for member in fleet.some("1-3")] == [3]
    assert [member.id for member in fleet.some("2-3")] == [1, 2]


def test_an_existing_fleet_is_not_overwritten(path: Path) -> None:
    again = Fleet.create(Network.path(3))
    before = path.read_text()
    with pytest.raises(InvalidInput, match=r"fleet\.toml exists already, .*`gossamer fleet add`"):
        again.write(path.parent)
    assert path.read_text() == before
    path.unlink()  # the roster alone is a fleet, too
    with pytest.raises(InvalidInput, match=r"fleet\.roster exists already"):
        again.write(path.parent)


def test_an_edge_list_of_hosts_becomes_a_fleet(tmp_path: Path) -> None:
    edges = tmp_path / "edges.txt"
    edges.write_text(
        "# the plant\nhostA:7447 hostB:7447\nhostB:7447, hostA:7448\nhostA:7448 hostA:7447\nhostB:7447 hostC"
    )
    network = Network.read(edges, format="edge-list")
    names, endpoints = names_and_endpoints(network, None)
    assert sorted(names) == ["hostA-7447", "hostA-7448", "hostB-7447", "hostC"]
    fleet = Fleet.create(network, names=names, endpoints=endpoints, sources=["-"] * 4)
    assert fleet.member("hostC").endpoint == "hostC:7447"
    assert len(fleet.edges) == 4


def test_names_and_hosts_come_from_two_files(tmp_path: Path) -> None:
    edges, hosts = tmp_path / "edges.txt", tmp_path / "hosts.txt"
    edges.write_text("pump valve\nvalve tank\n")
    hosts.write_text(
        "pump 10.0.0.1:9000  # first floor\nvalve plant.example\ntank [::1]:7001\nspare 10.0.0.9\n"
    )
    names, endpoints = names_and_endpoints(
        Network.read(edges, format="edge-list"), read_hosts(hosts).endpoints
    )
    assert dict(zip(names, endpoints, strict=True)) == {
        "pump": "10.0.0.1:9000",
        "valve": "plant.example:7447",
        "tank": "[::1]:7001",
    }
    hosts.write_text("pump 10.0.0.1\n")
    with pytest.raises(InvalidInput, match="'valve' has none"):
        names_and_endpoints(Network.read(edges, format="edge-list"), read_hosts(hosts).endpoints)
    for lines, message in (
        (
            "pump 10.0.0.1 3\nvalve 10.0.0.2 3\n",
            r"hosts\.txt, line 2: the agent's number must be a new one, got '3'",
        ),
        ("pump 10.0.0.1 -1\n", "must be a new one, got '-1'"),
        (
            "pump 10.0.0.1 3\nvalve 10.0.0.2\n",
            "must give every agent its number, or none, but valve has none",
        ),
    ):
        hosts.write_text(lines)
        with pytest.raises(InvalidInput, match=message):
            read_hosts(hosts)
    hosts.write_text("pump 10.0.0.1\npump 10.0.0.2\n")
    with pytest.raises(InvalidInput, match=r"hosts\.txt, line 2 must be a new name and its host:port"):
        read_hosts(hosts)


@pytest.mark.parametrize(
    ("text", "seconds"), [("100ms", 0.1), ("2s", 2), ("1.5m", 90), ("1h", 3600), ("0", 0), ("250 us", 2.5e-4)]
)
def test_durations(text: str, seconds: float) -> None:
    assert duration("x", text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5", "-1s", "1d", "s", "1s2"])
def test_bad_durations_name_the_field(text: str) -> None:
    with pytest.raises(InvalidInput, match='every must be a time such as "250ms"'):
        duration("every", text)


def test_ports_are_added_where_they_are_missing() -> None:
    assert with_port("host") == "host:7447"
    assert with_port("[::1]") == "[::1]:7447"
    assert with_port("host:1") == "host:1"


def test_simulated_sensors_differ_from_agent_to_agent() -> None:
    assert len(set(simulated_sources(16))) == 16
    assert simulated_sources(4) == simulated_sources(16)[:4]


def set_method(path: Path, text: str) -> Path:
    path.write_text(re.sub(r"\[method\].*?\n\n", f"{text}\n\n", path.read_text(), flags=re.DOTALL))
    return path


def test_without_a_name_the_method_is_anytime_sda_from_the_spectrum(path: Path) -> None:
    """Files from before there was a choice name none; what is not given comes from the edges."""
    network = Network.grid(2, 3)
    settings = Fleet.read(set_method(path, "[method]\nsmoothing = 2.0\ngain = 0")).settings(0, insecure=True)
    assert settings.method == AnytimeSDA(smoothing=2.0)
    assert settings.facts.lambda_max == pytest.approx(network.lambda_max)
    assert settings.facts.inverse_square_trace == pytest.approx(network.inverse_square_trace)
    settings = Fleet.read(set_method(path, "[method]\ngain = 0.01")).settings(0, insecure=True)
    assert settings.method == AnytimeSDA(gain=0.01)


def test_no_table_of_the_method_is_needed_at_all(path: Path) -> None:
    assert Fleet.read(set_method(path, "")).settings(0, insecure=True).method == AnytimeSDA()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('name = "dsg"', "dsg cannot be deployed: .*use anytime-sda, ssda"),
        ('name = "sda"', "sda cannot be deployed: its rounds depend on the number of rounds"),
        ('name = "pairwise"', "pairwise cannot be deployed"),
        ('name = "adn"', "method: no method is called 'adn'"),
        ("name = 3", r"method\.name: a value of type str is required, got int"),
        ('name = "ssda"\nsmoothing = 3', "method: ssda takes samples, step_size, momentum, got 'smoothing'"),
        ('name = "ssda"\nstep_size = 9.0', r"method\.step_size must be at most 1/lambda_max"),
        ("step_size = -1.0", r"method\.step_size must be a finite number above 0, got -1\.0"),
        ('name = "mine.py:Mine"', "method: .*there is no file 'mine.py'"),
    ],
)
def test_a_method_that_cannot_be_used_is_refused(path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as error:
        Fleet.read(set_method(path, f"[method]\n{text}"), load=True)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    "method", [SSDA(), SDA(output="last"), AnytimeSDA(acceleration="chebyshev")], ids=str
)
def test_a_fleet_of_another_method_is_written_and_read_back(tmp_path: Path, method: Method) -> None:
    made = Fleet.create(Network.cycle(5), method=method)
    read = Fleet.read(made.write(tmp_path))
    assert read == made
    assert read.settings(0, insecure=True).method.label.startswith(method.label)


def test_a_method_of_ones_own_is_named_by_its_file() -> None:
    own = SUPPORT
    table = MethodTable(name="own_methods.py:HeavyBall", parameters={"momentum": 0.1})
    made = Fleet.create(Network.cycle(5), method=table, directory=own)
    assert made.settings(0, own, insecure=True).method.name == "heavy-ball"
    with pytest.raises(InvalidInput, match=r"MethodTable\(name='my_file\.py:MyMethod'\)"):
        Fleet.create(Network.cycle(5), method=HeavyBall())


@pytest.mark.slow
def test_a_fleet_that_knows_no_spectrum_is_nearly_as_good_as_a_center(tmp_path: Path) -> None:
    """Real processes, 300 rounds of 20 numbers: what they add to a center's error is a few percent of sigma^2/(N T).

    1.06 is expected (`gs.exact`), and the mean over 20 numbers has a standard error of about a third of the 0.06.
    """
    network, rounds, dimension = Network.grid(2, 3), 300, 20
    made = Fleet.create(
        network,
        endpoints=[f"127.0.0.1:{port}" for port in free_ports(network.agents)],
        observations=ObservationsTable(dimension=dimension),
        statistics=StatisticsTable(replicates=0),
        rounds=RoundsTable(every="0", timeout="10s", death="30s"),
    )
    path = made.write(tmp_path)
    processes = []
    try:
        for member in made.agents:
            options = Options(fleet=str(path), agent=member.name, rounds=rounds, report=100.0)
            command = [sys.executable, "-m", "gossamer.agents.host.process", options.text()]
            processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL))
        last = [json.loads(process.communicate(timeout=100)[0].splitlines()[-1]) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert [line["samples"] for line in last] == [rounds] * network.agents
    means = []
    for member in made.agents:
        source = parse_source(member.source, dimension, member.id)
        assert isinstance(source, PacedSource)
        means.append(np.mean(list(islice(source.rounds(), rounds)), axis=0).ravel())
    distance = np.array([line["estimate"] for line in last]) - np.mean(means, axis=0)
    assert 1 + (distance**2).mean() * network.agents * rounds < 1.15

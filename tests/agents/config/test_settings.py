"""What an agent's settings refuse, for those who make them in Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gossamer.agents.config.settings import AgentSettings, Neighbor, Tls, differing
from gossamer.errors import InvalidInput
from gossamer.facts import KnownFacts
from gossamer.methods import AnytimeSDA
from gossamer.methods.ledger import RETURN_RATE
from gossamer.networks import Network


def settings(**changes: Any) -> AgentSettings:
    return AgentSettings(**{"id": 0, "neighbors": ()} | changes)


def test_smoothing_is_limited_because_it_costs_memory() -> None:
    settings(method=AnytimeSDA(smoothing=1e4))
    with pytest.raises(
        InvalidInput, match="smoothing must be a finite number of at least 0 and at most 10000"
    ):
        settings(method=AnytimeSDA(smoothing=1e9))


def test_momentum_must_be_stable_because_a_fleet_runs_for_ever() -> None:
    with pytest.raises(InvalidInput, match="momentum must be a finite number of at least 0 and below 1"):
        settings(method=AnytimeSDA(momentum=1.0))


def test_the_local_form_asks_an_agent_for_weights_that_average() -> None:
    heavy = {"neighbors": (Neighbor(1, 1.0), Neighbor(2, 1.0))}
    settings(neighbors=(Neighbor(1, 0.5), Neighbor(2, 0.5)), method=AnytimeSDA("local"))
    with pytest.raises(
        InvalidInput, match=r"weights of agent0's edges must add up to at most 1, .* got 2; give facts"
    ):
        settings(**heavy, method=AnytimeSDA("local"))
    settings(**heavy, method=AnytimeSDA("local", step_size=0.3))
    settings(
        **heavy,
        method=AnytimeSDA("local"),
        facts=KnownFacts.of(Network.path(3, "laplacian").spectrum.eigenvalues),
    )


def test_neighbors_are_other_agents() -> None:
    twice = (Neighbor(1, name="pump"), Neighbor(1, name="pump"))
    with pytest.raises(
        InvalidInput, match="neighbors must be different agents other than agent0, got pump, pump"
    ):
        settings(neighbors=twice)


def test_a_method_is_made_not_named() -> None:
    with pytest.raises(InvalidInput, match=r"method must be a gossamer\.Method, got 'anytime-sda'"):
        settings(method="anytime-sda")


@pytest.mark.parametrize(
    "endpoint", ["", "localhost:1", "10.0.0.1:65535", "pump_7.example:7447", "[::1]:7447"]
)
def test_endpoints(endpoint: str) -> None:
    assert settings(endpoint=endpoint).endpoint == endpoint


@pytest.mark.parametrize(
    "endpoint", ["::1", ":1", "host", "host:0", "host:65536", "pümp:1", "a b:1", "h:\u0663"]
)
def test_what_is_no_endpoint(endpoint: str) -> None:
    with pytest.raises(InvalidInput, match="endpoint must be host:port"):
        settings(endpoint=endpoint)
    with pytest.raises(InvalidInput, match="neighbor endpoint must be host:port"):
        Neighbor(1, 0.5, endpoint)


def test_tls_reaches_ipv6_addresses() -> None:
    tls = Tls(Path("a"), Path("b"), Path("c"))
    assert settings(endpoint="[::1]:7447", tls=tls).endpoint == "[::1]:7447"


def test_the_return_rate_is_agreed_on_and_the_default_changes_no_fingerprint() -> None:
    usual, slower = settings(method=AnytimeSDA("local")), RETURN_RATE + 0.01
    other = usual.with_(return_rate=slower)
    assert len(usual.fingerprint) == 18  # as before there was one
    assert differing(usual.fingerprint, other.fingerprint)[-1] == "return_rate"
    assert differing(usual.with_(return_rate=0.5).fingerprint, other.fingerprint) == ["return_rate"]
    with pytest.raises(InvalidInput, match=r"return_rate must be .* at least 0 and below 1, got 1"):
        usual.with_(return_rate=1)

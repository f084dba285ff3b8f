"""Which methods can be deployed, and what the program of one is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from tests.support.own_methods import HeavyBall, NewestOnly

import gossamer as gs
from gossamer.errors import InvalidInput, Unsupported
from gossamer.facts import KnownFacts, UnknownFacts
from gossamer.methods import METHODS, tabulate
from gossamer.methods.ledger import LONGEST, ledger_program
from gossamer.methods.momentum_rules import GROWING

NETWORK = gs.Network.cycle(5)


def test_methods_that_cannot_be_deployed_say_why_and_what_can() -> None:
    deployable = set()
    for name, cls in METHODS.items():
        try:
            ledger_program(cls(), NETWORK)
            deployable.add(name)
        except Unsupported as error:
            assert str(error).startswith(f"{name} cannot be deployed: ")  # noqa: PT017 (both outcomes are right)
            assert "use anytime-sda, ssda, sda with output='last'" in str(error)  # noqa: PT017
    assert deployable == {"anytime-sda", "ssda"}


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("dsg", "depends on the agent's own observations"),
        ("sda", "a fleet runs indefinitely"),
        ("pairwise", "wakes agents at random"),
    ],
)
def test_the_reason_is_the_right_one(name: str, reason: str) -> None:
    with pytest.raises(Unsupported, match=reason):
        ledger_program(METHODS[name](), NETWORK)


def test_an_unknown_spectrum_is_named() -> None:
    with pytest.raises(Unsupported, match=r"asks for the network's .*, which is not known here"):
        ledger_program(gs.AnytimeSDA(), UnknownFacts())
    given = gs.AnytimeSDA(step_size=0.5, momentum=0.2, smoothing=3)
    assert ledger_program(given, UnknownFacts()).own == ("mean", "smooth")


@pytest.mark.parametrize("smoothing", [0, 1, 2, 31.5, 32, 33, 64, 1000, 10_000])
def test_the_program_is_as_long_as_the_coefficients_change(smoothing: float) -> None:
    program = ledger_program(gs.AnytimeSDA(smoothing=smoothing), NETWORK)
    assert program.rounds == max(int(np.ceil(smoothing)), 1)
    longer = ledger_program(gs.AnytimeSDA(smoothing=smoothing), NETWORK, program.rounds + 50)
    for short, long in zip(program[5:], longer[5:], strict=True):
        np.testing.assert_array_equal(np.concatenate([short, np.repeat(short[-1:], 50, axis=0)]), long)


def test_a_method_that_never_settles_ends_at_the_longest_program() -> None:
    assert ledger_program(gs.SDA(burn_in=0), NETWORK).rounds == LONGEST
    assert ledger_program(HeavyBall(), NETWORK).rounds == 1  # its gain is the agent's own business
    assert ledger_program(gs.SSDA(), NETWORK).rounds == 2


def test_the_running_mean_is_found_by_what_it_does_or_added() -> None:
    kept = ledger_program(HeavyBall(), NETWORK)
    assert (kept.own[kept.mean], kept.weighted) == ("average", True)
    added = ledger_program(NewestOnly(), NETWORK)
    assert (added.own, added.mean, added.weighted) == (("theta", "own_mean"), 1, False)
    assert (kept.edge, added.edge) == (("x", "before"), ("x",))


@pytest.mark.parametrize(
    "method", [gs.AnytimeSDA(), gs.SDA(), HeavyBall(), NewestOnly()], ids=lambda m: m.name
)
def test_a_lone_edge_is_the_table_itself(method: Any) -> None:
    """With one neighbor of weight 1 the maps hold the rows of the table, with the round's own gain."""
    rounds = 12
    table, program = tabulate(method, NETWORK, rounds), ledger_program(method, NETWORK, rounds)
    maps = program.maps([1.0])
    gain = 1 / np.arange(1.0, rounds + 1)
    tell = (maps.tell + maps.slope * gain[:, None, None])[..., maps.columns]
    names = list(method.State._fields)
    own = [names.index(name) for name in program.own if name in names]
    edge = [names.index(name) for name in program.edge]
    first = len(program.own)
    np.testing.assert_allclose(tell[:, 0, : len(own)], table.message_state[:, own], atol=1e-15)
    np.testing.assert_allclose(tell[:, 0, first], table.message_observation, atol=1e-15)
    np.testing.assert_allclose(tell[:, 0, first + 2 :], table.message_state[:, edge], atol=1e-15)
    after = tell[:, 1 : 1 + len(own)]
    np.testing.assert_allclose(after[..., : len(own)], table.step_state[:, own][:, :, own], atol=1e-15)
    np.testing.assert_allclose(after[..., first], table.step_observation[:, own], atol=1e-15)
    np.testing.assert_array_equal(maps.step[..., 0], table.step_mixed[:, edge])
    np.testing.assert_array_equal(maps.step[..., 1:], table.step_state[:, edge][:, :, edge])
    np.testing.assert_array_equal(
        maps.estimate[:, maps.columns][:, first + 2 :], table.estimate_state[:, edge]
    )
    for rows in (maps.tell, maps.slope, maps.estimate):
        assert not rows[..., maps.columns[first + 1]].any()  # nothing reads the message's own row


def test_many_neighbors_take_no_more_memory_than_one() -> None:
    """Edges share their rows and differ by their weight, so a program that settles late stays small."""
    program = ledger_program(gs.AnytimeSDA("local"), NETWORK)
    assert program.rounds == GROWING

    def size(degree: int) -> int:
        return sum(part.nbytes for part in program.maps([0.1] * degree))

    assert size(1) < 2e6
    assert size(8) - size(1) < 1000


@dataclass(frozen=True)
class Squared(HeavyBall):
    """Its gain is not the weight of an observation."""

    name: ClassVar[str] = "squared"

    @staticmethod
    def message(c: Any, s: Any, observation: Any) -> Any:
        return HeavyBall.message(c._replace(gain=c.gain**2), s, observation)


@dataclass(frozen=True)
class Blended(HeavyBall):
    """Its answer depends on the gain, which only the agent knows."""

    name: ClassVar[str] = "blended"

    @staticmethod
    def estimate(c: Any, s: Any) -> Any:
        return s.x + c.gain * s.average


@pytest.mark.parametrize("method", [Squared(), Blended()], ids=lambda method: method.name)
def test_a_gain_must_be_a_weight(method: gs.Method) -> None:
    with pytest.raises(InvalidInput, match=f"`gain` of {type(method).__name__} must enter .*linearly"):
        ledger_program(method, NETWORK)


def test_numbers_are_enough_for_a_program() -> None:
    facts = KnownFacts.of(NETWORK.spectrum.eigenvalues)
    known, network = ledger_program(gs.AnytimeSDA(), facts), ledger_program(gs.AnytimeSDA(), NETWORK)
    assert known.rounds == network.rounds
    np.testing.assert_allclose(known.tell, network.tell, rtol=1e-12)


def test_a_change_in_a_late_round_is_in_the_program():
    """A table that looks settled after its first rounds need not be."""

    @dataclass(frozen=True)
    class Late(gs.SSDA):
        def coefficients(self, network, rounds):
            c = super().coefficients(network, rounds)
            return c._replace(step_size=np.where(np.arange(rounds) < 1000, c.step_size, c.step_size / 10))

    program = ledger_program(Late(), gs.Network.path(4))
    assert program.rounds == 1001
    assert not np.allclose(program.step[999], program.step[1000])


def test_batches_are_for_simulations():
    for method in (gs.SDA(output="last", batch=4), gs.SSDA(samples=5)):
        with pytest.raises(gs.Unsupported, match="agents take observations as they come"):
            ledger_program(method, gs.Network.path(4))

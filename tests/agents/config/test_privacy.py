"""How much noise a privacy target requires, and which settings noise cannot protect."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gossamer.accounting import privacy
from gossamer.agents.config.settings import AgentSettings
from gossamer.agents.round.bounds import Bounds
from gossamer.agents.statistics.layout import Layout
from gossamer.errors import InvalidInput
from gossamer.methods import AnytimeSDA
from gossamer.methods.ledger import ledger_program
from gossamer.networks import Network

METHOD = AnytimeSDA("local")


def settings(**options) -> AgentSettings:
    return AgentSettings(0, (), method=METHOD, **options)


def test_the_noise_of_a_target_is_what_the_accountant_says() -> None:
    """Of 10 members 8 are honest; with large masks the accountant finds just the epsilon that was asked for."""
    made = settings(members=10, mask=1e6, epsilon=1.5, delta=1e-5, change=20.0, honest=8)
    (noise,) = made.noise_scale
    seen = privacy("complete:10", 1e6, noise=noise, change=20.0, coalition=[3, 7])
    assert seen.epsilon(1e-5) == pytest.approx(1.5, rel=1e-6)
    (local,) = settings(epsilon=1.5, delta=1e-5, change=20.0).noise_scale  # without masks
    assert local == pytest.approx(noise * math.sqrt(8))


def test_components_share_a_target_and_the_range_gives_the_change() -> None:
    made = settings(dimension=2, range=((0.0, 10.0), (0.0, 1.0)), epsilon=1.0)
    np.testing.assert_allclose(np.array(made.noise_scale) / made.noise_scale[1], [10.0, 1.0])
    single = settings(range=(0.0, 10.0), epsilon=1.0)
    # mu^2 of both components together is that of one component with half of the variance.
    assert made.noise_scale[0] == pytest.approx(single.noise_scale[0] * math.sqrt(2))
    assert settings(noise=3.0).noise_scale == (3.0,)
    assert settings().noise_scale == ()


def test_what_noise_cannot_protect_is_refused() -> None:
    for options, text in [
        ({"noise": 1.0, "epsilon": 1.0}, "must not be given together with noise"),
        ({"noise": 1.0, "variance": True}, "and nothing else; leave out noise or variance"),
        ({"noise": 1.0, "weighting": "samples"}, "leave out noise or weighting"),
        (
            {"epsilon": 1.0},
            "change must be the change of a level that epsilon hides, or a range, got neither",
        ),
        ({"epsilon": 1.0, "change": 1.0, "honest": 2}, "got 2 of 0 members without masks"),
        (
            {"epsilon": 1.0, "change": 1.0, "mask": 5.0, "honest": 5, "members": 4},
            "5 of 4 members with masks",
        ),
    ]:
        with pytest.raises(InvalidInput, match=text):
            settings(**options)


def test_fleets_agree_on_noise_and_bounds_leave_room_for_it() -> None:
    plain, noisy, wider = settings(), settings(noise=1.0), settings(epsilon=1.0, change=2.0)
    assert len({plain.fingerprint, noisy.fingerprint, wider.fingerprint}) == 3
    assert noisy.fingerprint.startswith(plain.fingerprint)
    program = ledger_program(METHOD, Network.cycle(4), 10)
    without, with_noise = (
        Bounds.of(Layout(1, range=((0.0, 10.0),), noise_scale=scale, replicates=1), program, 4)
        for scale in ((), (2.0,))
    )
    assert without is not None
    assert with_noise is not None
    np.testing.assert_allclose(with_noise.high - without.high, [0.0, 8.6 * 2.0, 8.6 * 2.0])
    np.testing.assert_allclose(without.low - with_noise.low, [0.0, 8.6 * 2.0, 8.6 * 2.0])

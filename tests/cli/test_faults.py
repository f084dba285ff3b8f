"""Faults in the words of the command line."""

from __future__ import annotations

import pytest

from gossamer.cli import faults as options
from gossamer.cli.options import FAULTS, MESSAGE_FAULTS
from gossamer.errors import InvalidInput
from gossamer.faults import Bursts, Crash, Delay, Faults, Join, Loss, Partition, Restart
from gossamer.faults.fault import AgentFault
from gossamer.faults.kinds import KINDS


def test_every_kind_of_fault_has_an_option():
    assert list(FAULTS) == list(KINDS)
    others = {kind for kind in KINDS if not issubclass(KINDS[kind], AgentFault)}
    assert others - {"quiet"} == set(MESSAGE_FAULTS)  # an agent is quiet by its settings


def test_words_of_the_command_line():
    read = options.parse_faults(
        loss="0.3",
        burst="10,0.17",
        delay="2,0.1",
        crash=["17@500"],
        restart=["17@800"],
        join=["5@100"],
        partition=["0-49@200-1200", "0-2,7/3@5-", "3:4,5:4@0-100"],
    )
    assert read == Faults(
        Loss(0.3),
        Bursts(10, 0.17),
        Delay(2, 0.1),
        Crash(17, 500),
        Restart(17, 800),
        Join(5, 100),
        Partition(range(50), 200, 1200),
        Partition([[0, 1, 2, 7], [3]], 5),
        Partition((), 0, 100, edges=[(3, 4), (4, 5)]),
    )
    assert options.parse_faults(loss="0.3@0-200,0.5@200-") == Faults(Loss(0.3, 0, 200), Loss(0.5, 200))
    assert options.parse_faults(burst="10,0.17,both") == Faults(Bursts(10, 0.17, both=True))
    assert options.parse_faults() == Faults()
    named = options.parse_faults(crash=["oslo@5"], restart=["1@8"], names=["rome", "oslo"])
    assert named == Faults(Crash(1, 5), Restart(1, 8))
    with pytest.raises(InvalidInput, match="AGENT@ROUND, for example 17@500 or oslo@500, got 'bonn@5'"):
        options.parse_faults(crash=["bonn@5"], names=["rome", "oslo"])


@pytest.mark.parametrize(
    ("kind", "words", "text"),
    [
        (
            "loss",
            "a third",
            r"--loss takes PROBABILITY\[@START-STOP\], for example 0.3 or .*, got 'a third'",
        ),
        ("loss", "0.3@5", r"--loss takes PROBABILITY\[@START-STOP\]"),
        ("loss", "30", "probability must be a probability from 0 to 1, got 30.0"),
        (
            "burst",
            "10",
            "--burst takes MEAN_LENGTH,FRACTION.*, for example 10,0.17, got '10'",
        ),
        ("delay", "1.5,0.1", "rounds must be a whole number of at least 0, got 1.5"),
        ("crash", "17", "--crash takes AGENT@ROUND, for example 17@500, got '17'"),
        ("restart", "x@5", "--restart takes AGENT@ROUND, for example 17@500, got 'x@5'"),
        ("join", "5@-1", "--join takes AGENT@ROUND"),
        ("partition", "0-49", "--partition takes AGENTS@START-STOP, for example 0-49@200-1200"),
        ("partition", "0--4@2-5", "--partition takes AGENTS@START-STOP"),
        ("partition", "1:2:3@2-5", "--partition takes AGENTS@START-STOP"),
        ("partition", "9-0,1@2-5", "--partition takes agents in ascending order, got '9-0'"),
        ("partition", "0-4@5-2", "stop must be a whole number of at least 6"),
    ],
)
def test_misread_words_say_what_was_expected(kind, words, text):
    with pytest.raises(InvalidInput, match=text):
        options.parse_faults(**{kind: words})


def test_flags_describe_the_faults_that_they_are_read_as():
    faults = Faults(Loss(0.3, 0, 200), Bursts(10, 0.17), Loss(0.5, 200), Crash(3, 40), Partition([0, 1], 5))
    flags = options.flags_of(faults)
    assert flags == [
        *("--loss", "0.3@0-200,0.5@200-", "--burst", "10,0.17"),
        *("--crash", "3@40", "--partition", "0,1@5-"),
    ]
    assert options.parse_faults(**{k[2:]: v for k, v in zip(flags[::2], flags[1::2], strict=True)}) == faults
    assert options.flags_of(None) == []


def test_a_wrong_number_is_named_with_its_flag():
    for given, text in (
        ({"loss": "2"}, "--loss: probability must be a probability from 0 to 1, got 2.0"),
        ({"burst": "0.5,0.1"}, "--burst: mean_length must be"),
        ({"crash": ["x"]}, "--crash takes AGENT@ROUND"),
    ):
        with pytest.raises(InvalidInput, match="^" + text):
            options.parse_faults(**given)

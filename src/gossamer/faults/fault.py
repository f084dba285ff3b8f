"""The interface of all faults: text, JSON, Python code, and the agents that are named."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from gossamer import checks
from gossamer.arrays import Integers
from gossamer.errors import InvalidInput
from gossamer.results import html_table

PURPOSES = 16
"""The k-th random link fault of a set draws with purpose FAULT + 16 k, so that they are independent."""


@dataclass(frozen=True, repr=False)
class Fault(ABC):
    """A fault.

    `str` and `parse` give and read its text ("crash=17@500"), `to_json` and `from_json` a dictionary of its fields,
    and `repr` is Python.
    """

    kind: ClassVar[str]  #: its name in texts, in JSON and as a flag of the command line
    form: ClassVar[str]  #: what `parse` reads, with an example

    @classmethod
    @abstractmethod
    def parse(cls, text: str, names: Sequence[Hashable] = ()) -> Self:
        """Read the part of its text after the kind; agents may be called by their `names`."""

    @property
    @abstractmethod
    def text(self) -> str:
        """Return the text that `parse` reads."""

    def __str__(self) -> str:
        return f"{self.kind}={self.text}"

    def __repr__(self) -> str:
        arguments: list[str] = []
        for field in dataclasses.fields(self):
            value = self._plain(field.name)
            if field.default is dataclasses.MISSING and len(arguments) < 2:
                arguments.append(repr(value))
            elif value != field.default:
                arguments.append(f"{field.name}={value!r}")
        return f"{type(self).__name__}({', '.join(arguments)})"

    def _repr_html_(self) -> str:
        return faults_table([self])

    def _plain(self, name: str) -> object:
        """Return the value of a field, made of numbers and lists."""
        value: object = getattr(self, name)
        return value

    def to_json(self) -> dict[str, object]:
        """Its kind and those fields that differ from their defaults."""
        fields = dataclasses.fields(self)
        values = {field.name: (self._plain(field.name), field.default) for field in fields}
        return {
            "kind": self.kind,
            **{name: value for name, (value, usual) in values.items() if value != usual},
        }

    @classmethod
    def from_json(cls, entries: Mapping[str, object]) -> Self:
        """Read the fields of a dictionary; the kind is not among them."""
        fields = {field.name: field.default for field in dataclasses.fields(cls)}
        if unknown := sorted(set(entries) - set(fields)):
            raise InvalidInput(
                f"takes {', '.join(fields)}, got {checks.brief(unknown[0])}", parameter=cls.kind
            )
        needed = [name for name, default in fields.items() if default is dataclasses.MISSING]
        if missing := [name for name in needed if name not in entries]:
            raise InvalidInput(f"needs {', '.join(needed)}, but {missing[0]} is missing", parameter=cls.kind)
        return cls(**{name: value for name, value in entries.items() if value is not None})

    @property
    def agents(self) -> frozenset[int]:
        """Every agent that the fault names."""
        return frozenset()

    def check(self, agents: int, edges: Integers | None = None) -> None:
        """Raise an error if the fault names an agent, or cuts an edge, that the network does not have."""
        if self.agents and max(self.agents) >= agents:
            raise InvalidInput(
                f"{type(self).__name__} names agent {max(self.agents)}, but the agents are 0..{agents - 1}"
            )

    @classmethod
    def _misread(cls, text: str, form: str = "") -> InvalidInput:
        return InvalidInput(f"takes {form or cls.form}, got {text!r}", parameter=cls.kind)

    @classmethod
    def _numbers(cls, text: str, count: int) -> list[float]:
        try:
            numbers = [float(part) for part in text.split(",")]
        except ValueError:
            raise cls._misread(text) from None
        if len(numbers) != count:
            raise cls._misread(text)
        return numbers


class LinkFault(Fault):
    """A random fault of links: each is a two-state chain that is good or bad in a round (see `link_draws.py`)."""

    @property
    @abstractmethod
    def chain(self) -> tuple[float, ...]:
        """Start, enter and stay probabilities, 1.0 if both directions share the chain, its first and end round."""

    @property
    def lateness(self) -> int | None:
        """How many rounds late a message of a bad link is; None if it is lost."""
        return None


@dataclass(frozen=True, repr=False)
class AgentFault(Fault):
    """An agent begins or ends."""

    agent: int
    round: int

    form: ClassVar[str] = "AGENT@ROUND, for example 17@500"
    begins: ClassVar[bool] = True  #: whether the agent takes part from this round on
    _earliest: ClassVar[int] = 1

    def __post_init__(self) -> None:
        whole_numbers(self, agent=0, round=self._earliest)

    @classmethod
    def parse(cls, text: str, names: Sequence[Hashable] = ()) -> Self:
        agent, _, round = text.strip().rpartition("@")
        known = [str(name) for name in names]
        if round.isdecimal() and agent in known:
            return cls(known.index(agent), int(round))
        if not (round.isdecimal() and agent.isdecimal()):
            example = f" or {known[-1]}@500" if known and not known[-1].isdecimal() else ""
            raise cls._misread(text, cls.form + example)
        return cls(int(agent), int(round))

    @property
    def text(self) -> str:
        return f"{self.agent}@{self.round}"

    @property
    def agents(self) -> frozenset[int]:
        return frozenset({self.agent})


def whole_numbers(fault: Fault, **least: int) -> None:
    """Keep these fields of a fault as integers of at least the given bounds."""
    for name, bound in least.items():
        object.__setattr__(fault, name, checks.whole_number(name, getattr(fault, name), least=bound))


def faults_table(faults: Sequence[Fault]) -> str:
    """Return faults as a table for notebooks."""
    rows = []
    for fault in faults:
        named = {key.replace("_", " "): value for key, value in fault.to_json().items() if key != "kind"}
        rows.append((fault.kind, ", ".join(f"{key} {checks.brief(value)}" for key, value in named.items())))
    return html_table(f"{len(faults)} fault{'' if len(faults) == 1 else 's'}", ("fault", "parameters"), rows)

"""Digests of what the engines read, by horizon: a method's table, moving means, samples, contacts of a function.

Code alone is not enough: a method may read an environment variable. So a stored row is reused only if its inputs are
unchanged. The table of a method depends on the network's spectrum, which can take longer than everything else; the few
spectral facts that a method used are stored with its rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np

from gossamer.arrays import AnyArray
from gossamer.errors import GossamerError, Unsupported
from gossamer.facts import DeclaredFacts, SpectralFacts
from gossamer.fingerprint import PACKAGE
from gossamer.methods import Method, Table, tabulate
from gossamer.networks import AnyNetwork, ChangingNetwork
from gossamer.networks.contacts import Computed
from gossamer.observations import Observations

Facts = dict[str, float]
"""Spectral facts of a network, by name."""

Digests = dict[int, str]
"""By number of rounds."""

SAMPLES = 2**20
"""Up to this many samples of user-defined streams are drawn for a digest, which takes tens of milliseconds."""


class RecordedFacts(DeclaredFacts):
    """The facts of a network: those already known, and those that are computed when a method asks for them."""

    def __init__(self, network: AnyNetwork, known: Facts) -> None:
        self._network, self.known = network, dict(known)

    def __getattr__(self, name: str) -> object:
        if name not in self.known:
            if not hasattr(self._network, name):
                raise Unsupported(f"{self._network!r} has no {name}")
            value: object = getattr(self._network, name)
            if not isinstance(value, int | float | np.number):
                return value
            self.known[name] = float(value) if isinstance(value, float | np.floating) else int(value)
        return self.known[name]


def value_digests(
    method: Method, network: AnyNetwork, observations: Observations, horizons: Sequence[int], known: Facts
) -> tuple[Digests, Facts]:
    """Return digests of what the engines read up to each horizon, and the facts that the method asked for."""
    facts = RecordedFacts(network, known)
    ascending = sorted(horizons)
    parts = [_tables(method, facts, ascending)]
    if observations.moving:
        parts.append(
            _prefixes((observations.means(range(t, t + 1)) for t in range(ascending[-1])), ascending)
        )
    if isinstance(network, ChangingNetwork) and isinstance(network.contacts, Computed):
        parts.append(_prefixes((network.edges_at(t) for t in range(ascending[-1])), ascending))
    return {t: " ".join(part[t] for part in parts) for t in horizons}, facts.known


def sample_digest(observations: Observations, seed: int, trials: int, rounds: int) -> str:
    """Return a digest of the samples of user-defined streams, whose code may depend on anything.

    All samples if they are at most `SAMPLES`, otherwise those of the first and the last rounds of the first and the
    last trials. Streams of the package are identified by their parameters; their digest is empty.
    """
    if not _is_user_defined(observations):
        return ""
    rounds = int(min(rounds, observations.known_rounds))
    size = observations.mean.size
    digest = hashlib.sha256()
    try:
        for some_trials in _ends(trials, max(1, SAMPLES // (2 * size * rounds))):
            for some_rounds in _ends(rounds, max(8, SAMPLES // (4 * size))):
                digest.update(observations.sample(seed, some_rounds, some_trials).tobytes())
    except GossamerError as refusal:
        digest.update(str(refusal).encode())
    return digest.hexdigest()


def _ends(count: int, most: int) -> list[range]:
    """Return the first `most` and the last `most` of `count` numbers, or all of them if they are fewer."""
    return [range(count)] if count <= 2 * most else [range(most), range(count - most, count)]


def _is_user_defined(value: Observations) -> bool:
    """Return whether streams, or streams inside them, are of a class outside this package."""
    inside = (stream for stream in vars(value).values() if isinstance(stream, Observations))
    return type(value).__module__.split(".")[0] != PACKAGE.name or any(map(_is_user_defined, inside))


def _tables(method: Method, facts: SpectralFacts, ascending: Sequence[int]) -> Digests:
    if method.anytime:
        try:
            return _prefixes(_rows(tabulate(method, facts, ascending[-1])), ascending)
        except GossamerError:
            pass  # it may be the number of rounds that does not suit the method
    return {t: _table(method, facts, t) for t in ascending}


def _table(method: Method, facts: SpectralFacts, rounds: int) -> str:
    try:
        return _prefixes(_rows(tabulate(method, facts, rounds)), [rounds])[rounds]
    except GossamerError as refusal:
        return hashlib.sha256(str(refusal).encode()).hexdigest()


def _rows(table: Table) -> AnyArray:
    return np.concatenate([array.reshape(table.rounds, -1) for array in table], axis=1)


def _prefixes(rows: AnyArray | Iterator[AnyArray], ascending: Sequence[int]) -> Digests:
    """Return the digest of the first t rows, for every t."""
    digests: Digests = {}
    digest, done = hashlib.sha256(), 0
    rounds = iter(rows)
    for t in ascending:
        if isinstance(rows, np.ndarray):
            digest.update(rows[done:t].tobytes())
        else:
            for _ in range(done, t):
                row = np.ascontiguousarray(next(rounds))
                digest.update(f"{row.shape}".encode() + row.tobytes())
        digests[t], done = digest.hexdigest(), t
    return digests

"""The methods, one definition each: `method.py` is the contract, `probing.py` builds a table, `table.py` reads it."""

from __future__ import annotations

from gossamer.errors import InvalidInput, nearest
from gossamer.facts import KnownFacts, SpectralFacts, UnknownFacts
from gossamer.methods.anytime_sda import AnytimeSDA
from gossamer.methods.chebyshev_averaging import ChebyshevAveraging
from gossamer.methods.corrected import StochasticExactDiffusion, StochasticEXTRA, StochasticGradientTracking
from gossamer.methods.dasg import DASG
from gossamer.methods.dmasg import DMASG
from gossamer.methods.dsg import DSG
from gossamer.methods.jacobi_gossip import JacobiGossip
from gossamer.methods.linear_iteration import LinearIteration
from gossamer.methods.method import Method, Tunable
from gossamer.methods.msda import MSDA
from gossamer.methods.probing import check_tuple, tabulate, tabulate_all
from gossamer.methods.push_sum import PushSum
from gossamer.methods.random_gossip import AcceleratedGossip, BroadcastGossip, PairwiseGossip
from gossamer.methods.rrma import RRMA
from gossamer.methods.sda import SDA
from gossamer.methods.ssda import SSDA
from gossamer.methods.sstm import SSTM
from gossamer.methods.table import Table

METHODS: dict[str, type[Method]] = {
    method.name: method
    for method in (
        SDA,
        AnytimeSDA,
        DSG,
        DASG,
        DMASG,
        StochasticEXTRA,
        StochasticExactDiffusion,
        StochasticGradientTracking,
        SSTM,
        RRMA,
        SSDA,
        MSDA,
        ChebyshevAveraging,
        JacobiGossip,
        LinearIteration,
        PairwiseGossip,
        AcceleratedGossip,
        BroadcastGossip,
        PushSum,
    )
}
"""Every method of this package by name; push-sum also runs on directed networks."""


def resolve(method: object) -> Method:
    """Return `method` itself, or the registered method of that name with its default parameters.

    Parameters
    ----------
    method : Method or str
        A method, which is returned as it is, or a name in `gossamer.METHODS`.

    See Also
    --------
    tabulate : Evaluates a method for all rounds.
    gossamer.Method : The base class of methods.

    Examples
    --------
    >>> gs.methods.resolve("Anytime SDA") == gs.AnytimeSDA()
    True
    """
    if isinstance(method, Method):
        check_tuple(method, "State", getattr(method, "State", None))
        return method
    if isinstance(method, str):
        plain = {_plain(cls.name): cls for cls in METHODS.values()}
        if _plain(method) in plain:
            return plain[_plain(method)]()
        if (known_as := plain.get(_plain(method.partition(":")[0]))) is not None:
            raise InvalidInput(
                f"a method by name has its default parameters, got {method!r}; for others give "
                f"gs.{known_as.__name__}(...)"
            )
        raise InvalidInput(
            f"no method is called {method!r}{nearest(method.lower(), METHODS)}; the methods are {', '.join(METHODS)}"
        )
    hint = "; add its parentheses" if isinstance(method, type) and issubclass(method, Method) else ""
    raise InvalidInput(f"a method or the name of one is needed, got {method!r}{hint}")


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "").replace(" ", "")


__all__ = [
    "DASG",
    "DMASG",
    "DSG",
    "METHODS",
    "MSDA",
    "RRMA",
    "SDA",
    "SSDA",
    "SSTM",
    "AcceleratedGossip",
    "AnytimeSDA",
    "BroadcastGossip",
    "ChebyshevAveraging",
    "JacobiGossip",
    "KnownFacts",
    "LinearIteration",
    "Method",
    "PairwiseGossip",
    "PushSum",
    "SpectralFacts",
    "StochasticEXTRA",
    "StochasticExactDiffusion",
    "StochasticGradientTracking",
    "Table",
    "Tunable",
    "UnknownFacts",
    "resolve",
    "tabulate",
    "tabulate_all",
]

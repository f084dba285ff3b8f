"""Gossamer: every agent in a network learns the average of all noisy streams, talking only to its neighbors.

    import gossamer as gs

    net = gs.Network.grid(10, 10)
    obs = gs.Gaussian(mean, std=1.0)
    gs.exact(gs.AnytimeSDA(), net, obs, rounds=1500).total_error

The public names are those of `__init__.pyi`, the one list that people, type checkers and this module read.
Each is imported when it is first used, so that a deployed agent loads neither compilers nor plotting.
"""

import lazy_loader

__version__ = "0.1.0"

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    if name.startswith("_") or name in __all__:
        return _load(name)
    import difflib

    close = difflib.get_close_matches(name, __all__, n=1)
    raise AttributeError(
        f"gossamer has no attribute {name!r}" + "".join(f" (did you mean {c!r}?)" for c in close)
    )

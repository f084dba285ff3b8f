"""Parse command-line options into networks, methods and observations."""

from __future__ import annotations

import ast
import csv
import re
from pathlib import Path
from typing import TYPE_CHECKING

import gossamer as gs
from gossamer.cli.commands import refuse
from gossamer.errors import InvalidInput

if TYPE_CHECKING:
    import numpy as np

    from gossamer.cli.options import ProblemOptions


def parse_network(text: str, weights: str, seed: int) -> gs.Network:
    """Return a network by name or from a file; changing networks are refused."""
    return gs.Network.of(parse_any_network(text, weights, seed))


def parse_any_network(text: str, weights: str, seed: int) -> gs.Network | gs.ChangingNetwork:
    """Return a network by name or from a file; it may be a changing one."""
    from gossamer.networks.reading import parse_network  # loads NetworkX, so not for a help page

    return parse_network(text, weights, seed)


def parse_method(text: str) -> gs.Method:
    """Parse a method: `sda`, `anytime-sda:acceleration=chebyshev,smoothing=20`, or
    `my_file.py:MyMethod:step_size=0.3`."""
    from gossamer.methods.loading import build, load_class  # loads NumPy, so not for a help page

    name, values = split_method(text)
    return build(load_class(name), values)


def split_method(text: str) -> tuple[str, dict[str, object]]:
    """Split a text into the name of a method, which contains a colon if it is user-defined, and its parameters."""
    name, rest = re.fullmatch(r"([^=]*\.py:[^:]*|[^:]*)(?::(.*))?", text, re.DOTALL).groups()  # type: ignore[union-attr]
    values = {}
    for part in _split(",", rest or ""):
        key, equals, value = part.partition("=")
        if not equals:
            raise InvalidInput(f"parameters of {name} must be given as name=value, got {part!r}")
        values[key.strip().replace("-", "_")] = _value(value.strip())
    return name, values


def parse_methods(text: str) -> list[gs.Method]:
    """Parse several methods separated by spaces, semicolons or commas; `all` means every method with an exact error."""
    if text.strip() == "all":
        return [cls() for cls in gs.METHODS.values() if cls.mixing == "matrix"]
    # A comma before name=value separates the parameters of one method.
    parts = _split(r"[;\s]+|,(?!\s*[\w-]+=)", text)
    if not parts:
        raise InvalidInput(f"at least one method is needed: {', '.join(gs.METHODS)}, or all")
    return [parse_method(part) for part in parts]


def _split(separator: str, text: str) -> list[str]:
    """Split a text at separators, but not inside brackets, as in `name=[1, 2]`."""
    return [part for part in re.split(rf"(?:{separator})(?![^\[(]*[\])])", text) if part.strip()]


def _value(text: str) -> object:
    """Return a number, True, False, None or a list if the text is one, otherwise the text itself."""
    try:
        return ast.literal_eval(text.capitalize() if text in ("true", "false", "none") else text)
    except (ValueError, SyntaxError):
        return text


def parse_observations(network: gs.Network | gs.ChangingNetwork, given: ProblemOptions) -> gs.Observations:
    """Return streams by the names in `observations/named.py`, or recorded samples from a CSV file, one column per
    agent.

    Columns are matched to agents by name if the file's header row names them all, and by order otherwise.
    """
    from gossamer.observations.named import named_streams

    if given.data is not None:
        refuse("spread std means noise", "with --data, whose samples have their own means and deviations")
        heading, samples = read_numbers(given.data)
        names = [str(label) for label in network.labels]
        if heading is not None and sorted(heading) == sorted(names):
            samples = samples[:, [heading.index(name) for name in names]]
        return gs.Empirical(samples.T)
    if given.noise == "bernoulli":
        refuse("std", "with this noise, whose deviations follow from the means")
    std = 1.0 if given.std is None else given.std
    return named_streams(network.agents, given.spread, std, given.seed, means=given.means, noise=given.noise)


def read_numbers(path: Path) -> tuple[list[str] | None, np.ndarray]:
    """Read a CSV file of numbers and its header row, if it has one; every row must be complete."""
    import numpy as np

    try:
        rows = [row for row in csv.reader(path.read_text().splitlines()) if row]
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} cannot be read: {error}") from error
    heading = None
    if rows and not any(_numeric([cell]) for cell in rows[0]):
        heading, rows = [cell.strip() for cell in rows[0]], rows[1:]
    if not rows:
        raise InvalidInput(f"{path} holds no numbers")
    for number, row in enumerate(rows, start=1):
        if len(row) != len(rows[0]) or not _numeric(row):
            raise InvalidInput(
                f"{path}, data row {number}: {len(rows[0])} numbers are needed, got {','.join(row)!r}"
            )
    return heading, np.array(rows, dtype=float)


def _numeric(row: list[str]) -> bool:
    try:
        [float(cell) for cell in row]
    except ValueError:
        return False
    return True


def parse_horizons(text: str) -> list[int]:
    """Parse numbers of rounds: `1500`, `100,200,400`, or `10:1000` (about 40 horizons from 10 to 1000, evenly spread on
    a log scale).

    Both may be mixed, as in `10:1000,150`.
    """
    import numpy as np

    try:
        horizons: list[int] = []
        for part in text.split(","):
            low, *high = (int(end) for end in part.split(":"))
            if not high:
                horizons.append(low)
            elif len(high) > 1 or not 1 <= low <= high[0]:
                raise ValueError
            else:
                horizons += {round(t) for t in np.geomspace(low, high[0], 40)}
        return sorted(set(horizons)) if ":" in text else horizons
    except ValueError:
        raise InvalidInput(
            parameter="rounds", required="given as 1500, as 100,200,400 or as a range 10:1000", got=repr(text)
        ) from None

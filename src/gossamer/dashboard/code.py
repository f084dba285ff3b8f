"""The view as code: a few lines of Python that reproduce the numbers on the page."""

from __future__ import annotations

import keyword
import math
from collections.abc import Mapping

import gossamer as gs
from gossamer.dashboard.scenario import HORIZONS, Scenario
from gossamer.errors import InvalidInput
from gossamer.networks.names import split_name

MEANS = {
    "uniform": "np.random.default_rng({seed}).uniform(0, {spread}, network.agents)",
    "ramp": "np.linspace(0, {spread}, network.agents)",
    "one": "{spread} * (np.arange(network.agents) == 0)",
}
NOISE = {
    "gaussian": "gs.Gaussian(means, {std})",
    "student-t": "gs.StudentT(means, {std})",
    "uniform": "gs.Uniform(means - np.sqrt(3) * {std}, means + np.sqrt(3) * {std})",
    "bernoulli": "gs.Bernoulli(means)",
}


def to_python(scenario: Scenario) -> str:
    """Return code whose `runs` are the curves and estimates of the page."""
    given = {"seed": scenario.seed, "spread": repr(scenario.spread), "std": repr(scenario.std)}
    methods = ", ".join(_method(name, values) for name, values in scenario.methods)
    turns = f" | {{{', '.join(map(str, scenario.turns))}}}" if scenario.turns else ""
    lines = [
        "import numpy as np",
        "",
        "import gossamer as gs",
        "",
        f"network = {_network(scenario)}",
        f"means = {MEANS[scenario.means].format(**given)}",
        f"streams = {NOISE[scenario.noise].format(**given)}",
        f"rounds = sorted({{round(t) for t in np.geomspace({scenario.first}, {scenario.rounds}, {HORIZONS})}}{turns})",
    ]
    faults = [f"gs.faults.{fault!r}" for fault in gs.faults.Faults.of(scenario.build_faults()).items]
    if faults:
        lines += ["faults = [", *(f"    {fault}," for fault in faults), "]"]
    extra = (", faults=faults" if faults else "") + (f", masks={scenario.mask!r}" if scenario.mask else "")
    lines += [
        f"methods = [{methods}]",
        "runs = [",
        f'    gs.simulate(method, network, streams, rounds, trials=1, seed={scenario.seed}, keep="iterates"{extra})',
        "    for method in methods",
        "]",
        "for run in runs:",
        "    print(run)",
    ]
    return "\n".join(lines) + "\n"


def _method(name: str, values: Mapping[str, object]) -> str:
    given = ", ".join(f"{key}={value!r}" for key, value in values.items())
    return f"gs.{gs.METHODS[name].__name__}({given})"


def _network(scenario: Scenario) -> str:
    text, seed, weights = scenario.network, scenario.seed, scenario.weights
    if text == "file":
        if weights == "file":
            return f'gs.Network.read({scenario.file[0] if scenario.file else ""!r}, "file")'
        network = scenario.build_network()
        assert isinstance(network, gs.Network)
        return f"gs.Network.from_edges({network.agents}, {network.edges.tolist()}, {weights!r})"
    kind, rest = split_name(text)
    first, *others = (rest or "").split(",")
    named = [_argument(part) for part in others if "=" in part]
    if kind in ("mobile", "matchings"):
        return f"gs.ChangingNetwork.{kind}({', '.join([_number(first), *named, f'seed={seed}'])})"
    if kind == "dropout":
        return f"gs.ChangingNetwork.dropout({', '.join([_by_name(first, seed), *named, f'seed={seed}'])})"
    if kind == "switching":
        bases = ", ".join(_by_name(base, seed) for base in first.split("+"))
        return f"gs.ChangingNetwork.switching({', '.join([f'[{bases}]', *named])})"
    return _by_name(text, seed, weights)


def _argument(text: str) -> str:
    """A part NAME=NUMBER of a network's name as an argument: it comes from a link, and must not be more than that."""
    name, _, value = (part.strip() for part in text.partition("="))
    if not name.isidentifier() or keyword.iskeyword(name):
        raise InvalidInput(f"a network's options are NAME=NUMBER, got {text!r}", parameter="network")
    return f"{name}={_number(value)}"


def _number(text: str) -> str:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InvalidInput(f"a network's options are numbers, got {text!r}", parameter="network")
    return repr(int(value)) if text.strip().isdecimal() else repr(value)


def _by_name(text: str, seed: int, weights: str = "metropolis") -> str:
    return f"gs.Network.named({text!r}, {weights!r}, {seed})"

"""A page that needs no server: recorded runs of a scenario in one file, drawn by the code of the playground.

The file holds the modules of the page as data, addressed by an import map, and the frames that a server would send,
compressed.
"""

from __future__ import annotations

import base64
import html
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import gossamer as gs
from gossamer import checks
from gossamer.arrays import AnyArray, Floats
from gossamer.dashboard.frames import packed
from gossamer.dashboard.runs import Part, parts, references
from gossamer.errors import GossamerError, InvalidInput, OutputError

if TYPE_CHECKING:
    from gossamer.dashboard.scenario import Scenario

STATIC = Path(__file__).parent / "static"
STYLES = ("vendor/uplot/uPlot.min.css", "style.css", "playground.css")

LOSSES = (0.0, 0.1, 0.3, 0.5)
"""Shares of lost messages between which the reader of a page chooses by default."""

NONE = 65535
"""Code of an agent without an estimate."""

LARGEST = 20 * 2**20
"""Largest page in bytes; a browser takes seconds to open one that is larger."""


class SavedPage(NamedTuple):
    """A page and its summary.

    Attributes
    ----------
    text : str
        The content of the HTML file, which `write` writes.
    summary : str
        Its size and contents in a few words.

    See Also
    --------
    Scenario : Its method `page` returns one.
    Animation : Its attribute `page` is one.

    Examples
    --------
    >>> page = gs.dashboard.Scenario(network="cycle:5", rounds=10).page(losses=())
    >>> page.summary.split(": ")[1]
    '5 agents, 10 rounds'
    """

    text: str
    summary: str

    def _repr_html_(self) -> str:
        """Show the page in a notebook, in a frame of its own that is as high as the page."""
        fit = "this.style.height = this.contentDocument.documentElement.scrollHeight + 'px'"
        return (
            f'<iframe srcdoc="{html.escape(self.text)}" width="100%" height="760" style="border:0" '
            f'onload="new ResizeObserver(() => {{ {fit} }}).observe(this.contentDocument.body)"></iframe>'
        )

    def write(self, path: str | Path) -> Path:
        """Write the page to a file, replacing it only if it was written by this function."""
        path = Path(path)
        try:
            if path.exists() and b'content="gossamer"' not in path.read_bytes()[:2000]:
                raise InvalidInput(
                    parameter="path",
                    required="a new file or a page that was saved before",
                    got=f"{path}, which is something else",
                )
            path.write_text(self.text, encoding="utf-8")
        except OSError as error:
            raise OutputError(
                f"{path} cannot be written ({error.strerror or error}); choose a file in a folder you can write to"
            ) from error
        return path


def page_of(
    scenario: Scenario,
    *,
    title: str = "gossamer",
    words: str = "",
    losses: Sequence[float] | None = None,
    start: int = 1,
    lesson: bool = False,
) -> SavedPage:
    """Return a page that shows the runs of a scenario, once for each share of lost messages.

    title    heading of the page
    words    a few sentences above the networks
    losses   shares of lost messages, each of which is a variant; by default 0, 10, 30 and 50%, or only the scenario
             itself if it has losses of its own or a method that cannot run with faults
    start    round that is shown first
    lesson   whether curves grow as the run plays, so that readers can predict them
    """
    labels, variants = _variants(scenario, losses)
    start = checks.whole_number("start", start, least=1, most=scenario.rounds)
    named: list[dict[str, object]] = [
        {"label": label, "events": list(variant.events)}
        for label, variant in zip(labels, variants, strict=True)
    ]
    return recorded(
        _frames(variants), scenario.to_json(), named, title=title, words=words, start=start, lesson=lesson
    )


def recorded(
    frames: Iterable[Part],
    scenario: dict[str, object],
    variants: Sequence[dict[str, object]],
    *,
    title: str,
    words: str = "",
    start: int = 1,
    lesson: bool = False,
) -> SavedPage:
    """Return a page that shows these frames; `scenario` has the `methods` and `variants` labels and events."""
    header = {"scenario": scenario, "variants": variants, "choice": "Messages lost"}
    content = [packed({"type": "recording", **header, "start": start, "lesson": lesson})]
    size: dict[str, object] = {}
    for kind, entries, arrays in frames:
        size = entries if kind == "network" else size
        entries, arrays = _compact(entries, arrays)
        content.append(packed({"type": kind, **entries}, **arrays))
    recording = b"".join(len(frame).to_bytes(8, "little") + frame for frame in content)
    text = _filled(
        title=html.escape(checks.text("title", title)),
        words=html.escape(checks.text("words", words)),
        recording=base64.b64encode(zlib.compress(recording, 9)).decode(),
    )
    several = f", {len(variants)} variants" if len(variants) > 1 else ""
    rounds = "1 round" if size["rounds"] == 1 else f"{size['rounds']} rounds"
    summary = f"{_readable(len(text.encode()))}: {size['agents']} agents, {rounds}{several}"
    if len(text) > LARGEST:
        raise InvalidInput(
            f"a page may have {_readable(LARGEST)}, but this one has {summary}; take fewer rounds, agents, methods "
            "or variants"
        )
    return SavedPage(text, summary)


def _variants(scenario: Scenario, losses: Sequence[float] | None) -> tuple[list[str], list[Scenario]]:
    """Return labels and scenarios; the events of the scenario itself hold in all of them."""
    own = any(isinstance(event, dict) and event.get("kind") == "loss" for event in scenario.events)
    if losses is None:
        losses = (
            () if own or not all(_bears_faults(method) for method in scenario.build_methods()) else LOSSES
        )
    if isinstance(losses, Sequence) and not losses:
        return ["as set"], [scenario]
    if own:
        raise InvalidInput(
            parameter="losses", required="a scenario without losses of its own", got="one that has some"
        )
    shares = [checks.number("losses", share, least=0, most=0.99) for share in checks.listed("losses", losses)]
    loss = [[{"kind": "loss", "probability": p, "start": 0, "stop": None}] if p else [] for p in shares]
    return [f"{p:.0%}" for p in shares], [
        replace(scenario, events=(*events, *scenario.events)) for events in loss
    ]


def _bears_faults(method: gs.Method) -> bool:
    try:
        gs.simulate(
            method,
            gs.Network.path(2),
            gs.Gaussian([0.0, 1.0]),
            2,
            1,
            faults=gs.faults.Loss(0.1),
            progress=False,
        )
    except GossamerError:
        return False
    return True


def _frames(variants: Sequence[Scenario]) -> Iterator[Part]:
    """Yield the network, the runs of all variants, and then the parts that all variants share.

    With masks, the expected error comes twice: with them and, if the entry "masks" is False, without.
    """
    common: list[Part] = []
    for number, scenario in enumerate(variants):
        for kind, header, arrays in parts(scenario, expected=number == 0):
            if kind in ("run", "missing"):
                yield kind, {**header, "variant": number}, arrays
            elif kind == "network" and number == 0:
                yield kind, {**header, "variant": None}, arrays
            elif number == 0:
                common.append((kind, {**header, "variant": None}, arrays))
    yield from common
    scenario = variants[0]
    if scenario.mask:
        network = scenario.build_network()
        streams = scenario.build_streams(network.agents)
        for kind, header, arrays in references(scenario.build_methods(), network, streams, scenario.horizons):
            yield kind, {**header, "variant": None, "masks": False}, arrays


def _compact(
    header: dict[str, object], arrays: dict[str, AnyArray]
) -> tuple[dict[str, object], dict[str, AnyArray]]:
    """Replace the estimates of a run, and those without masks, by their changes (see `_changes`)."""
    if "estimates" not in arrays:
        return header, arrays
    changes: dict[str, AnyArray] = {}
    for name, estimates in arrays.items():
        start, changes[f"{name}_steps"], changes[f"{name}_codes"] = _changes(estimates.astype(np.float64))
        header = {**header, f"{name}_start": start}
    return header, changes


def _changes(estimates: Floats) -> tuple[float, Floats, AnyArray]:
    """Return where estimates start and how they change, in steps that become finer as agents agree.

    A step is 1/65534 of the range of the run or, if that is less, 1/200 of the range of its round, unless an estimate
    moves further than 32767 of them. Errors do not add up: differences are taken from what the page knows by then.
    """
    known = np.isfinite(estimates)
    low, high = (estimates[known].min(), estimates[known].max()) if known.any() else (0.0, 0.0)
    start = (low + high) / 2
    shown = np.full(estimates.shape[1], start)
    codes = np.full(estimates.shape, NONE, dtype=np.uint16)
    steps = np.ones(len(estimates))
    for t, (row, given) in enumerate(zip(estimates, known, strict=True)):
        if not given.any():
            continue
        away = row[given] - shown[given]
        step = max(min((high - low) / 65534, np.ptp(row[given]) / 200), np.abs(away).max() / 32767)
        steps[t] = step or 1.0
        moves = np.rint(away / steps[t]).astype(np.int64)
        shown[given] += moves * steps[t]
        codes[t, given] = np.where(moves < 0, -2 * moves - 1, 2 * moves)
    halves = np.stack([codes & 255, codes >> 8]).astype(
        np.uint8
    )  # high bytes are mostly zero, which compresses well
    return float(start), steps, halves


def _filled(**given: str) -> str:
    """Return the page with its styles, modules and the sections that it shares with the playground."""
    playground = (STATIC / "index.html").read_text()

    def section(name: str) -> str:
        match = re.search(rf'<section [^>]*class="card {name}".*?</section>', playground, re.DOTALL)
        assert match is not None, name
        return match[0]

    texts = {
        **given,
        "styles": "\n".join((STATIC / name).read_text() for name in STYLES),
        "uplot": (STATIC / "vendor/uplot/uPlot.iife.min.js").read_text(),
        "modules": json.dumps({"imports": _modules("recording.js")}),
        "stage": section("stage"),
        "chart": section("chart"),
    }
    template = (STATIC / "page.html").read_text()
    return re.sub(r"\{\{(\w+)\}\}", lambda match: texts[match[1]], template)


def _modules(first: str) -> dict[str, str]:
    """Return a module and all that it imports as data, by names that do not depend on where the page is."""
    modules: dict[str, str] = {}
    waiting = [first]
    while waiting:
        name = waiting.pop()
        text = (STATIC / name).read_text()
        waiting += [other for other in re.findall(r'from "\./([\w.]+)"', text) if other not in modules]
        text = re.sub(r'from "\./', 'from "gossamer/', text)
        modules[name] = "data:text/javascript;base64," + base64.b64encode(text.encode()).decode()
    return {f"gossamer/{name}": data for name, data in sorted(modules.items())}


def _readable(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"

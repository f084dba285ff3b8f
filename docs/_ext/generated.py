"""What the site reads off the program: every command, fleet.toml, and the measured tables of "Choose a method".

Each is written as Markdown into docs/_generated before the pages that include it are read.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

# -- the command line --------------------------------------------------------------------------------------


def commands() -> str:
    from gossamer.cli import COMMANDS

    parts = []
    for name, entry in COMMANDS.items():
        parts += _command(f"gossamer {name}", entry.load(name))
    return "\n".join(parts)


def _command(path: str, command: Any) -> Iterator[str]:
    yield f"## {path}\n"
    yield f"{_prose(command.help)}\n"
    children: Mapping[str, Any] = getattr(command, "commands", {})
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    options = [param for param in command.params if param.param_type_name == "option" and not param.hidden]
    if not children:
        words = [_argument(param) for param in arguments]
        yield f"```sh\n{' '.join([path, *words, '[OPTIONS]' if options else '']).strip()}\n```\n"
    if arguments or options:
        yield "| option | meaning | default |\n|---|---|---|"
        for param in arguments:
            yield f"| `{(param.name or '').upper()}` | {_cell(param.help)} | {_default(param)} |"
        for param in options:
            flags = ", ".join(f"`{word}`" for word in [*param.opts, *param.secondary_opts])
            yield f"| {flags} | {_cell(param.help)} | {_default(param)} |"
        yield ""
    for name, child in children.items():
        yield from _command(f"{path} {name}", child)


def _argument(param: Any) -> str:
    name = (param.name or "").upper() + ("..." if param.nargs == -1 else "")
    return name if param.required else f"[{name}]"


def _default(param: Any) -> str:
    value = param.default
    if param.required:
        return "required"
    if isinstance(param.show_default, str):
        return param.show_default
    if value is None or value is False or value == () or callable(value):
        return ""
    return f"`{value}`"


def _prose(text: str | None) -> str:
    """Help as Markdown: examples, which are indented there, are code."""
    blocks = []
    for block in re.split(r"\n\s*\n", (text or "").replace("\b\n", "").strip()):
        code = all(line.startswith("  ") for line in block.splitlines()) or block.strip().startswith(
            "gossamer "
        )
        lines = [line.strip() for line in block.splitlines()]
        blocks.append("```sh\n" + "\n".join(lines) + "\n```" if code else _escape(" ".join(lines)))
    return "\n\n".join(blocks)


def _cell(text: str | None) -> str:
    return _escape(" ".join((text or "").split())).replace("|", "\\|")


def _escape(text: str) -> str:
    """Text that means itself in Markdown; flags and file names look like code."""
    pieces = re.split(
        r"((?<![\w-])--[a-z][\w-]*|\b\w[\w/]*\.(?:toml|py|csv|roster|pem|key)\b(?::\w[\w:=,.]*\w)?)", text
    )
    return "".join(
        f"`{piece}`" if k % 2 else re.sub(r"([\\*_<>\[\]$])", r"\\\1", piece)
        for k, piece in enumerate(pieces)
    )


# -- fleet.toml --------------------------------------------------------------------------------------------


def fleet_file() -> str:
    """A fleet of three as `gossamer fleet init` writes it: every field, with its explanation."""
    from gossamer.agents.config.template import fleet_text
    from gossamer.agents.membership.fleet import Fleet
    from gossamer.networks import Network

    fleet = Fleet.create(Network.path(3), endpoints=[f"10.0.0.{k}:7447" for k in (1, 2, 3)])
    return f"```toml\n{fleet_text(fleet).strip()}\n```"


def settings() -> str:
    """Every setting of fleet.toml, from its declaration."""
    from gossamer.agents.config.tables import ROWS, SETTINGS, TABLES

    parts = []
    for table in ("", *TABLES, *ROWS):
        heading = f"`[{table}]`" if table in TABLES else f"Rows of `{table}`" if table else "Top of the file"
        comment = " ".join((TABLES[table].__doc__ or "").split()) if table in TABLES else ""
        rows = [_setting(key) for key in SETTINGS if key.rpartition(".")[0] == table]
        head = ["setting", "value", "default", "meaning", "changes take effect"]
        parts += [f"### {heading}", _escape(comment), _table(head, rows)]
    return "\n\n".join(filter(None, parts))


def _setting(key: str) -> list[str]:
    from gossamer.agents.config.declaration import REQUIRED
    from gossamer.agents.config.settings import AGREED
    from gossamer.agents.config.tables import SETTINGS

    table, _, name = key.rpartition(".")
    declared = SETTINGS[key]
    when = "on SIGHUP" if declared.live else "after a restart"
    if declared.setting.agreed is not None or table in AGREED:
        when += "; all agents need the same"
    default = "required" if declared.default is REQUIRED else f"`{json.dumps(declared.default)}`"
    return [f"`{name}`", _cell(declared.allowed), default, _cell(declared.setting.text), when]


# -- choose a method: every number measured ----------------------------------------------------------------


def _streams(network: Any) -> Any:
    import numpy as np

    import gossamer as gs

    return gs.Gaussian(np.random.default_rng(38).uniform(0, 10, network.agents), std=1.0)


def _graphs() -> dict[str, Any]:
    import gossamer as gs

    return {
        "path": gs.Network.path(100),
        "cycle": gs.Network.cycle(100),
        "star": gs.Network.star(100),
        "grid": gs.Network.grid(10, 10),
        "random": gs.Network.erdos_renyi(100, seed=1),
    }


def choices() -> str:
    """The exact error of every choice, over that of a center, on five graphs."""
    import gossamer as gs

    forms = {
        '`AnytimeSDA("heavy-ball")`': gs.AnytimeSDA("heavy-ball"),
        '`AnytimeSDA("chebyshev")`': gs.AnytimeSDA("chebyshev"),
        "`AnytimeSDA()` (Nesterov)": gs.AnytimeSDA(),
        '`AnytimeSDA("local-heavy-ball")`': gs.AnytimeSDA("local-heavy-ball"),
        "`SDA()` (the paper's)": gs.SDA(),
        "`DSG()`": gs.DSG(),
        "`DMASG()`": gs.DMASG(),
    }
    errors = gs.compare(forms, _graphs(), _streams, [300, 1000], progress=False).records()
    value = {(row["method"], row["network"], row["rounds"]): row["over_limit"] for row in errors}
    graphs = list(_graphs())
    rows = [
        [label]
        + [" → ".join(_number(value[label, graph, rounds]) for rounds in (300, 1000)) for graph in graphs]
        for label in forms
    ]
    return _table(["after 300 → 1000 rounds", *graphs], rows)


def under_loss() -> str:
    """The same where messages get lost and edges come and go: simulated, 20 trials.

    What the network costs is how far the agents are from a center that sees the same samples; the total is 1 plus that.
    On a complete graph plain averaging is the center: every agent holds the mean of all agents' samples.
    """
    import numpy as np

    import gossamer as gs

    def run(method: Any, net: Any, faults: Any = None) -> Any:
        return gs.simulate(method, net, _streams(net), 1000, 20, faults=faults, progress=False)

    graphs = {"path": gs.Network.path(100), "cycle": gs.Network.cycle(100), "grid": gs.Network.grid(10, 10)}
    cases: dict[str, Any] = {
        f"{name}, {int(p * 100)}% lost": (net, gs.faults.Loss(p))
        for p in (0.1, 0.5)
        for name, net in graphs.items()
    }
    cases["moving agents"] = (gs.ChangingNetwork.mobile(60, radius=0.2, speed=0.01), None)
    cases["random matchings"] = (gs.ChangingNetwork.matchings(60), None)
    forms = {
        f'`AnytimeSDA("{name}")`': gs.AnytimeSDA(name)
        for name in ("heavy-ball", "nesterov", "local-heavy-ball")
    }
    forms["`DSG()`"] = gs.DSG()
    center = {n: run(gs.DSG(), gs.Network.complete(n)).estimates for n in (60, 100)}
    rows = []
    for label, method in forms.items():
        row = [label]
        for net, faults in cases.values():
            try:
                with np.errstate(over="ignore", invalid="ignore"):
                    result = run(method, net, faults)
                    share = ((result.estimates - center[net.agents]) ** 2).sum(axis=(1, 2)).mean()
                row.append(_number(1 + share / result.centralized_limit))
            except gs.Unsupported:
                row.append("-")
        rows.append(row)
    return _table(["method", *cases], rows)


def theorem() -> str:
    """Theorem 3 on five graphs: its second-order constants, and errors next to bounds after 3000 rounds."""
    import gossamer as gs

    rounds, far = 3000, 10**7

    def constant(net: Any, obs: Any, smoothing: float) -> float:
        return float(gs.theory.theorem_3(net, obs, far, smoothing).terms["mixing noise"] * far**2)

    rows: dict[str, list[str]] = {}
    for net in _graphs().values():
        obs, window = _streams(net), gs.AnytimeSDA().window(net)
        lowest = (gs.theory.network_limit(net, obs, far) * far - 1) * far
        values = {
            "√κ": f"{net.condition_number**0.5:.1f}",
            "c without smoothing, Σ G": f"{constant(net, obs, 0):.0f}",
            "its bound 5/4 (N − 1)(√κ − 1)": f"{1.25 * (net.agents - 1) * (net.condition_number**0.5 - 1):,.0f}",
            "c with the default window": f"{constant(net, obs, window):.0f}",
            "c of the network limit": f"{lowest:.1f}",
            "error without smoothing": f"{gs.theory.anytime_error(net, obs, rounds) * rounds:.4f}",
            "Theorem 3": f"{gs.theory.theorem_3(net, obs, rounds).total * rounds:.4f}",
            "error with the default window": f"{gs.theory.anytime_error(net, obs, rounds, window) * rounds:.4f}",
            "Theorem 3 with that window": f"{gs.theory.theorem_3(net, obs, rounds, window).total * rounds:.4f}",
            "error of SDA": f"{gs.exact('sda', net, obs, rounds).total_error * rounds:.2f}",
            "Theorem 1 (SDA)": f"{gs.theory.theorem_1(net, obs, rounds).total * rounds:.1f}",
        }
        for name, value in values.items():
            rows.setdefault(name, [name]).append(value)
    return _table(["", *_graphs()], list(rows.values()))


def _number(value: float) -> str:
    """Three digits; what has not come near the limit is said to be large, or to diverge."""
    if not value < 1e6:
        return "diverges"
    return f"{value:.3f}" if value < 2 else f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


PAGES: dict[str, Callable[[], str]] = {
    "commands": commands,
    "fleet": fleet_file,
    "settings": settings,
    "choices": choices,
    "under_loss": under_loss,
    "theorem": theorem,
}


def write(app: Sphinx) -> None:
    folder = Path(app.srcdir) / "_generated"
    folder.mkdir(exist_ok=True)
    for name, make in PAGES.items():
        (folder / f"{name}.md").write_text(make() + "\n", encoding="utf-8")


def write_opening(app: Sphinx, exception: Exception | None) -> None:
    """Write the run that the site opens with, a page of its own in a frame of the first one."""
    from gossamer.dashboard.scenario import Scenario

    if exception is None and app.builder.format == "html":
        scenario = Scenario(
            network="grid:10x10",
            methods=(("anytime-sda", {"acceleration": "local-heavy-ball"}),),
            rounds=200,
            means="ramp",
            spread=20.0,
        )
        scenario.save(Path(app.outdir) / "_static" / "thermometers.html", title="A field of thermometers")


def clean_notebooks(app: Sphinx, exception: Exception | None) -> None:
    """Leave out of downloaded notebooks what only this site understands: roles, and links to its pages."""
    if exception is not None or app.builder.format != "html":
        return
    for path in Path(app.outdir).rglob("*.ipynb"):
        book = json.loads(path.read_text(encoding="utf-8"))
        for cell in book["cells"]:
            if cell["cell_type"] == "markdown":
                cell["source"] = _plain("".join(cell["source"])).splitlines(keepends=True)
        path.write_text(json.dumps(book, indent=1) + "\n", encoding="utf-8")


def _plain(text: str) -> str:
    text = re.sub(r"(?:\{[\w:-]+\}|:[\w:]+:)`([^`<]+?)\s*<[^`]*>`", r"\1", text)
    text = re.sub(r"(?:\{[\w:-]+\}|:[\w:]+:)(`[^`]+`)", r"\1", text)
    return re.sub(r"\[([^]]+)\]\((?![a-z]+:)[^)]*\)", r"\1", text)


def module_of(app: Sphinx, module: str, name: str) -> str | None:
    """Return the module with the source of a public name; for a member, that of its class."""
    thing = getattr(importlib.import_module(module), name.partition(".")[0], None)
    return getattr(thing, "__module__", None)


def no_signature(
    app: Sphinx, what: str, name: str, thing: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str, None] | None:
    """Leave out the (*args, **kwargs) of protocols, which are not called."""
    return ("", None) if what == "class" and getattr(thing, "_is_protocol", False) else None


def break_long_names(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Let names of more than 40 characters continue on the next line after an underscore, in the cells of tables."""

    def breakable(name: re.Match[str]) -> str:
        return name[0].replace("_", "_<wbr>")

    def cell(text: re.Match[str]) -> str:
        return re.sub(r'(?<=<span class="pre">)[^<]{40,}', breakable, text[0])

    context["body"] = re.sub(r"<td>.*?</td>", cell, context.get("body", ""), flags=re.DOTALL)


def back_to_reference(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object
) -> None:
    """Correct the links from the source: viewcode expects all public names of a module in the same package."""

    def place(link: re.Match[str]) -> str:
        member = link[2].partition("." + link[1].rpartition(".")[2])[2]
        return f"{link[1]}.html#{link[1]}{member}"

    if page.startswith("_modules/"):
        context["body"] = re.sub(r"(?<=/)(gossamer[\w.]*)\.html#([\w.]*)", place, context["body"])


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", write)
    app.connect("viewcode-follow-imported", module_of)
    app.connect("autodoc-process-signature", no_signature)
    app.connect("html-page-context", break_long_names)
    app.connect("html-page-context", back_to_reference)
    app.connect("build-finished", write_opening)
    app.connect("build-finished", clean_notebooks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

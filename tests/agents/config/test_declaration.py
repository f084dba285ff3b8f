"""Every setting is declared once, and what is made from the declarations is complete.

The recipe "Add a setting" of CONTRIBUTING.md is followed on a copy of the package.
"""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.main import get_command

import gossamer
from gossamer.agents.config.declaration import REQUIRED, SECONDS, Declaration, Declared, settings_of
from gossamer.agents.config.members import Edge
from gossamer.agents.config.model import FleetModel
from gossamer.agents.config.parsing import parse
from gossamer.agents.config.settings import AGREED, FIXED, MEMBER_FIXED, AgentSettings, Limits
from gossamer.agents.config.tables import FORMAT, ROWS, SETTINGS, TABLES, FleetFile, Member
from gossamer.agents.config.template import fleet_text
from gossamer.cli import fleet_options
from gossamer.cli.fleet import fleet_app
from gossamer.errors import InvalidInput
from gossamer.families import FAMILIES, Huber
from gossamer.methods.ledger import RETURN_RATE, SILENCE

DOCS = Path(gossamer.__file__).parents[2] / "docs"
FLEET = FleetFile(
    agents=[Member(id=i, name=f"agent{i}", endpoint=f"127.0.0.1:{7447 + i}") for i in (0, 1)],
    edges=[Edge(0, 1)],
)


def plain(text: str) -> str:
    return " ".join(text.replace("#", " ").split())


def reference() -> str:
    sys.path.insert(0, str(DOCS / "_ext"))
    try:
        import generated  # type: ignore[import-not-found]
    finally:
        sys.path.pop(0)
    written: str = generated.settings()
    return written


def test_every_field_is_declared() -> None:
    for kind in (FleetFile, *TABLES.values(), *ROWS.values()):
        names = {field.name for field in msgspec.structs.fields(kind)}
        assert names - set(settings_of(kind)) <= {"parameters", *TABLES}, kind
    for kind in (AgentSettings, FleetModel, Limits):
        assert set(settings_of(kind)) == {field.name for field in fields(kind)}  # type: ignore[arg-type]


@pytest.mark.parametrize("key", SETTINGS)
def test_a_declaration_is_a_sentence_and_its_default_is_allowed(key: str) -> None:
    declared = SETTINGS[key]
    assert declared.setting.text.endswith((".", "..."))
    if declared.default is not REQUIRED and not isinstance(declared.default, list):
        declared.check_text(key, declared.default)


def test_the_file_the_reference_and_help_show_every_setting(tmp_path: Path) -> None:
    text, page = fleet_text(FLEET), reference().replace("`", "").replace("\\", "")
    for key, declared in SETTINGS.items():
        table, _, name = key.rpartition(".")
        part = text.partition(f"\n[{table}]\n")[2].partition("\n[")[0] if table in TABLES else text
        assert plain(declared.setting.text) in plain(part), key
        assert re.search(rf"^#   {name} " if table in ROWS else rf"^{name} = ", part, re.MULTILINE), key
        assert f"| {name} | " in page, key
        assert plain(declared.setting.text.replace("`", "")) in plain(page), key
    for kind in (AgentSettings, FleetModel, Limits):
        shown = plain(inspect.getdoc(kind) or "")
        for name, declared in settings_of(kind).items():
            assert f"{name} : " in shown
            assert plain(declared.setting.text) in shown, name
    path = tmp_path / "fleet.toml"
    path.write_text(text)
    assert parse(path, FleetFile, FORMAT) == FLEET


def test_a_setting_of_an_agent_has_the_default_of_the_file() -> None:
    ours = {"pace": None, "endpoint": "", "family": "logistic", "covariates": ("x",)}
    ours |= {"mask": (), "noise": (), "change": ()}
    for kind in (AgentSettings, FleetModel, Limits):
        for name, declared in settings_of(kind).items():
            if declared.key:
                source = SETTINGS[declared.key]
                expected = ours.get(name, source.value(name, source.default))
                assert declared.default == expected, name
                times = declared.setting.unit == SECONDS
                assert (
                    times or declared.type == source.type or name in ("range", "mask", "noise", "change")
                ), name


def test_an_agent_has_the_settings_that_the_file_has_under_the_same_name() -> None:
    """`id`, `name`, `method` and `model` are made from more than one value of the file."""
    named = {key.rpartition(".")[2] for key in SETTINGS if not key.startswith("left.")}
    settings = settings_of(AgentSettings)
    assert {n for n in settings if n in named and not settings[n].key} <= {"id", "name", "method", "model"}


def test_numbers_that_others_define_are_theirs() -> None:
    """Help pages load the tables, which therefore cannot load the modules that define these."""
    assert SETTINGS["rounds.silence"].default == SILENCE
    assert (
        SETTINGS["rounds.return_rate"].default
        == SETTINGS["rounds.return_rate"].setting.omitted
        == RETURN_RATE
    )
    assert SETTINGS["model.threshold"].default == Huber.threshold
    assert all(f'"{family}"' in SETTINGS["model.family"].setting.text for family in FAMILIES)


def test_what_fleets_agree_on_and_what_is_fixed() -> None:
    """The order is that of the bytes of a fingerprint, and a new setting goes to its end."""
    assert (
        *("dimension", "weighting", "variance", "covariance", "extremes", "bins", "replicates", "range"),
        *(
            "method",
            "model",
            "return_rate",
            "mask",
            "noise",
            "epsilon",
            "delta",
            "change",
            "honest",
            "refresh",
            "values",
        ),
    ) == AGREED
    assert set(FIXED) == {
        *("id", "fleet", "endpoint", "reachable", "broker", "listen", "store", "silence", "quiet", "facts"),
        *("least_neighbors", "precision"),
        *AGREED,
    }
    assert MEMBER_FIXED == ("source", "sinks", "end", "metrics")
    positions = [settings_of(AgentSettings)[name].setting.agreed for name in AGREED]
    assert positions == list(range(len(AGREED)))


def test_options_have_the_help_of_what_they_set() -> None:
    commands: Any = get_command(fleet_app)
    options = {param.name: param.help for param in commands.commands["init"].params}
    for name, key in {
        "every": "rounds.every",
        "dimension": "observations.dimension",
        "name": "fleet",
    }.items():
        assert options[name] == SETTINGS[key].setting.text
    assert options["range_"].startswith(SETTINGS["observations.range"].setting.text)
    with pytest.raises(InvalidInput, match='--report must be a time of at least "10ms", got'):
        fleet_options.seconds_of("logging.report", "--report", "9ms")


def refuse(name: str, value: object) -> None:
    raise InvalidInput(f"{name} is refused, got {value!r}")


@pytest.mark.parametrize(
    ("kind", "setting", "value", "message"),
    [
        (
            int,
            Declaration("x.", least=1, most=3),
            4,
            "x must be a whole number of at least 1 and at most 3, got 4",
        ),
        (int, Declaration("x.", least=1), 1.5, "x must be a whole number of at least 1"),
        (float, Declaration("x.", above=0, below=1), 1.0, "x must be a finite number above 0 and below 1"),
        (str, Declaration("x.", choices=("a", "b")), "c", "x must be 'a' or 'b', got 'c'"),
        (str, Declaration("x.", check=refuse), "c", "x is refused, got 'c'"),
        (float | None, Declaration("x.", above=0), 0, "x must be a finite number above 0"),
    ],
)
def test_values_are_checked(kind: Any, setting: Declaration, value: object, message: str) -> None:
    declared = Declared("x", setting, kind, None)
    declared.check("x", None)  # not given
    with pytest.raises(InvalidInput, match=re.escape(message)):
        declared.check("x", value)


def test_times_are_text_in_the_file_and_seconds_elsewhere() -> None:
    timeout = SETTINGS["rounds.timeout"]
    assert [timeout.value("t", text) for text in ("auto", "250ms")] == ["auto", 0.25]
    with pytest.raises(InvalidInput, match=r'^t must be "auto" or a time such as'):
        timeout.check_text("t", "soon")
    with pytest.raises(InvalidInput, match=r"^t must be a finite number above 0, got 0"):
        timeout.check_text("t", "0ms")


def _insert(path: Path, before: str, text: str) -> None:
    found = path.read_text()
    assert found.count(before) == 1
    path.write_text(found.replace(before, text + before))


RECIPE = """
import sys
sys.path.insert(0, DOCS)
import generated
from gossamer.agents.config.members import Edge
from gossamer.agents.config.settings import AGREED, FIXED, AgentSettings
from gossamer.agents.config.tables import FleetFile, Member, RoundsTable
from gossamer.agents.config.template import fleet_text
from gossamer.cli.fleet_options import option
rows = dict(agents=[Member(id=0, name="a", endpoint="a:1")], edges=[])
assert "# How patient it is.\\npatience = \\"2s\\"" in fleet_text(FleetFile(**rows))
assert "| `patience` | time above 1 s | `\\"2s\\"` | How patient it is. | after a restart" in generated.settings()
assert AGREED[-1] == "patience" and "patience" in FIXED
assert "patience : float, in seconds, default 2.0" in AgentSettings.__doc__
assert option("rounds.patience").help == "How patient it is."
usual = AgentSettings(0, ())
said = FleetFile(**rows, rounds=RoundsTable(patience="3s")).values_of(AgentSettings)
other = usual.with_(patience=said["patience"])
assert (usual.patience, other.patience) == (2.0, 3.0)
assert len(usual.fingerprint) == 18 and len(other.fingerprint) == 40
for make, name in (
    (lambda: usual.with_(patience=0.5), "patience"),
    (FleetFile(**rows, rounds=RoundsTable(patience="500ms")).check_values, "rounds.patience"),
):
    try:
        make()
    except ValueError as error:
        print(error)
        assert str(error) == name + " must be a finite number above 1, got 0.5"
    else:
        raise AssertionError(name)
print("done")
"""


@pytest.mark.slow
def test_the_recipe_for_a_setting_changes_two_files(tmp_path: Path) -> None:
    """The third is the module that uses it."""
    package = Path(gossamer.__file__).parent
    copy = tmp_path / "gossamer"
    for folder in ("", "agents"):
        (copy / folder).mkdir()
        for entry in (package / folder).iterdir():
            if entry.name not in ("agents", "config"):
                (copy / folder / entry.name).symlink_to(entry)
    (copy / "agents" / "config").mkdir()
    for entry in (package / "agents" / "config").glob("*.py"):
        (copy / "agents" / "config" / entry.name).write_bytes(entry.read_bytes())
    declared = 'Declaration("How patient it is.", unit=SECONDS, above=1, agreed=19, omitted=2.0)'
    field = f'    patience: Annotated[str, {declared}] = "2s"\n'
    _insert(copy / "agents/config/tables.py", "    death: Annotated[\n", field)
    _insert(
        copy / "agents/config/settings.py",
        '    death: float = in_file("rounds.death")',
        '    patience: float = in_file("rounds.patience")\n',
    )
    program = f"DOCS = {str(DOCS / '_ext')!r}\n{RECIPE}"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"},
        check=False,
    )
    assert done.stdout.endswith("done\n"), done.stderr

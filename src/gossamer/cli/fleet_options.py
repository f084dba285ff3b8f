"""The options that set what fleet.toml says; their help is the declaration of the setting."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gossamer.agents.config.tables import SETTINGS, ModelTable
from gossamer.agents.config.values import duration
from gossamer.errors import InvalidInput


def option(key: str, *flags: str, note: str = "", **others: Any) -> Any:
    """Return an option that sets the setting at `place` in fleet.toml; `note` completes its help."""
    return typer.Option(*flags, help=f"{SETTINGS[key].setting.text} {note}".strip(), **others)


AS_IN_FILE = "as in fleet.toml"

Name = Annotated[str, option("fleet")]
Dimension = Annotated[int, option("observations.dimension")]
Range = Annotated[
    str | None,
    option("observations.range", "--range", note="Written as --range=-40,60 (per component: -40,60:0,1)."),
]
Mask = Annotated[str | None, option("privacy.mask", "--mask", note="Written as --mask=100, or 100,5.")]
Noise = Annotated[str | None, option("privacy.noise", "--noise", note="Written as --noise=3, or 3,0.1.")]
Epsilon = Annotated[float, option("privacy.epsilon")]
Delta = Annotated[float, option("privacy.delta")]
Change = Annotated[
    str | None, option("privacy.change", "--change", note="Written as --change=100, or 100,5.")
]
Honest = Annotated[
    float | None,
    option(
        "privacy.honest",
        note="Below 1 it is a share of the members.",
        show_default="0.8 with masks and an epsilon, otherwise 1",
    ),
]
NewEvery = Annotated[str, option("rounds.every")]
Every = Annotated[str | None, option("rounds.every", show_default=AS_IN_FILE)]
Report = Annotated[str | None, option("logging.report", show_default=AS_IN_FILE)]
LogLevel = Annotated[str | None, option("logging.level", show_default=AS_IN_FILE)]
NewSource = Annotated[str | None, option("agents.source")]
Source = Annotated[str | None, option("agents.source", show_default=AS_IN_FILE)]
AgentSource = Annotated[
    str | None, option("agents.source", show_default=AS_IN_FILE, envvar="GOSSAMER_SOURCE")
]
Sinks = Annotated[
    list[str] | None,
    option(
        "agents.sinks", "--sink", note="May be given several times.", show_default=AS_IN_FILE, metavar="URL"
    ),
]
End = Annotated[str | None, option("agents.end", show_default=AS_IN_FILE, envvar="GOSSAMER_END")]


def seconds_of(key: str, flag: str, text: str | None) -> float | None:
    """Return the time that an option gives instead of the setting at `place`, in seconds."""
    if text is None:
        return None
    seconds, least = duration(flag, text), SETTINGS[key].setting.least or 0.0
    if seconds < least:
        raise InvalidInput(
            parameter=flag, required=f'a time of at least "{1000 * least:g}ms"', got=repr(text)
        )
    return seconds


def level_of(text: str | None) -> str | None:
    """Return the log level that an option gives."""
    if text is not None:
        SETTINGS["logging.level"].check("log_level", text)
    return text


def range_of(text: str | None) -> tuple[float | tuple[float, float], ...]:
    """Return the range that an option gives: one pair, or several with colons between them."""
    if text is None:
        return ()
    try:
        ends = [[float(end) for end in pair.split(",")] for pair in text.split(":")]
        pairs = [(low, high) for low, high in ends]
    except ValueError:
        raise InvalidInput(
            f"--range must be two numbers such as -40,60, or several such pairs with colons between, got {text!r}"
        ) from None
    return pairs[0] if len(pairs) == 1 else tuple(pairs)


def honest_of(number: float | None, members: int, *, divided: bool) -> int:
    """Return the number of honest members that an option gives, as a number or as a share of the members.

    The default is 0.8 of the members if the noise is `divided` among them, otherwise 1.
    """
    if number is None:
        number = 0.8 if divided else 1
    return max(int(number * members + 1e-9) if 0 < number < 1 else int(number), 1)


def scales_of(flag: str, text: str | None) -> float | tuple[float, ...]:
    """Return the standard deviation or size that an option gives, or one per component with commas between them."""
    if text is None:
        return 0.0
    try:
        scales = tuple(float(scale) for scale in text.split(","))
    except ValueError:
        raise InvalidInput(
            f"{flag} must be a number such as 100, or one per component, got {text!r}"
        ) from None
    return scales[0] if len(scales) == 1 else scales


def model_of(text: str | None) -> ModelTable:
    """Return the model that an option gives."""
    if text is None:
        return ModelTable()
    family, _, names = text.partition(":")
    if not names:
        raise InvalidInput(
            f"--model must be FAMILY:COVARIATE+COVARIATE+..., such as logistic:age+dose, got {text!r}"
        )
    return ModelTable(family=family, covariates=tuple(name.strip() for name in names.split("+")))

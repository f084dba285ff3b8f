"""Addresses of sources and sinks, and what opens them."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest
from tests.support.reading import collect, parse_source

from gossamer.agents.config import urls
from gossamer.agents.config.urls import Place, Url
from gossamer.agents.sources.kinds import LiveSource
from gossamer.errors import InvalidInput


def test_an_address_is_taken_apart() -> None:
    url = Url(
        "mqtts://meter%20one@[::1]:1884/plant/+/a,b%2Cc/#?field=a.b&scale=0.1,2&max_age=2m&retained=true"
    )
    assert (url.kind, url.user, url.host, url.port) == ("mqtts", "meter one", "::1", 1884)
    assert url.path == "plant/+/a,b,c/#"
    assert url.paths == ["plant/+/a", "b,c/#"]
    assert (url.text_of("field"), url.numbers("scale"), url.seconds("max_age")) == ("a.b", (0.1, 2.0), 120.0)
    assert url.flag("retained")
    assert not url.flag("other")
    assert url.number("offset", 3.0) == 3
    url.finish()


@pytest.mark.parametrize(
    ("text", "rest"),
    [("cmd:echo a?b=c:d", "echo a?b=c:d"), ("cmd?field=x:echo 1", "echo 1"), ("-?field=x", "")],
)
def test_other_kinds_have_their_options_before_the_colon(text: str, rest: str) -> None:
    url = Url(text)
    assert (url.kind, url.rest) == (text[: 3 if "cmd" in text else 1], rest)
    assert url.text_of("field", "none") == ("x" if "?field" in text else "none")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("mqtt://ann:secret@host/t", "an address must not hold a password.* of 'ann'.*password_file=FILE"),
        ("mqtt://host:x/t", "the host of an address must be host:port"),
        ("mqtt://host/t?a=1&a=2", "each option must be written once, as NAME=VALUE, got 'a=2'"),
        ("mqtt://host/t?a", "each option must be written once"),
    ],
)
def test_a_wrong_address_says_why(text: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why) as error:
        Url(text)
    assert "secret" not in str(error.value)


def test_wrong_options_say_why() -> None:
    url = Url("x://h/p?scale=big&n=1,2&scal=1&on=yes&n2=-1")
    with pytest.raises(
        InvalidInput, match="scale must be a number, or several with commas between them, got 'big'"
    ):
        url.numbers("scale")
    with pytest.raises(InvalidInput, match="n must be one number, got 1,2"):
        url.number("n")
    with pytest.raises(InvalidInput, match="n2 must be"):
        url.number("n2", above=0)
    with pytest.raises(InvalidInput, match="on must be"):
        url.flag("on")
    with pytest.raises(InvalidInput, match="x: needs the option topic="):
        url.text_of("topic")
    with pytest.raises(InvalidInput, match=r"x: takes the options .*, got 'scal' \(did you mean 'scale'\?\)"):
        url.finish()


def test_names_are_filled_in_and_secrets_are_secret(tmp_path: Path) -> None:
    place = Place(name="pump", fleet="plant", directory=tmp_path)
    assert place.fill("mqtt://h/{fleet}/{name}") == "mqtt://h/plant/pump"
    assert place.fill("cmd:awk {name}") == "cmd:awk {name}"
    file = tmp_path / "password"
    file.write_text("swordfish\n")
    file.chmod(0o640)
    with pytest.raises(
        InvalidInput, match=r"must be readable only by its owner \(mode 0600\), got mode 0640"
    ):
        place.secret("password")
    file.chmod(0o600)
    assert place.secret("password") == "swordfish"
    with pytest.raises(InvalidInput, match="cannot be read"):
        place.secret("nothing")


class Ramp(LiveSource):
    """Whole numbers."""

    form = "ramp://?first=0"

    def __init__(self, url: Url, place: Place) -> None:
        super().__init__(place.dimension)
        self.first = int(url.number("first", 0))

    async def raw(self):
        for k in range(3):
            yield str(self.first + k)


def test_another_package_adds_a_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    points = EntryPoints(
        [
            EntryPoint("ramp", f"{__name__}:Ramp", "gossamer.sources"),
            EntryPoint("broken", "no_such_module:Broken", "gossamer.sources"),
            EntryPoint("list", "builtins:print", "gossamer.sources"),
        ]
    )
    monkeypatch.setattr(urls, "entry_points", lambda **given: points.select(**given))
    monkeypatch.setattr(urls, "_load", lambda point: Ramp if point.name == "ramp" else original(point))
    assert collect(parse_source("ramp://?first=5", 1, 0)) == [[5], [6], [7]]
    with pytest.raises(InvalidInput, match="ramp: takes the options first, got 'last'"):
        parse_source("ramp://?last=5", 1, 0)
    with pytest.raises(InvalidInput, match=r"broken: of the package \? cannot be loaded \(No module"):
        parse_source("broken://", 1, 0)
    with pytest.raises(InvalidInput, match="list: must open a PacedSource or a LiveSource, got NoneType"):
        parse_source("list://", 1, 0)
    kinds = dict(urls.installed("source", {}))
    assert kinds["ramp"].form == "ramp://?first=0"
    assert kinds["ramp"].text == "Whole numbers."
    assert "cannot be loaded" in kinds["broken"].text


original = urls._load

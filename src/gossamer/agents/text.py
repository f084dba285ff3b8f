"""Text that other machines sent."""

from __future__ import annotations

from typing import Any

_LONGEST = 2000
"""Most characters of one text that are kept."""


def printable(text: str) -> str:
    """The beginning of a text, without control characters: it may be shown in a terminal, which would obey them."""
    return "".join(character if character.isprintable() else " " for character in text[:_LONGEST])


def all_printable(value: object) -> Any:
    """Decoded JSON with every text in it made printable, keys included."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [all_printable(item) for item in value]
    if isinstance(value, dict):
        return {printable(key): all_printable(item) for key, item in value.items()}
    return value

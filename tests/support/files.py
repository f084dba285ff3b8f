"""Whole-file replacement, for files that a running program reads."""

from __future__ import annotations

from pathlib import Path


def replace_file(path: Path, content: str | bytes) -> None:
    """Replace a file in one step, so that no reader ever sees half of it; its mode stays."""
    beside = path.with_name(f"{path.name}.replacing")
    beside.touch(path.stat().st_mode & 0o777 if path.exists() else 0o644)
    beside.write_bytes(content.encode() if isinstance(content, str) else content)
    beside.replace(path)

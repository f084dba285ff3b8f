"""What test modules share. A test module imports from here and from the package, never from another test module."""

from __future__ import annotations

from pathlib import Path

SUPPORT = Path(__file__).parent
ROOT = SUPPORT.parents[1]

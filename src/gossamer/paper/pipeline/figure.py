"""The definition of a figure: its computations, its plot, its two-sentence explanation, and its claims."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gossamer.paper.pipeline.claims import Claim
from gossamer.paper.pipeline.pieces import Piece
from gossamer.paper.pipeline.results import Results
from gossamer.paper.pipeline.settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture


@dataclass(frozen=True)
class Figure:
    """One figure of the report.

    name      its name on the command line: "2" for Figure 2
    title     a few words
    ours      whether it is ours rather than the paper's
    pieces    settings -> independent pieces of work; pieces that figures share run once
    draw      (rows, settings) -> a Matplotlib figure
    explain   (rows, settings) -> two sentences on what it shows, with numbers
    claims    the claims of the paper that these rows can judge
    """

    name: str
    title: str
    pieces: Callable[[Settings], list[Piece]]
    draw: Callable[[Results, Settings], Picture]
    explain: Callable[[Results, Settings], str]
    claims: tuple[Claim, ...] = ()
    ours: bool = False

"""The stage of the playground as a widget of Jupyter, whose round Python reads and sets."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from gossamer import checks
from gossamer.dashboard.animation import Animation
from gossamer.dashboard.scenario import Scenario
from gossamer.errors import InvalidInput, require

if TYPE_CHECKING:
    from collections.abc import Sequence

RENDER = """
export default {
  render({ model, el }) {
    const frame = document.createElement("iframe");
    frame.style = `width: 100%; height: ${model.get("height") || 760}px; border: 0`;
    frame.srcdoc = model.get("page");
    el.append(frame);
    const waiting = setInterval(() => {
      const view = frame.contentWindow?.playground;
      if (!view) return;
      clearInterval(waiting);
      if (!model.get("height")) frame.style.height = `${frame.contentDocument.documentElement.scrollHeight}px`;
      view.remember = () => {
        model.set("round", view.round);
        model.save_changes();
      };
      model.on("change:round", () => view.round === model.get("round") || view.goTo(model.get("round")));
      view.goTo(model.get("round"));
    }, 50);
    return () => clearInterval(waiting);
  },
};
"""
"""Show the page in a frame, and keep its round and that of the widget the same whenever it does not play."""


def widget(
    scenario: Scenario | Animation,
    *,
    losses: Sequence[float] | None = None,
    start: int = 1,
    lesson: bool = False,
    height: int | None = None,
) -> object:
    """Return a Jupyter widget that shows the runs of a scenario on the stage of the playground.

    Parameters
    ----------
    scenario : Scenario or Animation
        The scenario or animation to show; an animation holds one run, so `losses` and `lesson` do not apply to it.
    losses : sequence of float, optional
        Shares of lost messages between which the reader chooses, as in `Scenario.save`.
    start : int
        The round that the widget shows first, from 1.
    lesson : bool
        Whether curves grow as the run plays, so that readers can predict them.
    height : int, optional
        Height of the widget in pixels; by default that of the page, so that nothing has to be scrolled inside it.

    Returns
    -------
    anywidget.AnyWidget
        Its trait `round` is the round that is shown: assign to it to show another one, observe it to follow the reader.

    See Also
    --------
    Scenario.page : The same as a page, which notebooks show without the package anywidget.

    Examples
    --------
    In a cell of a notebook::

        stage = gs.dashboard.widget(gs.dashboard.Scenario(network="grid:4x4", rounds=100))
        stage

    and in the next one ``stage.round = 40``.
    """
    if isinstance(scenario, Animation):
        page = scenario.page
    elif isinstance(scenario, Scenario):
        page = scenario.page(losses=losses, start=start, lesson=lesson)
    else:
        raise InvalidInput(
            parameter="scenario",
            required="a gs.dashboard.Scenario or what run.animate() returns",
            got=checks.brief(scenario),
        )
    pixels = 0 if height is None else checks.whole_number("height", height, least=100)
    made: object = _kind()(page=page.text, round=start, height=pixels)
    return made


@cache
def _kind() -> type:
    """Return the class of the widget; the package that defines its base class is optional."""
    base = require("anywidget", "notebook").AnyWidget
    traits = require("traitlets", "notebook")
    synced = {"page": traits.Unicode(), "round": traits.Int(1), "height": traits.Int(0)}
    return type("StageWidget", (base,), {"_esm": RENDER, **{k: v.tag(sync=True) for k, v in synced.items()}})

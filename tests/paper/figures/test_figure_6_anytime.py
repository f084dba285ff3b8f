"""Figure 6: every acceleration of Anytime SDA has its curve and its place in the text."""

from __future__ import annotations

import pytest
from tests.support.small_runs import TINY, rows_of

from gossamer.paper.figures.figure_6_anytime import FIGURE
from gossamer.paper.pipeline import style


@pytest.mark.slow
@pytest.mark.xdist_group("figures")
def test_each_acceleration_has_its_curve(store):
    results = rows_of(FIGURE, TINY, store)
    for name in ("nesterov", "chebyshev", "heavy-ball", "local"):
        for quantity in ("total_error", "samples"):
            for source in ("exact", "simulation" if quantity == "total_error" else "protocol"):
                assert len(results.where(method=name, quantity=quantity, source=source))
        label = style.MARKS[name].label
        assert FIGURE.explain(results, TINY).count(f"({label.split(', ')[1]})") == 2
    with style.paper_style():
        drawn = FIGURE.draw(results, TINY)
        drawn.draw_without_rendering()
    texts = drawn.legends[0].get_texts()
    assert [text.get_text() for text in texts][4] == "Anytime SDA, local"
    boxes = [text.get_window_extent() for text in texts]
    assert not any(a.overlaps(b) for k, a in enumerate(boxes) for b in boxes[:k])

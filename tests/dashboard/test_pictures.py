"""The picture of the playground in the README and on the site is drawn by a program."""

from __future__ import annotations

from matplotlib.image import imread
from tests.pictures import IMAGES, draw_playground
from tests.support.serving import in_browser

pytestmark = in_browser


def test_the_picture_of_the_playground_can_be_drawn_again(browser, server, tmp_path):
    draw_playground(browser, server.address, tmp_path / "dashboard.png")
    new, old = (imread(folder / "dashboard.png")[..., :3] for folder in (tmp_path, IMAGES))
    assert new.shape == old.shape
    # Fonts differ between machines, the colors of agents do not.
    colored = [(image.max(axis=2) - image.min(axis=2) > 0.3).mean() for image in (new, old)]
    assert abs(colored[0] - colored[1]) < 0.2 * colored[1]
    assert colored[1] > 0.005

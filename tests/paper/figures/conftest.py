from __future__ import annotations

import pytest

from gossamer.comparison.store import Store
from gossamer.paper.pipeline.results import COLUMNS


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    """The pieces of small figures, each computed once by the tests of one worker."""
    return Store(tmp_path_factory.mktemp("pieces"), COLUMNS)

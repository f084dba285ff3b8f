"""A worker's computations for a page: the results of a scenario, the scenario as code, or a page without a server."""

from __future__ import annotations

import traceback
from collections.abc import Iterator

import numpy as np

from gossamer.dashboard.code import to_python
from gossamer.dashboard.frames import packed
from gossamer.dashboard.runs import parts
from gossamer.dashboard.scenario import Scenario
from gossamer.errors import GossamerError


def frames_of(job: dict[str, object]) -> Iterator[bytes]:
    """Yield the frames of a job {"id": ..., "scenario": ...}; a job that fails ends with an error frame.

    The entry "wanted" may be "python" for the scenario as code, or "page" for a page that needs no server.
    """
    which = job["id"]
    try:
        scenario = Scenario.of(job["scenario"])
        if job.get("wanted") == "python":
            yield packed({"type": "code", "id": which, "text": to_python(scenario)})
            return
        if job.get("wanted") == "page":
            words = str(job["words"])[:4000]
            page = scenario.page(title=str(job["title"])[:200], words=words, lesson=job.get("lesson") is True)
            text = np.frombuffer(page.text.encode(), dtype=np.uint8)
            yield packed({"type": "page", "id": which, "summary": page.summary}, text=text)
            return
        for kind, header, arrays in parts(scenario):
            yield packed({"type": kind, "id": which, **header}, **arrays)
    except GossamerError as error:
        yield packed({"type": "error", "id": which, "message": str(error)})
    except MemoryError:
        message = "this does not fit into memory; make it smaller"
        yield packed({"type": "error", "id": which, "message": message})
    except Exception as error:  # a bug must not leave the page waiting
        traceback.print_exc()
        what = f"{type(error).__name__}: {error}"
        message = f"this could not be computed ({what}); the terminal of the dashboard tells more"
        yield packed({"type": "error", "id": which, "message": message})

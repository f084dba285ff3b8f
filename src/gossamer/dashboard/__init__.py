"""Pages in the browser: a playground, and a live view of a fleet.

This package does no mathematics: pages show the results of `gs.exact`, `gs.simulate` and `gs.theory`, and what agents
publish.

    safety.py      which requests the server accepts, and their limits
    frames.py      encoding of numbers for a page
    server.py      pages, their sessions, and the server
    scenario.py    everything a playground shows, as one value: the state in the URL
    presets.py     example scenarios
    runs.py        results of a scenario, frame by frame; layout.py: positions of agents; code.py: the code to copy
    jobs.py        what a worker computes for a page
    worker.py      computations in a separate process, which can be killed
    saving.py      a page that needs no server
    animation.py   a simulation as such a page, or as a video
    notebook.py    such a page as a widget of Jupyter
    playground.py  a session of the playground
    fleet.py       a fleet as its agents describe it, now and over time (history.py)
    fleet_page.py  what the pages of a fleet receive, and when
    static/        the pages: plain modules of JavaScript, no build step
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

"""Pages in the browser: a playground, and a live view of a fleet.

No mathematics here: pages show what `gs.exact`, `gs.simulate` and `gs.theory` give, and what agents publish.

    safety.py      who may speak to the server, and how much
    frames.py      numbers on their way to a page
    server.py      pages, their sessions, and the server's life
    scenario.py    everything a playground shows, as one value: the state in the address; events.py: what goes wrong
    presets.py     scenarios that teach
    runs.py        what a scenario gives, frame by frame; layout.py: where agents are drawn; code.py: the code to copy
    worker.py      computations in a process of their own, which can be killed
    playground.py  a session of the playground
    fleet.py       a fleet as its agents describe it, now and over time (history.py)
    fleet_page.py  what pages of a fleet get, and when
    static/        the pages: plain modules of JavaScript, no build step
"""

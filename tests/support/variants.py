"""Every method that mixes by a matrix, and variants of it that take other paths."""

from __future__ import annotations

import gossamer as gs

VARIANTS = [
    *(cls() for cls in gs.METHODS.values() if cls.mixing == "matrix"),
    gs.SDA(burn_in=3, batch=4),
    gs.SDA(output="last", step_size=0.3, momentum=0.2),
    gs.SDA(batch=list(range(1, 60))),
    gs.AnytimeSDA("chebyshev"),
    gs.AnytimeSDA("local"),
    gs.AnytimeSDA("heavy-ball"),
    gs.AnytimeSDA("local-heavy-ball"),
    gs.AnytimeSDA(smoothing=0),
    gs.AnytimeSDA(smoothing=7, gain=0.05),
    gs.DMASG(stages=1),
    gs.SSTM(counting="iterations"),
    gs.SSTM(batch=3),
    gs.RRMA(batch=2, effort=1.0),
    gs.SSDA(samples=5),
]

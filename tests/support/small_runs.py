"""What the tests of the paper share: settings that run in a second, rows by figure, one claim judged alone."""

from __future__ import annotations

from gossamer.paper.pipeline.results import Results
from gossamer.paper.pipeline.run import run_pieces
from gossamer.paper.pipeline.settings import Settings
from gossamer.paper.shared.problem import GRAPHS

TINY = Settings(
    agents=9,
    trials=16,
    draws=3,
    stages=(2, 3),
    large=(0.1, 0.05),
    small=(0.03, 0.02),
    star_agents=(9, 16, 25),
)
FEW_STAGES = Settings(stages=(3, 4))


def rows_of(figure, settings, store):
    finished = run_pieces(figure.pieces(settings), store, workers=1)
    return Results(row for piece in figure.pieces(settings) for row in finished[piece.key].rows)


def judge(figure, name, rows, settings=FEW_STAGES):
    claim = next(claim for claim in figure.claims if claim.name == name)
    return claim.judge(Results(rows), settings)


def needs(slopes, share_of_1_over_t=0.5, epsilons=FEW_STAGES.large):
    """Rows in which every method needs 100 eps^slope samples, on every graph, in three draws."""
    rows = []
    for g in GRAPHS:
        for d in range(3):
            for eps in epsilons:
                base = {"experiment": "samples", "graph": g, "draw": d, "epsilon": eps, "source": "exact"}
                for method, (factor, power) in slopes.items():
                    rows.append(
                        {**base, "method": method, "quantity": "samples", "value": factor * eps**power}
                    )
                rows.append({**base, "method": "sda", "quantity": "share of 1/T", "value": share_of_1_over_t})
                rows.append({**base, "method": "sstm_sc", "quantity": "share of last batch", "value": 0.95})
    return rows

"""The paper's numerical results, figure by figure, and a verdict on each of its claims.

figures/     one file per figure: 1 to 5 are the paper's, 6 to 13 are ours
shared/      what several figures use: the problem, exact errors after every number of rounds, common runs
pipeline/    pieces of work and their rows, claims, style and the report; `reproduce` runs everything
"""

from gossamer.errors import require

for _package in ("matplotlib", "pyarrow"):
    require(_package, "paper")

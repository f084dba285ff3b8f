"""The paper's numerical results, figure by figure, and what became of each of its claims.

figures/     one file per figure: 1 to 5 are the paper's, 6 to 12 are ours
shared/      what several figures use: the problem, exact errors after every number of rounds, common runs
pipeline/    the rest of the way: pieces of work, results on disk, claims, the report; `reproduce` does it all
"""

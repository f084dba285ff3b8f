"""The paper's numerical results, figure by figure, and what became of each of its claims.

networks, convergence, samples, star    Figures 1-5 of the paper
beyond, bound                           Figures 6 and 7, ours
registry                                all figures: add yours there
settings, store, run                    what is asked, what is on disk, what runs in parallel
claims, style, report                   verdicts, looks, the folder that a reader opens
reproduce                               everything in one call
"""

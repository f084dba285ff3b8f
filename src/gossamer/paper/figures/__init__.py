"""One file per figure, named after it: its computations, its plot, its two-sentence explanation, and its claims."""

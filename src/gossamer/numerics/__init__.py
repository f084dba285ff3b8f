"""Foundations of compiled code: random numbers that are pure functions, vectors that round identically, threads."""

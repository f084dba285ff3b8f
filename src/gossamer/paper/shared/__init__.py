"""Shared by several figures: the paper's problem, exact errors after every number of rounds, common runs."""

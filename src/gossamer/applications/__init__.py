"""The paper's two applications: distributed linear estimation and decentralized policy evaluation."""

from __future__ import annotations

from gossamer.applications.linear.estimation import LinearEstimation
from gossamer.applications.linear.rivals import KarMoura, XiaoBoydLall
from gossamer.applications.policy import problems
from gossamer.applications.policy.evaluation import PolicyEvaluation
from gossamer.applications.policy.rivals import TemporalDifference
from gossamer.applications.solvers import Alone, Centralized

__all__ = [
    "Alone",
    "Centralized",
    "KarMoura",
    "LinearEstimation",
    "PolicyEvaluation",
    "TemporalDifference",
    "XiaoBoydLall",
    "problems",
]

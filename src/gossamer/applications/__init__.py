"""Applications of averages: linear estimation and policy evaluation (the paper's two), and maximum likelihood."""

from __future__ import annotations

from gossamer.applications.likelihood.estimation import LikelihoodEstimation
from gossamer.applications.likelihood.rivals import DSGD, DSGT
from gossamer.applications.likelihood.rivals_at_rest import ExactDiffusion, Extra, GradientTracking
from gossamer.applications.likelihood.scaled_huber import ScaledHuber
from gossamer.applications.linear.estimation import LinearEstimation
from gossamer.applications.linear.rivals import KarMoura, XiaoBoydLall
from gossamer.applications.policy import problems
from gossamer.applications.policy.evaluation import PolicyEvaluation
from gossamer.applications.policy.rivals import TemporalDifference
from gossamer.applications.solvers import Alone, Centralized
from gossamer.families import (
    Family,
    Gamma,
    Huber,
    LeastSquares,
    Logistic,
    NegativeBinomial,
    Poisson,
    Softmax,
)

__all__ = [
    "DSGD",
    "DSGT",
    "Alone",
    "Centralized",
    "ExactDiffusion",
    "Extra",
    "Family",
    "Gamma",
    "GradientTracking",
    "Huber",
    "KarMoura",
    "LeastSquares",
    "LikelihoodEstimation",
    "LinearEstimation",
    "Logistic",
    "NegativeBinomial",
    "Poisson",
    "PolicyEvaluation",
    "ScaledHuber",
    "Softmax",
    "TemporalDifference",
    "XiaoBoydLall",
    "problems",
]

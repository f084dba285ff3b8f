"""Applications of averages: linear estimation and policy evaluation (the paper's two), values from
experience, and maximum likelihood."""

from __future__ import annotations

from gossamer.applications.likelihood.estimation import LikelihoodEstimation
from gossamer.applications.likelihood.rivals import DSGD, DSGT
from gossamer.applications.likelihood.scaled_huber import ScaledHuber
from gossamer.applications.likelihood.stored_rivals import ExactDiffusion, Extra, GradientTracking
from gossamer.applications.linear.estimation import LinearEstimation
from gossamer.applications.linear.rivals import KarMoura, XiaoBoydLall
from gossamer.applications.policy import problems
from gossamer.applications.policy.evaluation import PolicyEvaluation
from gossamer.applications.policy.rivals import TemporalDifference
from gossamer.applications.solvers import Alone, Centralized
from gossamer.applications.values.estimation import ValueEstimation
from gossamer.applications.values.experience import Experience
from gossamer.applications.values.rivals import DistributedTD, OneShot
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
from gossamer.features import RandomFourier, TileCoding

__all__ = [
    "DSGD",
    "DSGT",
    "Alone",
    "Centralized",
    "DistributedTD",
    "ExactDiffusion",
    "Experience",
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
    "OneShot",
    "Poisson",
    "PolicyEvaluation",
    "RandomFourier",
    "ScaledHuber",
    "Softmax",
    "TemporalDifference",
    "TileCoding",
    "ValueEstimation",
    "XiaoBoydLall",
    "problems",
]

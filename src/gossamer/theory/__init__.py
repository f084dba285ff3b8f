"""Theory: the paper's bounds, a theorem about Anytime SDA, and the two limits that no method can beat."""

from gossamer.theory.anytime import anytime_error, theorem_3, tracking_error
from gossamer.theory.bound import Bound
from gossamer.theory.limits import centralized_limit, network_limit
from gossamer.theory.paper_bounds import corollary_1, corollary_2, k_star, theorem_1, theorem_2

__all__ = [
    "Bound",
    "anytime_error",
    "centralized_limit",
    "corollary_1",
    "corollary_2",
    "k_star",
    "network_limit",
    "theorem_1",
    "theorem_2",
    "theorem_3",
    "tracking_error",
]

"""The figures of the report, in its order.

A figure is one `Figure` object; adding it here adds it to the command line, the report and the list of claims.
"""

from __future__ import annotations

from gossamer.paper.figures import (
    figure_1_networks,
    figure_2_convergence,
    figure_3_larger_accuracies,
    figure_4_smaller_accuracies,
    figure_5_stars,
    figure_6_anytime,
    figure_7_bound,
    figure_8_linear_estimation,
    figure_9_policy_evaluation,
    figure_10_discounts,
    figure_11_changing,
    figure_12_learning,
    figure_13_values,
)
from gossamer.paper.pipeline.figure import Figure

FIGURES: tuple[Figure, ...] = (
    figure_1_networks.FIGURE,
    figure_2_convergence.FIGURE,
    figure_3_larger_accuracies.FIGURE,
    figure_4_smaller_accuracies.FIGURE,
    figure_5_stars.FIGURE,
    figure_6_anytime.FIGURE,
    figure_7_bound.FIGURE,
    figure_8_linear_estimation.FIGURE,
    figure_9_policy_evaluation.FIGURE,
    figure_10_discounts.FIGURE,
    figure_11_changing.FIGURE,
    figure_12_learning.FIGURE,
    figure_13_values.FIGURE,
)

"""Fits of all rows in one place by statsmodels, and comparisons of summaries with them."""

from __future__ import annotations

import numpy as np
import statsmodels.api as sm

from gossamer.fitted import Summary

FAMILIES = {
    "logistic": sm.families.Binomial(),
    "poisson": sm.families.Poisson(),
    "gamma": sm.families.Gamma(sm.families.links.Log()),
    "least-squares": sm.families.Gaussian(),
}


def pooled(family: str, x: np.ndarray, y: np.ndarray, **options) -> tuple:
    """statsmodels with model-based and with robust standard errors."""
    design = sm.add_constant(x, prepend=False)
    kinds = ({"cov_type": "nonrobust"}, {"cov_type": "HC0"})
    if family == "least-squares":
        kinds[0]["use_t"] = True
    return tuple(sm.GLM(y, design, FAMILIES[family], **options).fit(tol=1e-14, **kind) for kind in kinds)


def assert_same(ours: Summary, known, robust=None) -> None:
    """The summary has the numbers of statsmodels, and the robust errors if they are given."""
    for mine, theirs in (
        (ours.estimates, known.params),
        (ours.standard_errors, known.bse),
        (ours.robust_errors, ours.robust_errors if robust is None else robust.bse),
        (ours.z, known.tvalues),
        (ours.intervals, known.conf_int()),
        (ours.deviance, known.deviance),
        (ours.null_deviance, known.null_deviance),
        (ours.pearson, known.pearson_chi2),
        (ours.dispersion, known.scale),
        (ours.log_likelihood, known.llf),
        (ours.aic, known.aic),
        (ours.bic, known.bic_llf),
        (ours.degrees_of_freedom, known.df_resid),
        (ours.model_degrees_of_freedom, known.df_model),
    ):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(ours.p, known.pvalues, rtol=1e-5, atol=1e-9)

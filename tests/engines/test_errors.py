"""What the engines say to input that makes no sense."""

from __future__ import annotations

import numpy as np
import pytest

import gossamer as gs


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda n, o: gs.exact("sda", n, o, 0), "rounds must be at least 1, got 0"),
        (lambda n, o: gs.exact("sda", n, o, 2.5), "whole number"),
        (lambda n, o: gs.exact("sda", n, o, []), "whole number or a list"),
        (lambda n, o: gs.exact(gs.SDA(burn_in=10), n, o, 10), "got burn_in=10 and rounds=10"),
        (lambda n, o: gs.exact("sdaa", n, o, 10), "did you mean 'sda'"),
        (lambda n, o: gs.exact(gs.SDA, n, o, 10), "add its parentheses"),
        (
            lambda n, o: gs.exact("sda", gs.Network.path(5), o, 10),
            "network has 5 agents.*observations have 12",
        ),
        (lambda n, o: gs.exact("sda", n, o.mean, 10), "gs.Gaussian"),
        (lambda n, o: gs.simulate("sda", n, o, 10, trials=0), "trials must be"),
        (lambda n, o: gs.simulate("sda", n, o, 10, seed=-1), "seed"),
        (lambda n, o: gs.simulate("sda", n, o, 10, dtype=int), "float64 or numpy.float32"),
        (lambda n, o: gs.simulate("sda", n, o, 10, keep="errors").estimates, "keep='estimates'"),
        (lambda n, o: gs.simulate("sda", n, o, 10).iterates, "keep='iterates'"),
        (
            lambda n, o: gs.simulate("sda", n, o, 10, keep="all"),
            "keep must be 'errors', 'estimates' or 'iterates'",
        ),
        (lambda n, o: gs.exact(gs.SDA(batch=[1, 2]), n, o, 10), r"one number per round \(10\)"),
        (lambda n, o: gs.exact(gs.SDA(batch=0), n, o, 10), "at least 1, got 0"),
        (lambda n, o: gs.exact(gs.DMASG(stages=5), n, o, 10), "use fewer stages"),
        (lambda n, o: gs.SDA(step_size=-1.0), "step_size must be a finite number above 0, got -1.0"),
        (lambda n, o: gs.SDA(output="first"), "'average' or 'last'"),
        (
            lambda n, o: gs.AnytimeSDA("fast"),
            "'nesterov', 'chebyshev', 'heavy-ball', 'local' or 'local-heavy-ball'",
        ),
        (lambda n, o: gs.AnytimeSDA(gain=2), "at most 1"),
        (lambda n, o: gs.Gaussian([1.0, np.nan]), "finite, got 1 NaN"),
        (
            lambda n, o: gs.Gaussian("abc"),
            "the means must be numbers, equally many for each agent, got 'abc'",
        ),
        (lambda n, o: gs.Drifting([1, 2], 1), "base must be observations such as"),
        (lambda n, o: gs.StudentT([0.0], df="a"), "df must be a finite number above 2, got 'a'"),
        (lambda n, o: gs.plan(n, o, target=None), "target must be a number or several, got None"),
        (lambda n, o: gs.Gaussian([1.0, 2.0], -1.0), "std must not be negative"),
        (lambda n, o: gs.Gaussian(np.zeros((2, 3)), np.ones(2)), r"write std\[:, None\]"),
        (lambda n, o: gs.Gaussian(np.zeros((2, 2, 2))), r"got shape \(2, 2, 2\)"),
        (lambda n, o: gs.Bernoulli([0.5, 1.5]), "between 0 and 1"),
        (lambda n, o: gs.StudentT([0.0], df=2), "df must be a finite number above 2, got 2"),
        (lambda n, o: gs.Uniform([1.0], [0.0]), "low must not exceed high"),
        (lambda n, o: gs.Empirical(np.zeros(3)), r"\(agents, samples\)"),
        (lambda n, o: gs.Empirical([[1, 2], [1]]), "equally many recorded samples"),
        (lambda n, o: gs.Gaussian(np.zeros((2, 2)), [1, 2]), "per agent or per component"),
        (lambda n, o: gs.StudentT([0.0], df=np.inf), "finite"),
        (lambda n, o: gs.SDA(burn_in=2.5), "burn_in must be a whole number"),
        (lambda n, o: gs.exact(gs.SSDA(samples=2.5), n, o, 10), "samples must be a whole number"),
        (lambda n, o: gs.exact("sda", 12, o, 10), "network such as gs.Network"),
        (lambda n, o: gs.simulate("sda", n, o, 10, first_trial=-3), "first_trial must be a whole number"),
        (lambda n, o: gs.exact("dsg", gs.Network.star(12, weights="laplacian"), o, 10), "lambda_max < 2"),
        (lambda n, o: gs.exact("sda", n, o, float("inf")), "finite"),
        (lambda n, o: gs.theory.theorem_1(gs.Network.path(5), o, 10), "network has 5 agents"),
        (lambda n, o: gs.plan(n, o, "1e-3"), "target must be a number"),
        (lambda n, o: gs.theory.k_star(float("inf")), "finite"),
    ],
)
def test_bad_input_says_what_was_wrong(call, text, small):
    with pytest.raises(gs.GossamerError, match=text):
        call(*small)

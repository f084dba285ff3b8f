"""Sums over agents that do not depend on who holds them."""

from __future__ import annotations

import numpy as np

from gossamer.numerics.blocks import BLOCK, average, block_sums, in_order


def test_block_sums_do_not_depend_on_the_parts():
    values = np.random.default_rng(0).normal(size=(5 * BLOCK + 77, 3)) ** 9
    whole = block_sums(values)
    for cut in (BLOCK, 4 * BLOCK):
        np.testing.assert_array_equal(
            np.concatenate([block_sums(values[:cut]), block_sums(values[cut:])]), whole
        )
    np.testing.assert_allclose(in_order(whole), values.sum(axis=0), rtol=1e-12)


def test_a_single_block_is_added_as_numpy_does():
    values = np.random.default_rng(0).normal(size=(BLOCK, 2)) ** 9
    np.testing.assert_array_equal(average(values), values.mean(axis=0))
    np.testing.assert_array_equal(average(values[:77, :1]), values[:77, :1].mean(axis=0))

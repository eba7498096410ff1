"""The corrected resampled t-test."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from genmetric.comparison._advice import corrected_resampled_t


def test_equals_the_t_test_without_test_samples(rng):
    differences = rng.normal(0.05, 0.03, 12)
    t, p = corrected_resampled_t(differences, 0.0)
    expected = stats.ttest_1samp(differences, 0.0)
    assert t == pytest.approx(expected.statistic)
    assert p == pytest.approx(expected.pvalue)


def test_matches_the_formula():
    """Mean 0.1, standard deviation 0.1, five folds of five: t = 0.1 / (0.1·sqrt(1/5 + 1/4))."""
    differences = 0.1 + 0.1 * np.array([-1.0, 1.0, -1.0, 1.0, 0.0]) / np.sqrt(1.0)
    t, p = corrected_resampled_t(differences, 0.25)
    assert t == pytest.approx(1 / np.sqrt(0.45))
    assert p == pytest.approx(2 * stats.t.sf(1 / np.sqrt(0.45), 4))


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=30), st.floats(0.01, 1))
def test_signs_and_shares(differences, share):
    d = np.array(differences)
    t, p = corrected_resampled_t(d, share)
    assert 0 <= p <= 1
    back, same = corrected_resampled_t(-d, share)
    assert back == pytest.approx(-t)
    assert same == pytest.approx(p)
    # Folds that share rows say less.
    assert p >= corrected_resampled_t(d, share / 2)[1] - 1e-12


def test_nothing_to_test():
    assert np.isnan(corrected_resampled_t(np.array([0.1]), 0.25)[1])
    assert corrected_resampled_t(np.zeros(5), 0.25) == (0.0, 1.0)
    assert corrected_resampled_t(np.full(5, 0.1), 0.25) == (np.inf, 0.0)
    assert corrected_resampled_t(np.full(5, -0.1), 0.25) == (-np.inf, 0.0)


def test_level_holds_if_folds_share_training_samples():
    """No difference between methods: rejected in about 5 of 100, where the plain test errs more."""
    rng = np.random.default_rng(0)
    corrected = plain = 0
    for _ in range(400):
        # Differences of ten folds with the correlation that the correction assumes, 1/10.
        shared = rng.normal(scale=np.sqrt(0.1))
        d = shared + rng.normal(scale=np.sqrt(0.9), size=10)
        corrected += corrected_resampled_t(d, 1 / 9)[1] < 0.05
        plain += corrected_resampled_t(d, 0.0)[1] < 0.05
    assert corrected / 400 < 0.08
    assert plain / 400 > 0.09

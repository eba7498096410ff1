"""A significance test for differences between cross-validated errors."""

from __future__ import annotations

import numpy as np
from scipy import stats

from genmetric._typing import FloatArray


def corrected_resampled_t(differences: FloatArray, test_share: float) -> tuple[float, float]:
    r"""Compute the corrected resampled t-test of Nadeau and Bengio.

    Folds share training samples, so their errors are correlated and the variance between folds
    underestimates the variance of the mean. With J differences of mean d and variance s², and test
    sets :math:`\rho` times as large as training sets,

    .. math:: t = \frac{d}{\sqrt{(1/J + \rho)\, s^2}} ,

    on J - 1 degrees of freedom.

    Parameters
    ----------
    differences : ndarray of shape (n_folds,)
        Error of one method minus the error of the other in each fold.
    test_share : float
        Number of test samples divided by the number of training samples of a fold.

    Returns
    -------
    t : float
        The statistic; infinite if all differences are equal and not zero.
    p : float
        Two-sided p-value; NaN with fewer than two folds, 1 if all differences are zero.

    References
    ----------
    C. Nadeau and Y. Bengio, Inference for the generalization error, Machine Learning 52, 239-281
    (2003).

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.comparison import corrected_resampled_t
    >>> t, p = corrected_resampled_t(np.array([0.1, 0.12, 0.08, 0.11, 0.09]), 0.25)
    >>> round(t, 2), round(p, 4)
    (9.43, 0.0007)
    """
    n = len(differences)
    if n < 2:
        return float("nan"), float("nan")
    mean, variance = float(np.mean(differences)), float(np.var(differences, ddof=1))
    if variance <= (1e-12 * abs(mean)) ** 2:
        return (float("inf") * np.sign(mean), 0.0) if mean else (0.0, 1.0)
    t = mean / np.sqrt((1 / n + test_share) * variance)
    return float(t), float(2 * stats.t.sf(abs(t), n - 1))

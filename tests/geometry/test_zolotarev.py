"""Zolotarev's approximation against mpmath, and by what makes it the best."""

import numpy as np
import pytest

from genmetric.geometry._zolotarev import zolotarev_sign

CASES = [(17, 2e-5), (22, 5e-6), (12, 2e-4), (5, 1e-2), (1, 0.5)]


def rational_sign(x, sigma, a):
    return x * (a / (x[:, None] ** 2 + sigma**2)).sum(axis=1)


@pytest.mark.parametrize(("n_poles", "smallest"), CASES)
def test_coefficients_against_mpmath(n_poles, smallest):
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(40):
        m, l2 = n_poles, mpmath.mpf(smallest) ** 2
        K = mpmath.ellipk(1 - l2)
        c = []
        for j in range(1, 2 * m):
            u = j * K / (2 * m)
            sn, cn = (mpmath.ellipfun(name, u, m=1 - l2) for name in ("sn", "cn"))
            c.append(l2 * (sn / cn) ** 2)
        poles, zeros = c[0::2], c[1::2]
        a = []
        for pole in poles:
            value = mpmath.mpf(1)
            for zero in zeros:
                value *= zero - pole
            for other in poles:
                if other != pole:
                    value /= other - pole
            a.append(value)
        # The extremes of the error are at dn(jK/2m).
        xs = [mpmath.ellipfun("dn", j * K / (2 * m), m=1 - l2) for j in range(2 * m + 1)]
        r = [x * sum(b / (x**2 + p) for b, p in zip(a, poles, strict=True)) for x in xs]
        scale = 2 / (min(r) + max(r))
        expected_sigma = np.array([float(mpmath.sqrt(p)) for p in poles])
        expected_a = np.array([float(scale * b) for b in a])
    sigma, a = zolotarev_sign(n_poles, smallest)
    np.testing.assert_allclose(sigma, expected_sigma, rtol=1e-9)
    np.testing.assert_allclose(a, expected_a, rtol=1e-9)


@pytest.mark.parametrize(("n_poles", "smallest"), CASES)
def test_error_is_equioscillating(n_poles, smallest):
    # Chebyshev: 2m + 1 extremes of equal size and alternating sign prove the best approximation.
    sigma, a = zolotarev_sign(n_poles, smallest)
    x = np.geomspace(smallest, 1, 200_001)
    error = rational_sign(x, sigma, a) - 1
    largest = np.abs(error).max()
    turns = np.flatnonzero(np.diff(np.sign(np.diff(error)))) + 1
    extremes = error[np.concatenate([[0], turns, [len(x) - 1]])]
    assert len(extremes) == 2 * n_poles + 1
    np.testing.assert_allclose(np.abs(extremes), largest, rtol=1e-3)
    assert np.all(np.sign(extremes[1:]) == -np.sign(extremes[:-1]))


def test_absolute_value_is_close_everywhere():
    sigma, a = zolotarev_sign(17, 2e-5)
    x = np.concatenate([np.linspace(0, 1e-4, 10_001), np.linspace(1e-4, 1, 10_001)])
    assert np.abs(x * rational_sign(x, sigma, a) - x).max() < 1e-5


def test_coefficients_cannot_be_changed():
    sigma, _ = zolotarev_sign(17, 2e-5)
    with pytest.raises(ValueError, match="read-only"):
        sigma[0] = 1

r"""Zolotarev's best rational approximation to the sign function.

On :math:`[-1, -l] \cup [l, 1]` no odd rational function with as few poles comes closer to sign(x)
than

.. math:: r(x) = x \sum_{j=1}^{m} \frac{a_j}{x^2 + \sigma_j^2},

whose coefficients are Jacobi elliptic functions. Times x it approximates the absolute value: to
the same relative error for :math:`|x| \ge l`, and to a small fraction of l for smaller :math:`|x|`.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import ellipj, ellipkm1

from genmetric._typing import FloatArray


@lru_cache(maxsize=16)
def zolotarev_sign(n_poles: int, smallest: float) -> tuple[FloatArray, FloatArray]:
    r"""Compute poles and residues of the best rational approximation to sign(x).

    With :math:`K'` the complete elliptic integral of the complementary modulus
    :math:`l' = \sqrt{1 - l^2}`, the numbers

    .. math:: c_j = l^2 \frac{\mathrm{sn}^2(jK'/2m;\, l')}{\mathrm{cn}^2(jK'/2m;\, l')},
              \qquad j = 1, \dots, 2m - 1,

    are the squared poles for odd j and the squared zeros for even j. The second half follows from
    the first by :math:`c_{2m-j} = l^2/c_j`, since cn loses its digits there.

    Parameters
    ----------
    n_poles : int
        The number m of conjugate pairs of poles.
    smallest : float
        The end l of the interval next to zero.

    Returns
    -------
    sigma : ndarray of shape (n_poles,)
        Absolute values of the poles, ascending.
    a : ndarray of shape (n_poles,)
        Residues, positive.

    References
    ----------
    N. I. Achieser, Theory of Approximation, Ungar (1956), sections 50 and 51.
    """
    m, l2 = n_poles, smallest**2
    steps = np.arange(2 * m + 1) * (ellipkm1(l2) / (2 * m))
    sn, cn, dn, _ = ellipj(steps[: m + 1], 1 - l2)
    c = np.empty(2 * m - 1)
    c[:m] = l2 * (sn[1:] / cn[1:]) ** 2
    c[m:] = l2 / c[: m - 1][::-1]
    poles, zeros = c[0::2], c[1::2]
    a = np.empty(m)
    for j, pole in enumerate(poles):
        # In pairs, so that all products stay near one.
        others = np.delete(poles, j)
        a[j] = np.prod((zeros - pole) / (others - pole))
    # The error alternates between equal extremes at dn(jK'/2m); the scale centres them at one.
    x = np.concatenate([dn, smallest / dn[:-1][::-1]])
    r = x * (a / (x[:, None] ** 2 + poles)).sum(axis=1)
    a *= 2 / (r.min() + r.max())
    sigma = np.sqrt(poles)
    sigma.flags.writeable = a.flags.writeable = False
    return sigma, a

r"""The resolvent solver: sums over samples at which one pair of classes matters, in O(D²) each.

If the classes a and b matter, Phi is up to its sign

.. math:: \Phi = B + v_a v_a^T - v_b v_b^T, \qquad B = P_b - P_a, \qquad v_c = P_c(x - \mu_c),

with B shared by all samples of the pair. Diagonalised once, :math:`B = Q\,\mathrm{diag}(\beta)\,
Q^T` leaves a diagonal matrix plus two rank-one terms. With :math:`d_\pm` positive and negative
eigenvalues, the local metric of determinant one, eq. (8) of the paper, is

.. math:: M = e^{-\kappa/D} \Big( \tfrac D2\,|\Phi| + \tfrac{d_+ - d_-}{2}\,\Phi \Big), \qquad
          \kappa = d_+\log d_+ + d_-\log d_- + \log|\det\Phi| ,

* determinant and inertia come from a 2 x 2 Schur complement, O(D) per sample;
* :math:`|\Phi|` is a sum over the poles of a rational function. The resolvent at a pole is a
  diagonal matrix plus one of rank two (Woodbury), so its sum over samples is one matrix
  product: O(D²) per sample.

Samples with a third class that matters, and samples whose metric would lose accuracy, take the
dense path.
"""

from __future__ import annotations

from functools import lru_cache, reduce
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.special import ellipj, ellipkm1

from genmetric._parallel import map_chunks, row_chunks
from genmetric._typing import AnyArray, BoolArray, ComplexArray, FloatArray, IntArray
from genmetric.density import ClassGaussians, Coordinates
from genmetric.geometry.local import MetricSum, Normalization, phi_weights

#: Poles of the rational absolute value, and the relative eigenvalue from which it holds: for most
#: samples, and for samples where much of it cancels.
FINE, FINEST = (17, 2e-5), (22, 5e-6)

#: The two rank-one terms have these signs.
SIGNS = np.array([1.0, -1.0])

#: If the bound on |Phi| exceeds the size of the metric by these factors, terms cancel and samples
#: need the finest poles, or the dense solver.
LOOSE, TOO_LOOSE = 1.5, 8.0


@lru_cache(maxsize=16)
def zolotarev_sign(n_poles: int, smallest: float) -> tuple[FloatArray, FloatArray]:
    r"""Return poles and residues of Zolotarev's best rational approximation to sign(x).

    On :math:`[-1, -l] \cup [l, 1]` no odd rational function with as few poles comes closer than

    .. math:: r(x) = x \sum_{j=1}^{m} \frac{a_j}{x^2 + \sigma_j^2} .

    Times x it approximates the absolute value: to the same relative error for :math:`|x| \ge l`,
    and to a small fraction of l for smaller :math:`|x|`. With :math:`K'` the complete elliptic
    integral of the complementary modulus :math:`l' = \sqrt{1 - l^2}`, the numbers

    .. math:: c_j = l^2 \frac{\mathrm{sn}^2(jK'/2m;\, l')}{\mathrm{cn}^2(jK'/2m;\, l')},
              \qquad j = 1, \dots, 2m - 1,

    are the squared poles for odd j and the squared zeros for even j. The second half follows from
    the first by :math:`c_{2m-j} = l^2/c_j`, since cn loses its digits there (N. I. Achieser, Theory
    of Approximation, Ungar 1956, sections 50 and 51). `sigma` is ascending, `a` positive.
    """
    m, l2 = n_poles, smallest**2
    steps = np.arange(2 * m + 1) * (ellipkm1(l2) / (2 * m))
    sn, cn, dn, _ = ellipj(steps[: m + 1], 1 - l2)
    c = np.empty(2 * m - 1)
    c[:m] = l2 * (sn[1:] / cn[1:]) ** 2
    c[m:] = l2 / c[: m - 1][::-1]
    poles, zeros = c[0::2], c[1::2]
    # In pairs, so all products stay near one.
    a = np.array([np.prod((zeros - p) / (np.delete(poles, j) - p)) for j, p in enumerate(poles)])
    # The error alternates between equal extremes at dn(jK'/2m); the scale centres them at one.
    x = np.concatenate([dn, smallest / dn[:-1][::-1]])
    r = x * (a / (x[:, None] ** 2 + poles)).sum(axis=1)
    a *= 2 / (r.min() + r.max())
    sigma = np.sqrt(poles)
    sigma.flags.writeable = a.flags.writeable = False
    return sigma, a


def _grams(V: FloatArray, columns: FloatArray) -> FloatArray:
    """Sum v_a v_a, v_a v_b and v_b v_b times each column, to shape (3, n_samples, n_columns)."""
    a, b = V[:, 0], V[:, 1]
    return np.stack([(a * a) @ columns, (a * b) @ columns, (b * b) @ columns])


def _complex_grams(V: FloatArray, columns: ComplexArray) -> ComplexArray:
    """As :func:`_grams`, for complex columns, by one real product."""
    m = columns.shape[1]
    parts = _grams(V, np.hstack([columns.real, columns.imag]))
    return np.asarray(parts[..., :m] + 1j * parts[..., m:])


class _Summary(NamedTuple):
    """Properties of diag(beta) plus two rank-one terms, computed in O(D) per sample.

    Number of positive eigenvalues, log|det|, an upper bound on the largest absolute eigenvalue, the
    squared Frobenius norm, the trace, whether the two terms of the metric cancel to a large part,
    and whether all eigenvalues are above the floor of the sign rule and the bound is tight enough.
    """

    n_positive: AnyArray
    log_det: AnyArray
    bound: AnyArray
    norm2: AnyArray
    traces: AnyArray
    loose: AnyArray
    regular: AnyArray


def _summarize(beta: FloatArray, V: FloatArray) -> _Summary:
    r"""Compute inertia, determinant and condition of diag(beta) plus two rank-one terms.

    With :math:`S = \mathrm{diag}(1, -1)` and :math:`H = S + V \mathrm{diag}(\beta)^{-1} V^T`, the
    determinant lemma and Haynsworth's additivity of the inertia give

    .. math:: |\det\Phi| = |\det H| \prod_d |\beta_d|, \qquad d_+ = \beta_+ + h_- - 1,

    with :math:`\beta_+` positive :math:`\beta` and :math:`h_-` negative eigenvalues of H. The
    smallest eigenvalue is at least one over the Frobenius norm of the inverse, and with
    :math:`T_k = V \mathrm{diag}(\beta)^{-k} V^T`

    .. math:: \|\Phi^{-1}\|_F^2 = \sum_d \beta_d^{-2} - 2\,\mathrm{tr}(H^{-1} T_3)
              + \mathrm{tr}(H^{-1} T_2 H^{-1} T_2) .
    """
    n_features = len(beta)
    unit = np.abs(beta).max()
    inverse = unit / beta
    columns = np.column_stack([inverse, inverse**2, inverse**3])
    aa, ab, bb = _grams(V / np.sqrt(unit), columns)
    # Products and squares of the vectors with beta and one, for norm and trace.
    paa, pab, pbb = _grams(V, np.column_stack([np.ones_like(beta), beta]))
    traces = beta.sum() + paa[:, 0] - pbb[:, 0]
    norm2 = beta @ beta + 2 * (paa[:, 1] - pbb[:, 1])
    norm2 += paa[:, 0] ** 2 - 2 * pab[:, 0] ** 2 + pbb[:, 0] ** 2
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        h = np.stack([1 + aa[:, 0], ab[:, 0], bb[:, 0] - 1])
        det = h[0] * h[2] - h[1] ** 2
        caa, cab, cbb = h[2] / det, -h[1] / det, h[0] / det
        log_det = np.log(np.abs(det)) + np.log(np.abs(beta)).sum()
        # The entries of H⁻¹ T_2, whose square has the trace below.
        taa, tab = caa * aa[:, 1] + cab * ab[:, 1], caa * ab[:, 1] + cab * bb[:, 1]
        tba, tbb = cab * aa[:, 1] + cbb * ab[:, 1], cab * ab[:, 1] + cbb * bb[:, 1]
        third = caa * aa[:, 2] + 2 * cab * ab[:, 2] + cbb * bb[:, 2]
        inverse_norm2 = (inverse**2).sum() - 2 * third + taa**2 + 2 * tab * tba + tbb**2
        inverse_norm2 /= unit**2
        h_negative = np.where(det < 0, 1, np.where(h[0] + h[2] < 0, 2, 0))
        n_positive = np.count_nonzero(beta > 0) + h_negative - 1
        bound = _spectral_bound(beta, V)
        # The sign rule multiplies eigenvalues by the counts before its floor.
        counts = np.sort([n_positive, n_features - n_positive], axis=0)
        smaller = np.where(counts[0] > 0, counts[0], counts[1])
        span = bound * np.sqrt(inverse_norm2) * counts[1] / smaller
        # The bound against the metric's own norm, of which its two terms are a difference.
        looseness = bound * n_features / (2 * smaller * np.sqrt(norm2))
        # Up to this condition number the Schur complement gives inertia and determinant.
        regular = np.isfinite(log_det) & (span < 1e10) & (looseness < TOO_LOOSE)
    return _Summary(
        n_positive.astype(float), log_det, bound, norm2, traces, looseness > LOOSE, regular
    )


def _spectral_bound(beta: FloatArray, V: FloatArray) -> FloatArray:
    r"""Return an upper bound on the spectral norm of each sample, usually tight to a few percent.

    Without its negative term the largest eigenvalue of Phi is :math:`\beta_{\max} + y` with
    :math:`g(y) = \sum_d v_{ad}^2/(y + \beta_{\max} - \beta_d) = 1`. Since 1/g is concave and not
    negative at zero, :math:`y \leftarrow y\,g(y)` falls towards the root from above, from
    :math:`y = |v_a|^2`; the other end likewise.
    """
    bound = np.zeros(len(V))
    ends = ((beta[-1], beta[-1] - beta), (-beta[0], beta - beta[0]))
    for k, (edge, gap) in enumerate(ends):
        v2 = V[:, k] ** 2
        y = v2.sum(axis=1)
        for _ in range(3):
            safe = np.where(y > 0, y, 1.0)
            y *= (v2 / (safe[:, None] + gap)).sum(axis=1)
        np.maximum(bound, edge + y, out=bound)
    return bound


def _resolvents(
    beta: FloatArray, V: FloatArray, poles: tuple[int, float]
) -> tuple[ComplexArray, ComplexArray, FloatArray, FloatArray]:
    r"""Evaluate the resolvents of matrices of norm at most one at the poles.

    With :math:`R_j = (\mathrm{diag}(\beta) - i\sigma_j)^{-1}` at each pole and the small matrices
    :math:`C_{ij} = (S + V_i R_j V_i^T)^{-1}` of each sample,

    .. math:: |\Phi_i| = \mathrm{diag}|\beta| + \sum_j a_j \sigma_j\,
              \mathrm{Im}\big[R_j V_i^T C_{ij} V_i R_j\big].

    The first term is exact: only the change relative to the shared part is approximated. The
    traces of :math:`|\Phi_i|` and :math:`\Phi_i|\Phi_i|` are the imaginary and the real part of
    :math:`\mathrm{tr}(C_{ij} V_i R_j^2 V_i^T)`, summed over the poles: O(D) per pole and sample.

    Returns R of shape (n_features, n_poles), C times the residues of shape (2, 2, n_samples,
    n_poles), and the two traces of each sample.
    """
    sigma, a = zolotarev_sign(*poles)
    R = np.asarray(1 / (beta[:, None] - 1j * sigma), complex)
    haa, hab, hbb = _complex_grams(V, R)
    haa, hbb = haa + 1, hbb - 1
    C = np.array([[hbb, -hab], [-hab, haa]]) / (haa * hbb - hab**2)
    saa, sab, sbb = _complex_grams(V, R**2)
    inner = C[0, 0] * saa + 2 * C[0, 1] * sab + C[1, 1] * sbb
    traces = np.abs(beta).sum() + inner.imag @ (a * sigma)
    rank_two = np.einsum("nkd,nkd->nk", V, V) @ SIGNS
    signed = beta @ np.abs(beta) + a.sum() * rank_two + inner.real @ (a * sigma**2)
    C *= a * sigma
    return R, C, traces, signed


def _absolute_sum(
    beta: FloatArray, V: FloatArray, R: ComplexArray, C: ComplexArray, weights: FloatArray
) -> FloatArray:
    """Return the weighted sum of the absolute values, from the results of `_resolvents`."""
    # Up to this number of samples the products of all poles are computed at once.
    add_up = _few_rows if len(V) <= 50 else _many_rows
    return add_up(V, C * weights[:, None], R) + np.diag(weights.sum() * np.abs(beta))


def _many_rows(V: FloatArray, C: ComplexArray, R: ComplexArray) -> FloatArray:
    """Sum Im[R (sum over samples of Vᵀ C V) R] over poles, by one real product per part."""
    n_features = V.shape[2]
    by_pole = C.transpose(3, 2, 0, 1)
    parts = np.ascontiguousarray(by_pole.real), np.ascontiguousarray(by_pole.imag)
    flat = V.reshape(-1, n_features)
    weighted = np.empty_like(V)
    right = weighted.reshape(flat.shape)
    total = np.zeros((n_features, n_features))
    # Only panels on and below the diagonal of the symmetric product are formed.
    panels = [(i, min(i + 96, n_features)) for i in range(0, n_features, 96)]
    for j, r in enumerate(R.T):
        outer = r[:, None] * r
        for part, factor in zip(parts, (outer.imag, outer.real), strict=True):
            np.matmul(part[j], V, out=weighted)
            for i, k in panels:
                total[i:k, :k] += factor[i:k, :k] * (flat[:, i:k].T @ right[:, :k])
    return np.asarray(np.tril(total) + np.tril(total, -1).T)


def _few_rows(V: FloatArray, C: ComplexArray, R: ComplexArray) -> FloatArray:
    """Compute the sum of `_many_rows` by one product of all samples and poles.

    No array has size D² per pole. With R V = A + iB the imaginary part of (R V)ᵀ C (R V) is that of
    real matrices twice as wide.
    """
    n_rows, _, n_features = V.shape
    Z = np.empty((n_rows, R.shape[1], 4, n_features))
    np.multiply(V[:, None], R.real.T[:, None], out=Z[:, :, :2])
    np.multiply(V[:, None], R.imag.T[:, None], out=Z[:, :, 2:])
    small = C.transpose(2, 3, 0, 1)
    middle = np.block([[small.imag, small.real], [small.real, -small.imag]])
    total = Z.reshape(-1, n_features).T @ (middle @ Z).reshape(-1, n_features)
    return np.asarray((total + total.T) / 2)


def _coefficients(
    summary: _Summary, level: float, traces: FloatArray, normalization: Normalization, D: int
) -> tuple[FloatArray, FloatArray]:
    r"""Return the factors of |Phi| and of Phi in the local metric of each sample.

    Phi is divided by `level`. Before normalization the factors are :math:`D/2` and
    :math:`(d_+ - d_-)/2`. For trace D the metric is divided by :math:`\tfrac12\mathrm{tr}|\Phi| +
    \tfrac{d_+ - d_-}{2D}\mathrm{tr}\,\Phi`, with `traces` those of |Phi|; for determinant one by
    :math:`e^{\kappa/D}`.
    """
    n_positive, n_negative = summary.n_positive, D - summary.n_positive
    even, odd = np.full_like(n_positive, D / 2), (n_positive - n_negative) / 2
    if normalization == "trace":
        scale = D / (even * traces + odd * summary.traces / level)
    else:
        kappa = summary.log_det - D * np.log(level)
        for count in (n_positive, n_negative):
            kappa = kappa + count * np.log(np.maximum(count, 1.0))
        scale = np.exp(-kappa / D)
    return scale * even, scale * odd


def _pair_sum(
    gaussians: ClassGaussians,
    pair: list[int],
    X: FloatArray,
    weights: FloatArray,
    normalization: Normalization,
) -> tuple[MetricSum, BoolArray]:
    """Sum the local metrics of samples at which a pair of classes matters.

    Also returns which samples were treated; Phi of the others is too close to singular.
    """
    n_features = X.shape[1]
    P = gaussians.precisions[pair]
    beta, Q = np.linalg.eigh(P[1] - P[0])
    unit = float(np.abs(beta).max())
    small = 1e-8 * unit
    # The Schur complement cancels for a small |beta|. One direction may be raised; more would be a
    # subspace in which the classes agree, and below rounding they agree as well.
    sound = np.abs(beta).min() > 1e-12 * np.abs(P).max()
    if not sound or np.count_nonzero(np.abs(beta) < small) > 1:
        return MetricSum.zero(n_features), np.zeros(len(X), bool)
    beta = np.where(np.abs(beta) < small, np.where(beta < 0, -small, small), beta)
    V = np.stack([(X - gaussians.means[c]) @ (p @ Q) for c, p in zip(pair, P, strict=True)], axis=1)
    summary = _summarize(beta, V)
    treated = summary.regular
    # Samples share poles if their bounds, rounded up to a power of four, agree. A bound does not
    # depend on other samples.
    with np.errstate(invalid="ignore"):
        rounded = unit * 4.0 ** np.ceil(np.log(summary.bound / unit) / np.log(4.0))
    levels = np.where(treated, rounded, 0.0)
    total, square = np.zeros((n_features, n_features)), 0.0
    for poles, kind in ((FINE, treated & ~summary.loose), (FINEST, treated & summary.loose)):
        for level in np.unique(levels[kind]).tolist():
            rows = np.flatnonzero((levels == level) & kind)
            v, b, w = V[rows] / np.sqrt(level), beta / level, weights[rows]
            R, C, traces, signed = _resolvents(b, v, poles)
            some = _Summary(*(values[rows] for values in summary))
            even, odd = _coefficients(some, level, traces, normalization, n_features)
            total += _absolute_sum(b, v, R, C, w * even)
            # The sum of Phi itself.
            scaled = v * (SIGNS * (w * odd)[:, None])[:, :, None]
            total += scaled.reshape(-1, n_features).T @ v.reshape(-1, n_features)
            total += np.diag(float(w @ odd) * b)
            norms = (even**2 + odd**2) * some.norm2 / level**2
            square += float(w @ (norms + 2 * even * odd * signed))
    return MetricSum(Q @ total @ Q.T, float(weights[treated].sum()), square), treated


def _leading_pairs(weights: FloatArray, tol: float) -> IntArray:
    """Return the pair a < b of each sample as a·n_classes + b; -1 if a third class matters."""
    every, n_classes = np.arange(len(weights)), weights.shape[1]
    high, low = weights.argmax(axis=1), weights.argmin(axis=1)
    rest = np.abs(weights)
    rest[every, high] = rest[every, low] = 0.0
    keys = np.minimum(high, low) * n_classes + np.maximum(high, low)
    return np.where(rest.max(axis=1) > tol, -1, keys)


def resolvent_sum(
    gaussians: ClassGaussians,
    X: AnyArray,
    coordinates: Coordinates,
    weights: FloatArray,
    log_priors: FloatArray | None,
    normalization: Normalization,
    tol: float,
    n_jobs: int | None,
) -> tuple[MetricSum, IntArray]:
    """Sum the local metrics of samples, grouped by the pair of classes that matters at them.

    Returns the samples that are left to the dense solver too.
    """
    n_samples, n_features = X.shape
    n_classes = gaussians.n_classes

    def leading(chunk: slice) -> IntArray:
        x = coordinates.apply(X[chunk])
        return _leading_pairs(phi_weights(gaussians, x, log_priors), tol)

    chunks = row_chunks(n_samples, 8 * (4 * n_features + 12 * n_classes))
    keys = np.concatenate(list(map_chunks(leading, chunks, n_jobs)))
    order = np.argsort(keys, kind="stable")
    edges = np.flatnonzero(np.diff(keys[order], prepend=-2, append=-2))
    # Short tasks keep all threads busy until the end; long ones avoid that threads wait for the
    # interpreter lock.
    most = min(2048, max(1024, 2**17 // n_features))
    per_row = 80 * n_features + 320 * FINEST[0]
    tasks: list[IntArray] = []
    for start, stop in pairwise(edges):
        rows = order[start:stop]
        if keys[rows[0]] >= 0:
            tasks += [rows[part] for part in row_chunks(len(rows), per_row, max_rows=most)]

    def work(rows: IntArray) -> tuple[MetricSum, IntArray]:
        pair = [int(c) for c in divmod(keys[rows[0]], n_classes)]
        x = coordinates.apply(X[rows])
        part, treated = _pair_sum(gaussians, pair, x, weights[rows], normalization)
        return part, rows[~treated]

    results = list(map_chunks(work, tasks, n_jobs))
    found = reduce(MetricSum.merge, (part for part, _ in results), MetricSum.zero(n_features))
    left = np.concatenate([np.flatnonzero(keys < 0), *(rows for _, rows in results)])
    return found, np.sort(left)

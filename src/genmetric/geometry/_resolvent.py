r"""The absolute value of many matrices that differ by low rank, without eigendecompositions.

If few classes matter, Phi is a matrix that many samples share plus a few rank-one terms of each
sample. With weights :math:`w_c` of the classes and :math:`v_c = P_c(x - \mu_c)`,

.. math:: \Phi = B + \sum_c w_c v_c v_c^T, \qquad B = -\sum_c w_c P_c .

Diagonalised once, :math:`B = Q\,\mathrm{diag}(\beta)\,Q^T` leaves
:math:`\mathrm{diag}(\beta) + \sum_k s_k v_k v_k^T` with signs :math:`s_k` and vectors
:math:`v_k = \sqrt{|w_c|}\,Q^T P_c (x - \mu_c)`. For this matrix

* determinant and inertia come from a Schur complement of a few rows, O(D) per sample;
* the absolute value is a sum over the poles of :mod:`~genmetric.geometry._zolotarev`, and the
  resolvent at a pole is a diagonal matrix plus one of low rank (Woodbury), so that its sum over
  points is one matrix product: O(D²) per sample.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from genmetric._typing import AnyArray, BoolArray, ComplexArray, FloatArray
from genmetric.density._gaussian import ClassGaussians
from genmetric.geometry._phi import CANCELLED_ROUNDING
from genmetric.geometry._zolotarev import zolotarev_sign

#: Poles of the rational absolute value, and the relative eigenvalue from which it holds: for most
#: samples, for samples where much of it cancels, and for sums that are coarser for another reason.
FINE, FINEST, COARSE = (17, 2e-5), (22, 5e-6), (12, 2e-4)

#: Condition number of Phi up to which the Schur complement gives inertia and determinant.
MAX_CONDITION = 1e10

#: |beta| below this fraction of the largest is raised to it: the Schur complement would cancel.
BETA_FLOOR = 1e-8

#: If the bound on |Phi| exceeds the size of the metric by these factors, terms cancel and samples
#: need the finest poles, or the dense solver.
LOOSE, TOO_LOOSE = 1.5, 8.0

#: Fixed-point steps for the bound on the spectrum.
BOUND_STEPS = 3

#: Up to this number of samples the products of all poles are computed at once.
FEW_ROWS = 50

#: Columns of a panel of the symmetric product; only panels on and below the diagonal are formed.
PANEL = 96


@dataclass(frozen=True)
class SharedPart:
    """The part of Phi that samples with the same class weights share.

    Attributes
    ----------
    means : ndarray of shape (n_terms, n_features)
        Means of the classes that matter.
    to_basis : ndarray of shape (n_terms, n_features, n_features)
        The matrices P_c Q, which map x - mean to the basis of the eigenvectors of B.
    signs : ndarray of shape (n_terms,)
        Signs of the weights.
    Q : ndarray of shape (n_features, n_features)
        Eigenvectors of B.
    beta : ndarray of shape (n_features,)
        Eigenvalues of B, ascending.
    sound : bool
        Whether B differs from zero in every direction by more than rounding.
    """

    means: FloatArray
    to_basis: FloatArray
    signs: FloatArray
    Q: FloatArray
    beta: FloatArray
    sound: bool

    @property
    def unit(self) -> float:
        """Largest |beta|, the unit of all scales."""
        return float(max(-self.beta[0], self.beta[-1]))

    @classmethod
    def of(cls, gaussians: ClassGaussians, classes: list[int], weights: FloatArray) -> SharedPart:
        """Compute the part shared by samples whose `classes` have these `weights` with sum zero."""
        P = gaussians.precisions[classes]
        beta, Q = np.linalg.eigh(-np.tensordot(weights, P, axes=1))
        size = np.abs(beta).max()
        small = BETA_FLOOR * size
        # One direction may be raised; more would be a subspace in which the classes agree.
        clear = np.abs(beta).min() > CANCELLED_ROUNDING * np.abs(P).max()
        sound = bool(clear and np.count_nonzero(np.abs(beta) < small) <= 1)
        beta = np.where(np.abs(beta) < small, np.where(beta < 0, -small, small), beta)
        return cls(
            gaussians.means[classes], P @ Q, np.where(weights > 0, 1.0, -1.0), Q, beta, sound
        )

    def coordinates(self, X: FloatArray, sizes: FloatArray | None = None) -> FloatArray:
        """Compute the vectors v_k of each sample, of shape (n_samples, n_terms, n_features).

        `sizes`, of shape (n_samples, n_terms), are the absolute weights of the classes;
        None for one.
        """
        V = np.empty((len(X), *self.means.shape))
        for k, (mean, to_basis) in enumerate(zip(self.means, self.to_basis, strict=True)):
            np.matmul(X - mean, to_basis, out=V[:, k])
        return V if sizes is None else V * np.sqrt(sizes)[:, :, None]


def _gram(V: FloatArray, columns: FloatArray) -> FloatArray:
    """Sum v_k v_l times each column over features, to shape (r, r, n_samples, n_columns)."""
    r = V.shape[1]
    out = np.empty((r, r, len(V), columns.shape[1]))
    for k in range(r):
        for q in range(k + 1):
            out[k, q] = out[q, k] = (V[:, k] * V[:, q]) @ columns
    return out


def _complex_gram(V: FloatArray, columns: ComplexArray) -> ComplexArray:
    """As :func:`_gram`, for complex columns, by one real product."""
    m = columns.shape[1]
    parts = _gram(V, np.hstack([columns.real, columns.imag]))
    return np.asarray(parts[..., :m] + 1j * parts[..., m:])


def bordered_inverse(H: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Invert many small symmetric matrices, one row and column at a time.

    Parameters
    ----------
    H : ndarray of shape (r, r, ...)
        Symmetric matrices in the first two axes, real or complex.

    Returns
    -------
    inverse : ndarray of shape (r, r, ...)
        Their inverses.
    pivots : ndarray of shape (r, ...)
        Those of H = L D Lᵀ: their product is the determinant, their signs the inertia.
    """
    C, pivots = np.empty_like(H), np.empty_like(H[0])
    for k in range(len(H)):
        column = [sum(C[p, q] * H[q, k] for q in range(k)) for p in range(k)]
        pivots[k] = H[k, k] - sum(H[p, k] * column[p] for p in range(k))
        C[k, k] = 1 / pivots[k]
        for p in range(k):
            C[p, k] = C[k, p] = -column[p] / pivots[k]
            for q in range(p + 1):
                C[p, q] = C[p, q] - column[p] * C[k, q]
                C[q, p] = C[p, q]
    return C, pivots


@dataclass(frozen=True)
class Summary:
    """Properties of diag(beta) plus rank-one terms, computed in O(D) per sample.

    Attributes
    ----------
    n_positive : ndarray of shape (n_samples,)
        Number of positive eigenvalues, as floats.
    log_det : ndarray of shape (n_samples,)
        Logarithm of the absolute determinant.
    bound : ndarray of shape (n_samples,)
        Upper bound on the largest absolute eigenvalue.
    norm2 : ndarray of shape (n_samples,)
        Squared Frobenius norm.
    loose : ndarray of shape (n_samples,)
        Whether the two terms of the metric cancel to a large part.
    regular : ndarray of shape (n_samples,)
        Whether all eigenvalues are above the floor of the sign rule and the bound is tight enough
        for :class:`AbsoluteValues`.
    """

    n_positive: FloatArray
    log_det: FloatArray
    bound: FloatArray
    norm2: FloatArray
    loose: BoolArray
    regular: BoolArray


def summarize(beta: FloatArray, signs: FloatArray, V: FloatArray) -> Summary:
    r"""Compute inertia, determinant and condition of diag(beta) plus rank-one terms.

    With :math:`S = \mathrm{diag}(s)` and :math:`H = S + V \mathrm{diag}(\beta)^{-1} V^T`, the
    determinant lemma and Haynsworth's additivity of the inertia give

    .. math:: |\det\Phi| = |\det H| \prod_d |\beta_d|, \qquad d_+ = \beta_+ + h_- - s_-,

    with :math:`\beta_+` positive :math:`\beta`, and :math:`h_-`, :math:`s_-` negative eigenvalues
    of H and S. The smallest eigenvalue is at least one over the Frobenius norm of the inverse, and
    with :math:`T_k = V \mathrm{diag}(\beta)^{-k} V^T`

    .. math:: \|\Phi^{-1}\|_F^2 = \sum_d \beta_d^{-2} - 2\,\mathrm{tr}(H^{-1} T_3)
              + \mathrm{tr}(H^{-1} T_2 H^{-1} T_2) .

    Parameters
    ----------
    beta : ndarray of shape (n_features,)
        Non-zero, ascending.
    signs : ndarray of shape (n_terms,)
        Signs s of the terms.
    V : ndarray of shape (n_samples, n_terms, n_features)
        Vectors of the terms of each sample.

    Returns
    -------
    Summary
        Summary of each sample.
    """
    unit = np.abs(beta).max()
    inverse = unit / beta
    grams = _gram(V / np.sqrt(unit), np.column_stack([inverse, inverse**2, inverse**3]))
    H = grams[..., 0] + np.diag(signs)[:, :, None]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        C, pivots = bordered_inverse(H)
        log_det = np.log(np.abs(pivots)).sum(axis=0) + np.log(np.abs(beta)).sum()
        turned = np.einsum("kln,lmn->kmn", C, grams[..., 1])
        inverse_norm2 = (
            (inverse**2).sum()
            - 2 * np.einsum("kln,kln->n", C, grams[..., 2])
            + np.einsum("kln,lkn->n", turned, turned)
        ) / unit**2
        bound = spectral_bound(beta, signs, V)
        norm2 = square_norms(beta, signs, V)
        h_negative = np.count_nonzero(pivots < 0, axis=0)
        n_positive = np.count_nonzero(beta > 0) + h_negative - np.count_nonzero(signs < 0)
        # The sign rule multiplies eigenvalues by the counts before its floor.
        counts = np.sort([n_positive, len(beta) - n_positive], axis=0)
        smaller = np.where(counts[0] > 0, counts[0], counts[1])
        span = bound * np.sqrt(inverse_norm2) * counts[1] / smaller
        # The bound against the metric's own norm, of which its two terms are a difference.
        looseness = bound * len(beta) / (2 * smaller * np.sqrt(norm2))
        regular = np.isfinite(log_det) & (span < MAX_CONDITION) & (looseness < TOO_LOOSE)
    return Summary(
        n_positive.astype(float), np.asarray(log_det), bound, norm2, looseness > LOOSE, regular
    )


def spectral_bound(beta: FloatArray, signs: FloatArray, V: FloatArray) -> FloatArray:
    r"""Compute an upper bound on the spectral norm of diag(beta) plus rank-one terms, per sample.

    Without its negative terms the largest eigenvalue of Phi is at most :math:`\beta_{\max} + y`
    with :math:`g(y) = \sum_{s_k > 0}\sum_d v_{kd}^2/(y + \beta_{\max} - \beta_d) = 1` (exactly so
    for a single term). Since 1/g is concave and not negative at zero, :math:`y \leftarrow y\,g(y)`
    falls towards the root from above, from :math:`y = \sum |v_k|^2`; the other end likewise.

    Parameters
    ----------
    beta : ndarray of shape (n_features,)
        Ascending.
    signs : ndarray of shape (n_terms,)
        Signs of the terms.
    V : ndarray of shape (n_samples, n_terms, n_features)
        Vectors of the terms of each sample.

    Returns
    -------
    ndarray of shape (n_samples,)
        Bounds, usually tight to a few per cent.
    """
    bound = np.zeros(len(V))
    for sign, edge, gap in ((1, beta[-1], beta[-1] - beta), (-1, -beta[0], beta - beta[0])):
        v2 = (V[:, signs == sign] ** 2).sum(axis=1)
        y = v2.sum(axis=1)
        for _ in range(BOUND_STEPS):
            safe = np.where(y > 0, y, 1.0)
            y *= (v2 / (safe[:, None] + gap)).sum(axis=1)
        np.maximum(bound, edge + y, out=bound)
    return bound


def scale_levels(bound: FloatArray, unit: float, base: float = 4.0) -> FloatArray:
    """Round bounds up to a unit times a power of a base.

    Samples with the same rounded bound share their poles. The bound of a sample does not depend on
    other samples.
    """
    return np.asarray(unit * base ** np.ceil(np.log(bound / unit) / np.log(base)))


@dataclass(frozen=True)
class AbsoluteValues:
    r"""The absolute values :math:`|\Phi_i|` of many matrices of norm at most one, not yet summed.

    With :math:`R_j = (\mathrm{diag}(\beta) - i\sigma_j)^{-1}` at each pole and the small matrices
    :math:`C_{ij} = (S + V_i R_j V_i^T)^{-1}` of each sample,

    .. math:: |\Phi_i| = \mathrm{diag}|\beta| + \sum_j a_j \sigma_j\,
              \mathrm{Im}\big[R_j V_i^T C_{ij} V_i R_j\big].

    The first term is exact: only the change relative to the shared part is approximated. The
    traces of :math:`|\Phi_i|` and :math:`\Phi_i|\Phi_i|` are the imaginary and the real part of
    :math:`\mathrm{tr}(C_{ij} V_i R_j^2 V_i^T)`, summed over the poles: O(D) per pole and sample.

    Attributes
    ----------
    beta : ndarray of shape (n_features,)
        Shared diagonal, scaled like the samples.
    V : ndarray of shape (n_samples, n_terms, n_features)
        Vectors of the rank-one terms of each sample.
    R : ndarray of shape (n_features, n_poles)
        Resolvents of the shared diagonal.
    C : ndarray of shape (n_terms, n_terms, n_samples, n_poles)
        The small matrices times the residues of the poles.
    traces : ndarray of shape (n_samples,)
        Trace of each absolute value.
    signed_squares : ndarray of shape (n_samples,)
        Trace of Phi |Phi| of each sample.
    """

    beta: FloatArray
    V: FloatArray
    R: ComplexArray
    C: ComplexArray
    traces: FloatArray
    signed_squares: FloatArray

    @classmethod
    def of(
        cls,
        beta: FloatArray,
        signs: FloatArray,
        V: FloatArray,
        poles: tuple[int, float] = FINE,
    ) -> AbsoluteValues:
        """Evaluate the resolvents of diag(beta) plus rank-one terms at the poles.

        `poles` are the arguments of :func:`~genmetric.geometry._zolotarev.zolotarev_sign`.
        """
        sigma, a = zolotarev_sign(*poles)
        R = np.asarray(1 / (beta[:, None] - 1j * sigma), complex)
        H = _complex_gram(V, R)
        H += np.diag(signs)[:, :, None, None]
        C, _ = bordered_inverse(H)
        inner = (C * _complex_gram(V, R**2)).sum(axis=(0, 1))
        traces = np.abs(beta).sum() + inner.imag @ (a * sigma)
        signed_squares = (
            beta @ np.abs(beta)
            + a.sum() * (rank_one_traces(beta, signs, V) - beta.sum())
            + inner.real @ (a * sigma**2)
        )
        C *= a * sigma
        return cls(beta, V, R, C, traces, signed_squares)

    def sum(self, weights: FloatArray) -> FloatArray:
        """Return the weighted sum of the absolute values, shape (n_features, n_features)."""
        C = self.C * weights[:, None]
        add_up = _few_rows if len(self.V) <= FEW_ROWS else _many_rows
        return add_up(self.V, C, self.R) + np.diag(weights.sum() * np.abs(self.beta))


def _many_rows(V: FloatArray, C: ComplexArray, R: ComplexArray) -> FloatArray:
    """Sum Im[R (sum over samples of Vᵀ C V) R] over poles, by one real product per part."""
    n_features = V.shape[2]
    by_pole = C.transpose(3, 2, 0, 1)
    parts = np.ascontiguousarray(by_pole.real), np.ascontiguousarray(by_pole.imag)
    flat = V.reshape(-1, n_features)
    weighted = np.empty_like(V)
    right = weighted.reshape(flat.shape)
    total = np.zeros((n_features, n_features))
    panels = [(i, min(i + PANEL, n_features)) for i in range(0, n_features, PANEL)]
    for j, r in enumerate(R.T):
        outer = r[:, None] * r
        for part, factor in zip(parts, (outer.imag, outer.real), strict=True):
            np.matmul(part[j], V, out=weighted)
            for i, k in panels:
                total[i:k, :k] += factor[i:k, :k] * (flat[:, i:k].T @ right[:, :k])
    return np.asarray(np.tril(total) + np.tril(total, -1).T)


def _few_rows(V: FloatArray, C: ComplexArray, R: ComplexArray) -> FloatArray:
    """Compute the sum of :func:`_many_rows` by one product of all samples and poles.

    No array has size D² per pole. With R V = A + iB the imaginary part of (R V)ᵀ C (R V) is that of
    real matrices twice as wide.
    """
    n_rows, n_terms, n_features = V.shape
    n_poles = R.shape[1]
    Z = np.empty((n_rows, n_poles, 2 * n_terms, n_features))
    np.multiply(V[:, None], R.real.T[:, None], out=Z[:, :, :n_terms])
    np.multiply(V[:, None], R.imag.T[:, None], out=Z[:, :, n_terms:])
    small = C.transpose(2, 3, 0, 1)
    middle = np.empty((n_rows, n_poles, 2 * n_terms, 2 * n_terms))
    middle[..., :n_terms, :n_terms] = small.imag
    middle[..., n_terms:, n_terms:] = -small.imag
    middle[..., :n_terms, n_terms:] = middle[..., n_terms:, :n_terms] = small.real
    total = Z.reshape(-1, n_features).T @ (middle @ Z).reshape(-1, n_features)
    return np.asarray((total + total.T) / 2)


def square_norms(beta: FloatArray, signs: FloatArray, V: FloatArray) -> FloatArray:
    """Compute the squared Frobenius norms of diag(beta) plus rank-one terms, shape (n_samples,)."""
    grams = _gram(V, np.column_stack([np.ones_like(beta), beta]))
    mixed = 2 * np.einsum("kkn,k->n", grams[..., 1], signs)
    outer = np.einsum("kln,k,l->n", grams[..., 0] ** 2, signs, signs)
    return np.asarray(beta @ beta + mixed + outer)


def rank_one_traces(beta: FloatArray, signs: FloatArray, V: FloatArray) -> FloatArray:
    """Compute the traces of diag(beta) plus rank-one terms, shape (n_samples,)."""
    return np.asarray(beta.sum() + np.einsum("nkd,nkd->nk", V, V) @ signs)


def plain_sum(
    beta: FloatArray, signs: FloatArray, V: FloatArray, weights: FloatArray
) -> FloatArray:
    """Compute the weighted sum of diag(beta) plus rank-one terms, (n_features, n_features)."""
    flat = V.reshape(-1, V.shape[2])
    scaled = (V * (weights[:, None] * signs)[:, :, None]).reshape(flat.shape)
    return np.asarray(np.diag(weights.sum() * beta) + scaled.T @ flat)


def resolvent_bytes_per_row(n_features: int, n_terms: int) -> int:
    """Return the bytes of temporary arrays per sample in :class:`AbsoluteValues`."""
    return 40 * n_terms * n_features + 64 * FINEST[0] * (n_terms**2 + 1)

r"""The two-covariance model: one covariance within classes, one between them.

Samples are :math:`x = m_c + e`. The class means :math:`m_c` are Gaussian with covariance B about a
common mean, and the deviations e are Gaussian with covariance W, the same in all classes. This is
probabilistic linear discriminant analysis. `EmbeddingAdapter` learns it from class labels and
`PairClassifier` from pairs.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from genmetric._neighbors import unit_vectors
from genmetric._parallel import map_chunks, row_chunks
from genmetric._text import import_optional
from genmetric._typing import AnyArray, ArrayLike, FloatArray, IntArray
from genmetric._validation import FLOATS, cast_finite, form_points
from genmetric.density.gaussian import EIGENVALUE_FLOOR, correlation_shrinkage
from genmetric.density.statistics import ClassStatistics
from genmetric.learners.mahalanobis import fitted_samples, linear_layer

#: How the axes of the model are weighted in an inner product.
WEIGHTINGS = ("whitening", "reliability", "detection")


def check_size(X: AnyArray) -> AnyArray:
    """Return samples whose squares are in the range of float64; raise otherwise."""
    size = max(float(X.max()), -float(X.min()))
    if size and not 1e-100 <= size <= 1e100:
        raise ValueError(
            f"X has values of size {size:g}, whose squares leave the range of float64. Multiply X by "
            "a constant, or use normalize=True."
        )
    return X


def row_hashes(X: AnyArray, rows: IntArray) -> AnyArray:
    """Return numbers of 64 bits that depend on the values of each of some samples only."""
    odd = 2 * np.random.RandomState(0).randint(2**62, size=X.shape[1], dtype=np.uint64) + 1
    hashes = np.empty(len(rows), np.uint64)
    for chunk in row_chunks(len(rows), 24 * X.shape[1]):
        bits = (X[rows[chunk]].astype(float) + 0.0).view(np.uint64)  # 0.0 makes a zero of -0.0
        # Integers and float32 have all their digits in the upper half.
        hashes[chunk] = ((bits ^ (bits >> np.uint64(32))) * odd).sum(axis=1)
    return hashes


def common_mean(stats: ClassStatistics) -> FloatArray:
    """Return the mean of all samples, shape (n_features,)."""
    return np.asarray(stats.count @ stats.mean / stats.count.sum())


def two_covariances(stats: ClassStatistics) -> tuple[FloatArray, FloatArray, float]:
    r"""Estimate W and B by the method of moments, and the Ledoit-Wolf shrinkage of W.

    With n samples of C classes, of which :math:`n_c` are of class c, S the scatter within classes,
    :math:`\mu` the mean of all samples and :math:`n_0 = (n - \sum_c n_c^2 / n) / (C - 1)`, the
    unbiased estimates are

    .. math:: W = \frac{S}{n - C}, \qquad
              B = \frac{1}{n_0} \left(\frac{1}{C-1} \sum_c n_c (m_c-\mu)(m_c-\mu)^T - W\right).

    B can have negative eigenvalues. Without a class of two samples, W is half the covariance.
    """
    count, n = stats.count, float(stats.count.sum())
    n_classes = np.count_nonzero(count)
    e = (stats.mean - common_mean(stats)) * np.sqrt(count)[:, None]
    n0 = max((n - float(count @ count) / n) / (n_classes - 1), np.finfo(float).eps)
    between = e.T @ e / (n_classes - 1)
    if n <= n_classes:
        return between / 2, between / 2, 1.0
    within = stats.scatter.sum(axis=0) / (n - n_classes)
    # Relative to its trace, because the shrinkage has fourth powers of the samples.
    size = float(np.trace(within)) or 1.0
    return within, (between - within) / n0, correlation_shrinkage(within / size, n - n_classes)


def group_moments(
    x: AnyArray, groups: IntArray, vectors: Callable[[AnyArray], AnyArray], n_jobs: int | None
) -> tuple[FloatArray, FloatArray, float]:
    """Return the covariance within groups, the second moments, and the first one's freedom.

    The moments are those of ``vectors(x)``, which is computed in blocks of whole groups.
    """
    codes = np.unique(groups, return_inverse=True)[1]
    order = np.argsort(codes, kind="stable")
    codes = codes[order]
    starts = [rows.start for rows in row_chunks(len(x), 24 * x.shape[1], budget=2**23)]
    edges = [*np.unique(np.searchsorted(codes, codes[starts])).tolist(), len(x)]

    def of_block(edge: tuple[int, int]) -> tuple[FloatArray, FloatArray]:
        v = vectors(x[order[slice(*edge)]]).astype(float)
        own = codes[slice(*edge)] - codes[edge[0]]
        counts = np.bincount(own)
        means = np.add.reduceat(v, np.cumsum(counts) - counts) / counts[:, None]
        v -= means[own]
        means *= np.sqrt(counts)[:, None]
        return v.T @ v, means.T @ means

    within, between = np.zeros((2, x.shape[1], x.shape[1]))
    for w, b in map_chunks(of_block, list(pairwise(edges)), n_jobs):
        within += w
        between += b
    degrees = float(len(x) - codes[-1] - 1)
    return within / degrees, (within + between) / len(x), degrees


def shrunk_covariances(
    within: FloatArray,
    between: FloatArray,
    shrinkage: float,
    within_factor: float,
    between_shrinkage: float,
) -> tuple[FloatArray, FloatArray]:
    r"""Shrink W towards the identity and B towards the total covariance T = W + B.

    .. math:: W_s = (1-s) W + s \frac{\mathrm{tr} W}{D} I, \qquad
              B_t = (1-t) B + t \frac{\mathrm{tr} B}{\mathrm{tr} T} T.

    The odds s/(1-s) are `within_factor` times those of the Ledoit-Wolf shrinkage, which minimises
    the error of W; the error of its inverse is often least with more. Few classes say little about
    the directions in which other classes differ: there, T assumes that directions of large variance
    separate classes. `between_shrinkage` is t.
    """
    n_features = len(within)
    total = within + between
    trace_t = float(np.trace(total))
    trace_w = max(float(np.trace(within)), EIGENVALUE_FLOOR * trace_t) or 1.0
    trace_b = max(trace_t - trace_w, 1e-3 * trace_w)
    odds = within_factor * shrinkage
    s = max(odds / (1 - shrinkage + odds), EIGENVALUE_FLOOR) if odds else EIGENVALUE_FLOOR
    target = total / trace_t if trace_t > 0 else np.eye(n_features) / n_features
    return (
        (1 - s) * within + s * trace_w / n_features * np.eye(n_features),
        (1 - between_shrinkage) * between + between_shrinkage * trace_b * target,
    )


def discriminant_axes(within: FloatArray, between: FloatArray) -> tuple[FloatArray, FloatArray]:
    r"""Diagonalise W (positive definite) and B at once.

    Returns rows a with :math:`a_i^T W a_j = \delta_{ij}` and :math:`a_i^T B a_j = \psi_i
    \delta_{ij}`, the largest entry of each positive, and the ratios :math:`\psi` of the variance
    between classes to that within, descending; negative ones are set to zero.
    """
    root = np.linalg.inv(np.linalg.cholesky(within)).T
    inside = root.T @ between @ root
    ratios, rotation = np.linalg.eigh((inside + inside.T) / 2)
    axes = (root @ rotation).T[::-1]
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=1)[:, None], axis=1)
    return axes * np.where(largest < 0, -1.0, 1.0), np.maximum(ratios[::-1], 0.0)


def axis_lengths(ratios: FloatArray, weighting: str) -> FloatArray:
    r"""Return :math:`\sqrt g`, the length of each axis in a map L for inner products.

    On the axes the samples of a pair have the variance :math:`1+\psi`, and the covariance
    :math:`\psi` if they are of one class and zero otherwise.

    - "whitening": :math:`g = 1`, which treats all axes alike;
    - "reliability": :math:`g = \psi/(1+\psi)`, the correlation of two samples of one class;
    - "detection": :math:`g = \psi/(1+\psi)^2`. It maximises the difference of the mean of
      :math:`\sum_i g_i x_i y_i` between pairs of one class and of two, relative to its standard
      deviation over pairs of two classes, and keeps a few axes from dominating the angle.

    They are scaled so that the mean squared length of centred samples is one.
    """
    g = np.ones_like(ratios)
    if weighting != "whitening":
        g = ratios / (1 + ratios)
        g = g / (1 + ratios) if weighting == "detection" else g
        if not g.any():  # classes do not differ along any axis
            g = np.ones_like(ratios)
    return np.asarray(np.sqrt(g / (g @ (1 + ratios))))


def log_likelihood_ratio(z: AnyArray, pairs: IntArray, ratios: FloatArray) -> FloatArray:
    r"""Return log p(a, b | one class) - log p(a, b | two classes) of pairs of rows of `z`.

    The rows are coordinates of samples on the axes. With a and b those of a pair, the ratio is

    .. math:: \sum_i \frac{\psi_i a_i b_i}{1 + 2\psi_i}
              - \frac{\psi_i^2 (a_i^2 + b_i^2)}{2 (1+\psi_i)(1+2\psi_i)}
              + \log(1+\psi_i) - \frac12 \log(1+2\psi_i).
    """
    product = ratios / (1 + 2 * ratios)
    square = product * ratios / (2 * (1 + ratios))
    constant = float(np.sum(np.log1p(ratios) - np.log1p(2 * ratios) / 2))
    return pair_forms(z, pairs, product, square) + constant


def pair_forms(z: AnyArray, pairs: IntArray, product: FloatArray, square: FloatArray) -> FloatArray:
    r"""Return :math:`\sum_i p_i a_i b_i - s_i (a_i^2 + b_i^2)` of pairs (a, b) of rows."""
    own = np.concatenate([z[rows] ** 2 @ square for rows in row_chunks(len(z), 24 * z.shape[1])])
    products = np.empty(len(pairs))
    for chunk in row_chunks(len(pairs), 32 * z.shape[1]):
        a, b = (z[pairs[chunk, side]].astype(float, copy=False) for side in (0, 1))
        products[chunk] = (a * b) @ product
    return np.asarray(products - own[pairs].sum(axis=1))


class UnitVectorMapMixin(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    r"""Methods of a map :math:`z = L(u - \mu) / \|L(u - \mu)\|` of unit vectors u to unit vectors.

    A class that inherits from this mixin sets `components_`, the matrix L, and `mean_` in ``fit``.
    If its parameter `normalize` is false, vectors and outputs keep their lengths.
    """

    components_: AnyArray
    mean_: AnyArray
    normalize: bool
    #: `mean_` in float64.
    _mean: FloatArray

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def transform(self, X: ArrayLike) -> AnyArray:
        """Map samples to the learned space.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples, or indices of samples if there is a `preprocessor`.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Mapped samples, of unit length if `normalize`; float32 if X is.
        """
        return self._outputs(fitted_samples(self, X))

    def pair_distance(self, pairs: ArrayLike) -> FloatArray:
        """Return the Euclidean distance between the outputs of the two samples of each pair.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features)
            Pairs of samples; pairs of indices, shape (n_pairs, 2), if there is a `preprocessor`.

        Returns
        -------
        ndarray of shape (n_pairs,)
            Distances; with `normalize` the root of two minus twice the cosine similarity.
        """
        x, index = self._pair_rows(pairs)
        z = self._outputs(x)
        parts = [
            np.linalg.norm(z[index[rows, 0]] - z[index[rows, 1]], axis=1)
            for rows in row_chunks(len(index), 32 * z.shape[1])
        ]
        return np.concatenate(parts)

    def to_torch(self, *, dtype: str = "float32") -> Any:
        """Return the map as layers of torch (``pip install "genmetric[torch]"``).

        Parameters
        ----------
        dtype : {"float32", "float64"}, default="float32"
            Type of the weights.

        Returns
        -------
        torch.nn.Module
            With `normalize` a :class:`torch.nn.Sequential` of :class:`torch.nn.RMSNorm`,
            :class:`torch.nn.Linear` and :class:`torch.nn.RMSNorm`, otherwise the linear layer
            only, on the CPU. The output is that of `transform`, except that missing values are not
            errors.
        """
        check_is_fitted(self, "components_")
        if not self.normalize:
            return linear_layer(self.components_, self.bias_, dtype)
        # RMSNorm divides by the length over sqrt(D), so this factor is part of the weights.
        n_components, n_features = self.components_.shape
        linear = linear_layer(self.components_ / np.sqrt(n_features), self.bias_, dtype)
        torch = import_optional("torch", "torch")
        kind = getattr(torch, dtype)
        before = torch.nn.RMSNorm(n_features, eps=1e-30, elementwise_affine=False, dtype=kind)
        after = torch.nn.RMSNorm(n_components, eps=1e-30, dtype=kind)
        with torch.no_grad():
            after.weight.fill_(1 / np.sqrt(n_components))
        after.weight.requires_grad_(False)
        return torch.nn.Sequential(before, linear, after)

    @property
    def bias_(self) -> AnyArray:
        r"""Offset :math:`-L\mu` of the linear map, shape (n_components,)."""
        bias = -(self.components_.astype(float) @ self._mean)
        return np.asarray(bias.astype(self.components_.dtype))

    def _centred(self, x: AnyArray) -> AnyArray:
        """Scale samples if `normalize`, and subtract the mean."""
        x = unit_vectors(x) if self.normalize else x
        return np.asarray(x - self.mean_.astype(x.dtype, copy=False))

    def _outputs(self, x: AnyArray) -> AnyArray:
        """Map validated samples."""
        with np.errstate(over="ignore", invalid="ignore"):
            z = self._centred(x) @ self.components_.T.astype(x.dtype, copy=False)
        return unit_vectors(z) if self.normalize else cast_finite(z, x.dtype, "Images")

    def _pair_rows(self, pairs: Any) -> tuple[AnyArray, IntArray]:
        """Validate pairs; return vectors, and the two rows of each pair among them."""
        check_is_fitted(self, "components_")
        used, index = indexed_pairs(self, pairs)
        x = validate_data(self, used, dtype=FLOATS, reset=False)
        return x, index

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def indexed_pairs(estimator: Any, pairs: Any, *, all_vectors: bool = False) -> tuple[Any, IntArray]:
    """Return vectors, and the two rows of each pair among them.

    A preprocessor looks up each vector once. If it is an array and `all_vectors`, the vectors are
    all of it.
    """
    preprocessor = getattr(estimator, "preprocessor", None)
    if preprocessor is None or np.ndim(pairs) != 2:
        formed = np.asarray(form_points(pairs, None, estimator, per_tuple=2))
        return formed.reshape(-1, formed.shape[2]), np.arange(2 * len(formed)).reshape(-1, 2)
    index = np.asarray(pairs)
    if index.shape[1] != 2:
        raise ValueError(f"Pairs of indices must have shape (n_pairs, 2); got {index.shape}.")
    used, rows = np.unique(index, return_inverse=True)
    if callable(preprocessor):
        return preprocessor(used), rows.reshape(-1, 2)
    if issparse(preprocessor):
        raise TypeError(
            "The preprocessor is a sparse matrix; expected an array. Reduce its features first, for "
            "example with TruncatedSVD."
        )
    n_samples = len(preprocessor)
    if index.dtype.kind not in "iu" or not index.size or used[0] < 0 or used[-1] >= n_samples:
        raise ValueError(
            f"Pairs of indices must be integers from 0 to {n_samples - 1}, since the preprocessor "
            f"has {n_samples} samples; got {reprlib.repr(index.tolist())}."
        )
    table = np.asarray(preprocessor)
    return (table, index) if all_vectors else (table[used], rows.reshape(-1, 2))

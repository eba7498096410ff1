r"""LocalMetricClassifier, and the exact search for it, in which each query has its own metric.

The metric of a query x is :math:`A = U\,\mathrm{diag}(a)\,U^T` with all :math:`a_r > 0`. Each
distance costs a product with a D x D matrix, so most samples are excluded by a cheaper bound: with
:math:`a_{\min}` the least eigenvalue and :math:`u_1, \dots, u_R` the leading eigenvectors,

.. math:: d_A^2(x, x') \ge a_{\min} \|x - x'\|^2
          + \sum_{r=1}^R (a_r - a_{\min}) \big(u_r^T(x - x')\big)^2 .

The first term is the bound by the identity part of an interpolated metric. It excludes four in ten
samples of MNIST (40 dimensions, interpolation 0.5); with R = 4 all but one in 4000 are excluded,
since a local metric has a few large eigenvalues: Phi is a fixed matrix plus two outer products. The
bound is one product of matrices for all queries of a chunk and all samples, in float32, lowered by
its largest rounding error. It selects the candidates; their distances are float64.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from genmetric._neighbors import check_n_neighbors, class_probabilities, majority_votes
from genmetric._parallel import map_chunks, one_blas_thread, row_chunks
from genmetric._typing import AnyArray, ArrayLike, FloatArray, IntArray
from genmetric._validation import (
    Interval,
    ParameterRules,
    cast_finite,
    check_parameter,
    check_parameters,
    check_priors,
    labelled_rows,
    query_rows,
)
from genmetric.density.gaussian import SHRINKAGE_RULES
from genmetric.density.models import fit_models
from genmetric.geometry import phi_weights
from genmetric.geometry.local import dense_bytes_per_row, local_spectra


class LocalMetricClassifier(ClassifierMixin, BaseEstimator):
    r"""Nearest-neighbour classifier in the local metric of each query.

    The class densities at a query x determine a generative local metric :math:`M_x` of determinant
    one. It is mixed with the identity, and the training samples :math:`x_i` nearest by

    .. math:: d^2(x, x_i) = (x - x_i)^T \big((1-\lambda) I + \lambda M_x\big) (x - x_i)

    vote for the class. The result depends on the units of the features: scale them first.

    The neighbours are exact. A lower bound from the identity part and the leading eigenvectors of
    :math:`M_x` excludes most samples. With 60,000 training samples of MNIST in 40 principal
    components the distance is computed for one sample in a thousand, and a query takes 0.8 ms
    of CPU time, a fifth of it for the eigendecomposition of its metric.

    Parameters
    ----------
    n_neighbors : int, default=5
        Number of neighbours that vote, at most the number of training samples. Larger values smooth
        the decision.
    interpolation : float, default=0.5
        Weight :math:`\lambda` of the local metric against the identity, in [0, 1]. Smaller values
        regularise towards Euclidean distance, which is 0. Tune it: local metrics have a few very
        large eigenvalues, and with many samples or features small weights are better (held-out
        samples selected 0.01 on MNIST in 40 principal components and in 8 of 10 splits of Letters).
    shrinkage : None, "auto" or float, default="auto"
        Covariance of each class: ``None`` uses maximum likelihood, as in the paper; ``"auto"``
        uses Ledoit-Wolf shrinkage; a number s in [0, 1] gives (1-s)·S + s·(trace S/D)·I, and
        larger values make the classes rounder. Eigenvalues below 1e-8 of the mean pooled variance
        are raised to that level, for ``None`` too.
    class_model : estimator, default=None
        Model of a class density, as in :class:`~genmetric.GenerativeMetric`; a clone is fitted to
        each. ``None`` is one Gaussian with this `shrinkage`.
        ``GaussianModel(covariance_estimator=...)`` takes a scikit-learn covariance estimator.
    priors : array-like of shape (n_classes,), default=None
        Class priors, in the order of `classes_`; a class with a larger prior has more influence on
        the local metrics. ``None`` is equal priors, as in the paper. With two classes they have no
        effect.
    n_jobs : int, default=None
        Number of threads; ``None`` is one, -1 uses all cores. The result is the same, bit for bit,
        for every number.
    random_state : int, RandomState instance or None, default=None
        Seed of `class_model` if its own `random_state` is None.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    means_ : ndarray of shape (n_classes, n_features)
        Class means.
    covariances_ : ndarray of shape (n_classes, n_features, n_features)
        Covariances of the Gaussians of the classes.
    n_samples_fit_ : int
        Number of training samples.
    n_features_in_ : int
        Number of features seen during fit.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of features seen during fit. Defined only when X has feature names that are all
        strings.

    See Also
    --------
    genmetric.GenerativeMetric : Averages the local metrics into one.
    EnergyClassifier : Compares energies instead of votes, in one metric.
    sklearn.neighbors.KNeighborsClassifier : Votes of neighbours in one metric for all queries.

    Notes
    -----
    Ties of votes go to the first class, as in scikit-learn. Interpolated local metrics are
    described in appendix C of the paper.

    References
    ----------
    Y.-K. Noh, B.-T. Zhang and D. D. Lee, Generative local metric learning for nearest neighbor
    classification, Advances in Neural Information Processing Systems 23 (2010).

    Y. Shi, Y.-K. Noh, F. Sha and D. D. Lee, Learning Discriminative Metrics via Generative Models
    and Kernel Learning, arXiv:1109.3940v1 (2011).

    Examples
    --------
    >>> from genmetric.neighbors import LocalMetricClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LocalMetricClassifier().fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.9
    True
    >>> distances, indices = model.kneighbors(X[1:3])
    >>> distances.shape, indices.shape
    ((2, 5), (2, 5))
    """

    _parameter_rules: ClassVar[ParameterRules] = {
        "n_neighbors": [Interval(int, 1)],
        "interpolation": [Interval(float, 0, 1)],
        "shrinkage": SHRINKAGE_RULES,
    }

    def __init__(
        self,
        n_neighbors: int = 5,
        *,
        interpolation: float = 0.5,
        shrinkage: Any = "auto",
        class_model: Any = None,
        priors: ArrayLike | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.interpolation = interpolation
        self.shrinkage = shrinkage
        self.class_model = class_model
        self.priors = priors
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> LocalMetricClassifier:
        """Fit the class models and store the training samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples.
        y : array-like of shape (n_samples,)
            Class labels.

        Returns
        -------
        self : LocalMetricClassifier
            The fitted classifier.
        """
        check_parameters(self)
        x, _, self.classes_, self._codes = labelled_rows(self, X, y, ensure_min_samples=2)
        self._log_priors = check_priors(self.priors, len(self.classes_))
        self._dtype, self.n_samples_fit_ = x.dtype, len(x)
        check_n_neighbors(self.n_neighbors, len(x))
        with one_blas_thread():
            coordinates, _, gaussians, self._models = fit_models(
                *(x, self._codes, self.classes_),
                class_model=self.class_model,
                shrinkage=self.shrinkage,
                rng=check_random_state(self.random_state),
                n_jobs=self.n_jobs,
            )
        self.means_ = coordinates.restore(gaussians.means)
        self.covariances_ = coordinates.restore_covariances(gaussians.covariances)
        self._coordinates = coordinates
        self._samples = coordinates.apply(x)
        self._columns = _with_norms(self._samples)
        return self

    def kneighbors(
        self, X: ArrayLike | None = None, n_neighbors: Any = None, return_distance: bool = True
    ) -> Any:
        """Find the nearest training samples of each query in the metric of the query.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features), default=None
            Queries; ``None`` is the training samples, each without itself.
        n_neighbors : int, default=None
            Number of neighbours; ``None`` is the parameter of the classifier.
        return_distance : bool, default=True
            Whether to return the distances.

        Returns
        -------
        distances : ndarray of shape (n_queries, n_neighbors)
            Distances in the metric of each query, ascending; float32 if X is. Only with
            ``return_distance=True``.
        indices : ndarray of shape (n_queries, n_neighbors)
            Indices of training samples; equal distances are ordered by index.
        """
        check_is_fitted(self)
        k = self.n_neighbors if n_neighbors is None else n_neighbors
        check_parameter(k, "n_neighbors", self._parameter_rules["n_neighbors"])
        check_parameter(self.interpolation, "interpolation", [Interval(float, 0, 1)])
        check_n_neighbors(k, self.n_samples_fit_ - (X is None))
        dtype, queries = self._dtype, self._samples
        if X is not None:
            x = query_rows(self, X)
            dtype, queries = x.dtype, self._coordinates.apply(x)

        def of_chunk(chunk: slice) -> tuple[FloatArray, IntArray]:
            return self._nearest(queries[chunk], k, chunk if X is None else None)

        n_samples, n_features = self._samples.shape
        bytes_per_row = 4 * (n_samples + (1 + _N_LEADING) * (_BLOCK + 3 * n_features)) + 16 * k
        bytes_per_row += dense_bytes_per_row(n_features, len(self.classes_))
        parts = list(map_chunks(of_chunk, row_chunks(len(queries), bytes_per_row), self.n_jobs))
        squared, indices = (np.concatenate(part) for part in zip(*parts, strict=True))
        distances = self._coordinates.scale * np.sqrt(squared)
        return (cast_finite(distances, dtype, "Distances"), indices) if return_distance else indices

    def _nearest(
        self, queries: FloatArray, k: int, itself: slice | None
    ) -> tuple[FloatArray, IntArray]:
        """Find squared distances and indices; queries are the samples `itself`, or other ones.

        The distances of the samples with the smallest lower bounds are computed first. The k-th of
        them is at least the k-th of all, so only samples whose lower bound does not exceed it can
        be neighbours. Their distances are computed too, and the k nearest are returned.
        """
        class_weights = phi_weights(self._models, queries, self._log_priors)
        _, m, U = local_spectra(self._models, queries, class_weights)
        a = 1 - self.interpolation + self.interpolation * m
        roots = U * np.sqrt(a)[:, None, :]
        bounds = _lower_bounds(_bound_coefficients(queries, a, U), self._columns)
        if itself is not None:
            np.fill_diagonal(bounds[:, itself], np.inf)
        n_first = min(4 * k + 12, self.n_samples_fit_ - (itself is not None))
        squared, indices = np.empty((len(queries), k)), np.empty((len(queries), k), np.intp)
        for i, (query, root, bound) in enumerate(zip(queries, roots, bounds, strict=True)):
            first = np.argpartition(bound, n_first - 1)[:n_first]
            reach = np.partition(_squared_distances(query, root, self._samples[first]), k - 1)
            # A little more than the k-th distance, for float32 and for distances that underflow.
            limit = np.float32(min(reach[k - 1] * (1 + 1e-6) + 1e-30, 1e38))
            near = np.flatnonzero(bound <= limit)
            d = _squared_distances(query, root, self._samples[near])
            kept = np.flatnonzero(d <= np.partition(d, k - 1)[k - 1])
            order = kept[np.argsort(d[kept], kind="stable")[:k]]
            squared[i], indices[i] = d[order], near[order]
        return squared, indices

    def predict_proba(self, X: ArrayLike | None) -> FloatArray:
        """Return the fraction of the neighbours of each query that belongs to each class.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features) or None
            Queries; ``None`` is the training samples, each without its own vote.

        Returns
        -------
        ndarray of shape (n_queries, n_classes)
            Fractions, in the order of `classes_`.
        """
        indices = self.kneighbors(X, return_distance=False)
        return class_probabilities(self._codes[indices], len(self.classes_))

    def predict(self, X: ArrayLike | None) -> AnyArray:
        """Predict the class with the most votes; ties go to the first class in `classes_`.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features) or None
            Queries; ``None`` is the training samples, each without its own vote.

        Returns
        -------
        ndarray of shape (n_queries,)
            Class labels.
        """
        indices = self.kneighbors(X, return_distance=False)
        votes = majority_votes(self._codes[indices], len(self.classes_))
        return np.asarray(self.classes_[votes[:, -1]])


#: Number R of leading eigenvectors in the lower bound.
_N_LEADING = 4

#: Number of samples in a block of bounds, so the parts of a bound stay in the cache.
_BLOCK = 2048


def _with_norms(samples: FloatArray) -> AnyArray:
    """Return samples as columns, with a one and the squared norm below them, in float32."""
    norms = np.einsum("ij,ij->i", samples, samples)
    return np.vstack([samples.T, np.ones(len(samples)), norms]).astype(np.float32)


def _squared_distances(query: FloatArray, root: FloatArray, samples: FloatArray) -> FloatArray:
    """Compute squared distances of one query to samples in the metric root·rootᵀ."""
    out = np.empty(len(samples))
    for block in row_chunks(len(samples), 16 * samples.shape[1]):
        mapped = (samples[block] - query) @ root
        np.einsum("ij,ij->i", mapped, mapped, out=out[block])
    return out


def _lower_bounds(coefficients: AnyArray, columns: AnyArray) -> AnyArray:
    """Compute lower bounds of the squared distances of all queries to all samples, float32."""
    n_parts, n_queries, length = coefficients.shape
    bounds = np.empty((n_queries, columns.shape[1]), np.float32)
    flat = coefficients.reshape(n_parts * n_queries, length)
    for start in range(0, columns.shape[1], _BLOCK):
        block = slice(start, start + _BLOCK)
        parts = (flat @ columns[:, block]).reshape(n_parts, n_queries, -1)
        np.square(parts[1:], out=parts[1:])
        parts.sum(axis=0, out=bounds[:, block])
    return bounds


def _bound_coefficients(queries: FloatArray, a: FloatArray, U: FloatArray) -> AnyArray:
    r"""Compute coefficients that map columns to lower bounds, (1 + R, n_queries, n_features + 2).

    With :math:`h_r` the product of the r-th row of coefficients and a column, the bound is
    :math:`h_0 + \sum_{r \ge 1} h_r^2`. In exact arithmetic :math:`h_0 = a_{\min} \|x - x'\|^2` and
    :math:`h_r = \sqrt{a_r - a_{\min}}\, u_r^T (x' - x)`. A product of length n in float32 is off by
    at most :math:`c = 2(n+6)\epsilon` times the sum of the sizes of its terms, and

    .. math:: h^2 \ge \tilde h^2/(1+\eta) - (\tilde h - h)^2/\eta ,

    so lowering the coefficients of :math:`\|x\|^2 + \|x'\|^2` in :math:`h_0` by
    :math:`4 c\, a_{\min} + 2 (c^2/\eta) \sum_r (a_r - a_{\min})` and dividing :math:`h_r` by
    :math:`\sqrt{1+\eta}` makes the computed number a lower bound, whatever the rounding.
    """
    n_queries, n_features = queries.shape
    leading = np.argsort(-a, axis=1, kind="stable")[:, :_N_LEADING]
    least = a.min(axis=1)
    excess = np.take_along_axis(a, leading, axis=1) - least[:, None]
    norms = np.einsum("ij,ij->i", queries, queries)
    c, eta = (n_features + 8) * float(np.finfo(np.float32).eps), 1e-3
    loss = 4 * c * least + 2 * c**2 / eta * excess.sum(axis=1)

    axes = np.take_along_axis(U, leading[:, None, :], axis=2)
    axes = axes * np.sqrt(excess / (1 + 2 * eta))[:, None, :]
    out = np.zeros((1 + leading.shape[1], n_queries, n_features + 2))
    out[0, :, :-2] = -2 * least[:, None] * queries
    out[0, :, -2] = (least - loss) * norms
    out[0, :, -1] = least - loss
    out[1:, :, :-2] = axes.transpose(2, 0, 1)
    out[1:, :, -2] = -np.einsum("qjr,qj->rq", axes, queries)
    # So far away that the bounds overflow float32: a bound of zero excludes nothing.
    out[:, ~(a.max(axis=1) * norms < 1e30)] = 0.0
    return out.astype(np.float32)

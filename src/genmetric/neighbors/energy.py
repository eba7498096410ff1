r"""EnergyClassifier, and the energies of a sample in every class; all distances are squared.

For k target neighbours j, margins m and :math:`m_2` and a weight :math:`\mu` of the push,

.. math:: E(x, c) = (1-\mu) \sum_{j \to x} d(x,j)
          + \mu \Big[\sum_{j \to x} \sum_{l \notin c} \big(m_2 + d(x,j) - d(x,l)\big)_+
          + \sum_{i \notin c} \sum_{j \to i} \big(m + d(i,j) - d(i,x)\big)_+\Big] ,

with :math:`j \to x` the k samples of class c nearest to x and :math:`j \to i` the k samples of i's
own class nearest to i. Both push terms are sums of hinges over the same block of squared distances
between queries and training samples. The third involves few entries of it; the second, for all
classes at once, is read from the sorted distances. A class with fewer than k samples uses all of
them, with weights that add up to k, so sums are comparable between classes.

A prediction needs the energy of one class and lower bounds of the others. The class of the nearest
sample is the candidate. Let L be the margin :math:`m_2` plus the distance of its k-th sample. Its
energy depends only on the distances below L and on those below the threshold of their training
sample: a few hundred. If n of the samples outside a class c are at most L away, the sum of their
distances is S and the nearest sample of class c is at :math:`d_1(c)`, then

.. math:: E(x, c) \ge (1-\mu)\, k\, d_1(c)
          + \mu \Big[k \big(n (m_2 + d_1(c)) - S\big)_+ + \text{third term}\Big],

since hinges are never negative and no neighbour in c is nearer. This holds for every :math:`m_2`,
and without the second term for the form that omits it. All energies are computed for the few
queries that these bounds do not decide.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin

from genmetric._neighbors import check_n_neighbors, fit_metric, metric_space, refuse_distant
from genmetric._parallel import map_chunks, row_chunks
from genmetric._typing import AnyArray, ArrayLike, BoolArray, FloatArray, IntArray
from genmetric._validation import (
    HasMethods,
    Interval,
    ParameterRules,
    check_parameters,
    labelled_rows,
    query_rows,
)
from genmetric.density import Coordinates

#: The margin of the second term as a multiple of the margin m; None leaves the second term out.
SECOND_MARGIN: dict[str, float | None] = {"one-sided": 0.0, "three-term": 1.0, "two-term": None}


class EnergyClassifier(ClassifierMixin, BaseEstimator):
    r"""Classifier that predicts the class of lowest energy, in any metric.

    With all distances d squared, the energy of a sample x in class c is by default

    .. math:: E(x, c) = \sum_{j \to x} d(x,j) - \sum_{l \to x} d(x,l) ,

    where :math:`j \to x` are the k training samples of class c nearest to x and :math:`l \to x` the
    k nearest samples of all other classes. The other forms are the contribution of x to the loss of
    LMNN if it had class c. With margins m and :math:`m_2`, and the weight :math:`\mu` of the terms
    that penalise samples of other classes (the push terms),

    .. math:: E(x, c) = (1-\mu) \sum_{j \to x} d(x,j)
              + \mu \Big[\sum_{j \to x} \sum_{l \notin c} \big(m_2 + d(x,j) - d(x,l)\big)_+
              + \sum_{i \notin c} \sum_{j \to i} \big(m + d(i,j) - d(i,x)\big)_+\Big] ,

    where :math:`j \to i` are the k samples of its own class nearest to the training sample i. The
    first term is the distance to the class. The second is large if samples of other classes are
    nearer to x than these. The third is large if x is nearer to samples of other classes than their
    own neighbours are.

    Parameters
    ----------
    metric : transformer, default=None
        Maps samples to a space where distances are Euclidean: any scikit-learn transformer, such as
        :class:`~genmetric.GenerativeMetric`, cloned and fitted in `fit`. ``None`` uses Euclidean
        distance. Wrap a fitted transformer in :class:`sklearn.frozen.FrozenEstimator` to use it
        without refitting.
    n_neighbors : int, default=3
        Number k of target neighbours, at most the number of training samples. Larger values smooth
        the decision. A class with fewer than k samples uses all of them, with weights that add up
        to k; the same holds for a training sample with fewer than k others in its class. The only
        sample of a class has no targets and adds nothing to the third term.
    margin : "auto" or float, default="auto"
        Margin m, a squared distance in the learned space. Larger values include more samples
        in the push terms and take longer. ``"auto"`` is `margin_scale` times :math:`\gamma_0`, the
        absolute median over the training samples of the squared distance to the nearest sample of
        another class minus that to the nearest sample of the same class.
    margin_scale : float, default=0.1
        Factor of the automatic margin; ignored if `margin` is a number. Larger values include more
        samples in the push terms and take longer. Tune it: the best values were between 0.3 and 0.7
        on large datasets with many classes, and 0.1 on small ones.
    push : float, default=0.5
        Weight :math:`\mu` of the two push terms, in [0, 1]. Smaller values rely more on the
        distances to the class, larger values more on the samples of other classes within the
        margin.
    energy : {"difference", "one-sided", "three-term", "two-term"}, default="difference"
        Form of the energy. ``"difference"`` is the sum of the squared distances to the k nearest
        samples of the class minus the sum to the k nearest samples of all others; it does not use
        `margin`, `margin_scale` and `push`. On 14 datasets its error with k = 3 was 0.94 times that
        of a 3-NN majority vote on average, and never more than 1.05 times. ``"one-sided"`` is the
        formula with :math:`m_2 = 0`, as in the code released with Weinberger and Saul (2009): the
        best form on large datasets with many classes, and worse than votes on some datasets with
        two classes. ``"three-term"`` is the published formula, :math:`m_2 = m`. ``"two-term"``
        leaves the second term out.
    n_jobs : int, default=None
        Number of threads; ``None`` is one, -1 uses all cores. The result is the same, bit for bit,
        for every number.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    metric_estimator_ : transformer or None
        The fitted transformer.
    metric_ : ndarray of shape (n_features, n_features)
        The matrix M of the squared distance (x-x')ᵀM(x-x'). Defined only if `metric` is None, which
        is the identity, or has the method ``get_mahalanobis_matrix``;
        :mod:`genmetric.inspection` finds the linear map of other transformers.
    margin_ : float
        The margin m. Defined only for energies with a margin.
    n_samples_fit_ : int
        Number of training samples.
    n_features_in_ : int
        Number of features seen during fit.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of features seen during fit. Defined only when X has feature names that are all
        strings.

    See Also
    --------
    LocalMetricClassifier : Votes of neighbours in the local metric of each query.
    sklearn.neighbors.KNeighborsClassifier : Votes of neighbours in one metric.

    Notes
    -----
    `predict` computes an energy only if a lower bound of it does not exclude the class;
    `decision_function` and `predict_proba` need every energy and take longer. The energy-based
    classification is described in appendix C of the paper.

    References
    ----------
    K. Q. Weinberger and L. K. Saul, Distance metric learning for large margin nearest neighbor
    classification, Journal of Machine Learning Research 10 (2009).

    Y. Shi, Y.-K. Noh, F. Sha and D. D. Lee, Learning Discriminative Metrics via Generative Models
    and Kernel Learning, arXiv:1109.3940v1 (2011).

    Examples
    --------
    >>> from genmetric import GenerativeMetric
    >>> from genmetric.neighbors import EnergyClassifier
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import cross_val_score
    >>> X, y = load_wine(return_X_y=True)
    >>> plain = cross_val_score(EnergyClassifier(), X, y).mean()
    >>> learned = cross_val_score(EnergyClassifier(GenerativeMetric(shrinkage=None)), X, y).mean()
    >>> bool(learned > plain + 0.2)
    True
    """

    _parameter_rules: ClassVar[ParameterRules] = {
        "metric": [None, HasMethods(("fit", "transform"))],
        "n_neighbors": [Interval(int, 1)],
        "margin": ["auto", Interval(float, 0)],
        "margin_scale": [Interval(float, 0)],
        "push": [Interval(float, 0, 1)],
        "energy": ["difference", *SECOND_MARGIN],
    }

    def __init__(
        self,
        metric: Any = None,
        *,
        n_neighbors: int = 3,
        margin: Any = "auto",
        margin_scale: float = 0.1,
        push: float = 0.5,
        energy: Any = "difference",
        n_jobs: int | None = None,
    ) -> None:
        self.metric = metric
        self.n_neighbors = n_neighbors
        self.margin = margin
        self.margin_scale = margin_scale
        self.push = push
        self.energy = energy
        self.n_jobs = n_jobs

    def fit(self, X: ArrayLike, y: ArrayLike) -> EnergyClassifier:
        """Fit the metric, then find the target neighbours and the margin.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples.
        y : array-like of shape (n_samples,)
            Class labels.

        Returns
        -------
        self : EnergyClassifier
            The fitted classifier.
        """
        check_parameters(self)
        x, labels, self.classes_, codes = labelled_rows(self, X, y, ensure_min_samples=2)
        check_n_neighbors(self.n_neighbors, len(x))
        self.metric_estimator_ = fit_metric(self.metric, X, x, labels)
        self.n_samples_fit_ = len(x)
        z = metric_space(self.metric_estimator_, X, x)
        model = EnergyModel.of(z, codes, int(self.n_neighbors), self.energy, self.n_jobs)
        automatic = isinstance(self.margin, str)
        margin = float(self.margin_scale * model.margin_unit if automatic else self.margin)
        self._model = replace(model, margin=margin, push=float(self.push))
        for name in ("margin_", "metric_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        if self.energy != "difference":
            self.margin_ = margin
        if self.metric_estimator_ is None:
            self.metric_ = np.eye(x.shape[1])
        elif hasattr(self.metric_estimator_, "get_mahalanobis_matrix"):
            self.metric_ = np.asarray(self.metric_estimator_.get_mahalanobis_matrix())
        return self

    def _space(self, X: Any) -> AnyArray:
        """Validate queries and map them to the learned space."""
        x = query_rows(self, X)
        return metric_space(self.metric_estimator_, X, x)

    def _energies(self, X: Any) -> FloatArray:
        """Return the energy of each sample in each class."""
        z = self._space(X)
        return energies(self._model, z, n_jobs=self.n_jobs)

    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Return minus the energy of each sample in each class.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_queries, n_classes) or (n_queries,)
            Larger values are more likely classes, in squared units of the learned space. With
            two classes one number per sample, as in scikit-learn: the energy in ``classes_[0]``
            minus the energy in ``classes_[1]``, positive if the second class is predicted.
        """
        found = self._energies(X)
        return np.asarray(found[:, 0] - found[:, 1] if found.shape[1] == 2 else -found)

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        r"""Return the softmax of minus the energies: :math:`e^{-E(x,c)} / \sum_{c'} e^{-E(x,c')}`.

        The order of the classes is that of the energies. The values are not calibrated: they
        depend on the unit of the metric, and approach 0 and 1 if it is small. Use
        :class:`sklearn.calibration.CalibratedClassifierCV` for calibrated probabilities.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_queries, n_classes)
            Rows sum to one; columns are in the order of `classes_`.
        """
        with np.errstate(under="ignore"):
            return np.asarray(softmax(-self._energies(X), axis=1))

    def predict(self, X: ArrayLike) -> AnyArray:
        """Predict the class with the lowest energy; ties go to the first class in `classes_`.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_queries,)
            Class labels.
        """
        z = self._space(X)
        return np.asarray(self.classes_[least_energies(self._model, z, n_jobs=self.n_jobs)])


@dataclass(frozen=True)
class EnergyModel:
    """Training samples and parameters that determine the energies of new samples.

    Use :meth:`of` to build one, and :func:`dataclasses.replace` for other parameters with the same
    samples: any `n_neighbors` up to the number of targets, any `margin`, `push` and `energy`. A
    model that was built for "difference" has no targets, and no other form.

    Attributes
    ----------
    coordinates : Coordinates
        Centre and scale of the samples. The other attributes, but the margin, are in these units.
    columns : ndarray of shape (n_features + 2, n_samples)
        Samples as columns, sorted by class, with a one and the squared norm below them.
    codes : ndarray of shape (n_samples,)
        Class of each column, ascending.
    counts : ndarray of shape (n_classes,)
        Number of samples of each class.
    n_neighbors : int
        Number k of neighbours in each sum.
    energy : {"difference", "one-sided", "three-term", "two-term"}
        Form of the energy.
    targets : ndarray of shape (n_samples, k) or None
        Squared distances to the nearest other samples of the same class, infinite for missing ones;
        None for the difference of distances.
    margin_unit : float
        The unit of the margin (appendix C of the paper): the absolute median over the samples of
        the squared distance to the nearest sample of another class minus that to the nearest of
        the same class. In units of the input, like `margin`.
    margin : float
        The margin m.
    push : float
        Weight of the two push terms, in [0, 1].
    """

    coordinates: Coordinates
    columns: FloatArray
    codes: IntArray
    counts: IntArray
    n_neighbors: int
    energy: str
    targets: FloatArray | None = None
    margin_unit: float = 0.0
    margin: float = 0.0
    push: float = 0.5

    @classmethod
    def of(
        cls, Z: AnyArray, codes: IntArray, n_neighbors: int, energy: str, n_jobs: int | None = None
    ) -> EnergyModel:
        """Sort samples by class; find their targets and the margin if the energy needs them."""
        coordinates, order = Coordinates.of(Z), np.argsort(codes, kind="stable")
        z, codes, counts = coordinates.apply(Z[order]), codes[order], np.bincount(codes)
        columns = np.vstack([z.T, np.ones(len(z)), np.einsum("ij,ij->i", z, z)])
        if energy == "difference":
            return cls(coordinates, columns, codes, counts, n_neighbors, energy)
        targets, nearest_other = target_distances(
            columns, class_slices(counts), n_neighbors, n_jobs
        )
        known = np.isfinite(targets[:, 0])  # samples that are not the only one of their class
        gap = np.median(nearest_other[known] - targets[known, 0]) if known.any() else 0.0
        unit = float(abs(gap)) * coordinates.scale**2
        return cls(coordinates, columns, codes, counts, n_neighbors, energy, targets, unit)

    @property
    def classes(self) -> list[slice]:
        """Columns of each class."""
        return class_slices(self.counts)

    @property
    def inner_margin(self) -> float:
        """The margin in the units of the columns, limited so sums of hinges stay finite."""
        return min(self.margin / self.coordinates.scale**2, 1e150)

    @property
    def second_margin(self) -> float | None:
        """The margin of the second term; None leaves the term out."""
        factor = SECOND_MARGIN[self.energy]
        return None if factor is None else factor * self.inner_margin

    @property
    def thresholds(self) -> FloatArray:
        """Margin plus distance to each target, (k, n_samples); minus infinity for missing ones."""
        assert self.targets is not None
        return add_margin(self.targets[:, : self.n_neighbors].T, self.inner_margin)

    @property
    def neighbor_weights(self) -> FloatArray:
        """Weight of a neighbour in each class, which has fewer than k samples if it exceeds one."""
        return np.asarray(self.n_neighbors / np.minimum(self.counts, self.n_neighbors))

    @property
    def target_weights(self) -> FloatArray:
        """Weight of a target of a sample of each class."""
        return np.asarray(self.n_neighbors / np.clip(self.counts - 1, 1, self.n_neighbors))

    def queries(self, Z: AnyArray) -> FloatArray:
        """Return queries in the coordinates of the columns; raise if they are too far away."""
        z = self.coordinates.apply(Z)
        refuse_distant(z, 1e15)
        return z


def class_slices(counts: IntArray) -> list[slice]:
    """Return the range of each class among samples sorted by class."""
    return [slice(a, b) for a, b in pairwise([0, *np.cumsum(counts).tolist()])]


def add_margin(squared: FloatArray, margin: float) -> FloatArray:
    """Return the thresholds m + d; minus infinity for missing neighbours, whose d is infinite."""
    return np.where(np.isfinite(squared), squared + margin, -np.inf)


def squared_distances(queries: FloatArray, columns: FloatArray) -> FloatArray:
    """Compute |x|² - 2 x·x' + |x'|² as one product: adding the norms takes as long again."""
    left = np.ones((len(queries), queries.shape[1] + 2))
    np.multiply(queries, -2.0, out=left[:, :-2])
    np.einsum("ij,ij->i", queries, queries, out=left[:, -2])
    d = left @ columns
    return np.asarray(np.maximum(d, 0.0, out=d))


def least_sorted(distances: FloatArray, k: int) -> FloatArray:
    """Return the k smallest entries of each row, ascending; infinite where a row has fewer."""
    out = np.full((len(distances), k), np.inf)
    if k < distances.shape[1]:
        distances = np.partition(distances, k - 1, axis=1)[:, :k]
    out[:, : distances.shape[1]] = np.sort(distances, axis=1)
    return out


def target_distances(
    columns: FloatArray, classes: list[slice], k: int, n_jobs: int | None
) -> tuple[FloatArray, FloatArray]:
    """Find the squared distances of samples to their targets, and to the nearest others.

    Targets are the k nearest samples of the same class, others are of another class.
    """

    def of_chunk(place: tuple[slice, slice]) -> tuple[FloatArray, FloatArray]:
        rows, own = place
        d = squared_distances(columns[:-2, rows].T, columns)
        np.fill_diagonal(d[:, rows], np.inf)
        targets = least_sorted(d[:, own], k)
        d[:, own] = np.inf
        return targets, d.min(axis=1)

    chunks = [
        (slice(own.start + rows.start, own.start + rows.stop), own)
        for own in classes
        for rows in row_chunks(own.stop - own.start, 16 * columns.shape[1], max_rows=256)
    ]
    parts = map_chunks(of_chunk, chunks, n_jobs)
    targets, nearest_other = (np.concatenate(part) for part in zip(*parts, strict=True))
    return targets, nearest_other


def energies(model: EnergyModel, Z: AnyArray, *, n_jobs: int | None = None) -> FloatArray:
    """Compute the energies of samples in every class, (n_samples, n_classes)."""
    queries = model.queries(Z)

    def of_chunk(chunk: slice) -> FloatArray:
        d = squared_distances(queries[chunk], model.columns)
        nearest = np.stack([least_sorted(d[:, c], model.n_neighbors) for c in model.classes], 1)
        if model.energy == "difference":
            return _difference_energies(model, nearest)
        return _margin_energies(model, d, nearest)

    bytes_per_row = 13 * len(model.codes) + 24 * int(model.counts.max())
    bytes_per_row += 64 * len(model.counts) * model.n_neighbors
    chunks = row_chunks(len(queries), bytes_per_row, max_rows=256)
    found = np.concatenate(list(map_chunks(of_chunk, chunks, n_jobs)))
    return np.asarray(found * model.coordinates.scale**2)


def _margin_energies(model: EnergyModel, distances: FloatArray, nearest: FloatArray) -> FloatArray:
    """Compute the energies of a chunk of queries; `distances` are sorted in place."""
    pull, thresholds = finite_sum(nearest) * model.neighbor_weights, model.thresholds
    by_class = [_hinges(distances[:, c], thresholds[:, None, c]) for c in model.classes]
    third = outside(np.stack(by_class, 1) * model.target_weights)
    energy = (1 - model.push) * pull + model.push * third
    if model.second_margin is not None:
        second = _second_term(model, distances, add_margin(nearest, model.second_margin))
        energy += model.push * second
    return energy


def _second_term(model: EnergyModel, distances: FloatArray, thresholds: FloatArray) -> FloatArray:
    """Sum the hinges of the samples outside each class, for thresholds (n_queries, n_classes, k).

    With n(t) distances below t and S(t) their sum, the sum of (t - d)₊ over all samples is
    t·n(t) - S(t), read from the sorted distances; that over the samples of the class is subtracted.
    """
    own = [
        _hinges(distances[:, c], thresholds[:, i].T[:, :, None])
        for i, c in enumerate(model.classes)
    ]
    distances.sort(axis=1)
    n_below, sum_below = np.empty(thresholds.shape, np.intp), np.empty(thresholds.shape)
    prefix = np.zeros(len(model.codes) + 1)
    for row, t, n, total in zip(distances, thresholds, n_below, sum_below, strict=True):
        n[...] = row.searchsorted(t)
        last = n.max()
        row[:last].cumsum(out=prefix[1 : last + 1])
        total[...] = prefix[n]
    hinges = np.where(n_below > 0, thresholds, 0.0) * n_below - sum_below
    second = np.maximum(hinges.sum(axis=2) - np.stack(own, 1), 0.0)
    return np.asarray(second * model.neighbor_weights)


def _hinges(distances: FloatArray, thresholds: FloatArray) -> FloatArray:
    """Sum (t - d)₊ over the columns of a block and over k thresholds, (k, n_queries, n_columns)."""
    inside = distances < thresholds.max(axis=0)
    if np.count_nonzero(inside) > 0.05 * inside.size:
        return np.asarray(sum(np.maximum(t - distances, 0.0).sum(axis=1) for t in thresholds))
    query, column = np.divmod(np.flatnonzero(inside), distances.shape[1])
    t = np.broadcast_to(thresholds, (len(thresholds), *distances.shape))[:, query, column]
    hinge = np.maximum(t - distances[query, column], 0.0).sum(axis=0)
    return np.asarray(np.bincount(query, hinge, minlength=len(distances)), float)


def finite_sum(nearest: FloatArray) -> FloatArray:
    """Sum distances over the last axis, without the infinite ones of missing neighbours."""
    return np.asarray(np.where(np.isfinite(nearest), nearest, 0.0).sum(axis=-1))


def outside(by_class: FloatArray) -> FloatArray:
    """Turn sums over the samples of each class into sums over the samples of all others."""
    return np.asarray(np.maximum(by_class.sum(axis=1, keepdims=True) - by_class, 0.0))


def _difference_energies(model: EnergyModel, nearest: FloatArray) -> FloatArray:
    """Subtract the sum to the k nearest samples outside of each class from that to those inside."""
    k = model.n_neighbors
    inside = finite_sum(nearest) * model.neighbor_weights
    # At most k of the 2k nearest samples of all classes are of class c.
    flat = nearest.reshape(len(nearest), -1)
    first = np.argsort(flat, axis=1, kind="stable")[:, : 2 * k]
    d, code = np.take_along_axis(flat, first, axis=1), first // k
    other_sum = np.empty_like(inside)
    for c in range(len(model.counts)):
        other = (code != c) & np.isfinite(d)
        other &= np.cumsum(other, axis=1) <= k
        other_sum[:, c] = np.where(other, d, 0.0).sum(axis=1)
    weights = k / np.minimum(len(model.codes) - model.counts, k)
    return np.asarray(inside - other_sum * weights)


def least_energies(model: EnergyModel, Z: AnyArray, *, n_jobs: int | None = None) -> IntArray:
    """Find the first class of lowest energy of each sample, (n_samples,)."""
    if model.energy == "difference":
        return np.asarray(energies(model, Z, n_jobs=n_jobs).argmin(axis=1))
    queries = model.queries(Z)
    bytes_per_row = int((10 + 56 * _CROWDED) * len(model.codes)) + 128 * len(model.counts)
    chunks = row_chunks(len(queries), bytes_per_row, max_rows=128)
    parts = map_chunks(lambda chunk: _decide_by_bounds(model, queries[chunk]), chunks, n_jobs)
    best, undecided = (np.concatenate(part) for part in zip(*parts, strict=True))
    if undecided.any():
        best[undecided] = energies(model, Z[undecided], n_jobs=n_jobs).argmin(axis=1)
    return best


#: Beyond this fraction of distances that the bounds need, computing all energies is faster.
_CROWDED = 0.15


def _decide_by_bounds(model: EnergyModel, queries: FloatArray) -> tuple[IntArray, BoolArray]:
    """Find the class of the nearest sample, and whether another class may have a lower energy."""
    k, push, m2, classes = model.n_neighbors, model.push, model.second_margin, model.classes
    d, thresholds = squared_distances(queries, model.columns), model.thresholds
    least = np.stack([d[:, c].min(axis=1) for c in classes], axis=1)
    every, leader = np.arange(len(least)), least.argmin(axis=1)
    nearest = np.empty((len(queries), k))  # of the leading class
    for c in np.unique(leader):
        rows = np.flatnonzero(leader == c)
        nearest[rows] = least_sorted(d[rows, classes[c]], k)
    limit = np.where(np.isfinite(nearest), nearest, 0.0).max(axis=1)
    limit += -np.inf if m2 is None else m2
    needed = d < thresholds.max(axis=0)
    needed |= d <= limit[:, None]
    if np.count_nonzero(needed) > len(d) * max(_CROWDED * d.shape[1], 8 * k):
        return leader, np.ones(len(queries), bool)
    flat = np.flatnonzero(needed)
    query, column = np.divmod(flat, d.shape[1])
    d, code = d.ravel()[flat], model.codes[column]

    hinges = sum(np.maximum(t[column] - d, 0.0) for t in thresholds)
    third = outside(_by_class(query, code, hinges, least.shape) * model.target_weights)
    bound = (1 - push) * k * least + push * third
    energy = (1 - push) * finite_sum(nearest)
    if m2 is not None:
        near = np.flatnonzero(d <= limit[query])
        query, code, d = query[near], code[near], d[near]
        n_others = outside(_by_class(query, code, np.ones(len(d)), least.shape))
        sum_others = outside(_by_class(query, code, d, least.shape))
        bound += push * k * np.maximum(n_others * (m2 + least) - sum_others, 0.0)
        other = np.flatnonzero(code != leader[query])
        query, d = query[other], d[other]
        hinges = sum(np.maximum(t[query] - d, 0.0) for t in add_margin(nearest, m2).T)
        energy += push * np.bincount(query, hinges, minlength=len(least))
    energy = model.neighbor_weights[leader] * energy + push * third[every, leader]
    bound[every, leader] = np.inf
    # With a tolerance, because both sides are rounded.
    return leader, bound.min(axis=1) * (1 - 1e-9) <= energy


def _by_class(
    query: IntArray, code: IntArray, values: FloatArray, shape: tuple[int, ...]
) -> FloatArray:
    """Sum the values of each query and class, (n_queries, n_classes)."""
    sums = np.bincount(query * shape[1] + code, values, minlength=shape[0] * shape[1])
    return np.asarray(sums.reshape(shape))

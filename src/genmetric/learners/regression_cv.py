"""GenerativeRegressionMetricCV: a metric for numeric targets selected by cross-validation."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import groupby, product
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.metrics import check_scoring
from sklearn.model_selection import KFold, check_cv
from sklearn.neighbors import KNeighborsRegressor
from sklearn.utils import check_random_state

from genmetric._neighbors import N_NEIGHBORS, average_errors, nearest_neighbors
from genmetric._parallel import one_blas_thread
from genmetric._typing import AnyArray, ArrayLike, FloatArray, IntArray
from genmetric._validation import (
    CALLABLE,
    RANDOM_STATE,
    HasMethods,
    InstanceOf,
    Interval,
    ParameterRules,
    check_parameters,
    check_weights,
    form_points,
    numeric_targets,
)
from genmetric.learners.generative_cv import (
    grid_values,
    neighbor_numbers,
    reduced_factor,
    results_table,
    shared_parameters,
)
from genmetric.learners.mahalanobis import LinearMapMixin, MahalanobisMixin
from genmetric.learners.regression import GenerativeRegressionMetric, check_varying


class GenerativeRegressionMetricCV(LinearMapMixin, MahalanobisMixin, BaseEstimator):
    """A :class:`GenerativeRegressionMetric` selected by the error of nearest neighbours.

    The candidates are all combinations of the grids; ``interpolation=0`` adds Euclidean distance
    and the pooled base. Each is fitted on the training part of every split, and the left-out
    targets are predicted by the mean of their k nearest neighbours there. Of the candidates
    whose score is within one standard error of the best, the one closest to the defaults of
    :class:`GenerativeRegressionMetric` is fitted on all samples. (Unlike the candidates of
    :class:`GenerativeMetricCV` they are not averaged: that has a larger error.)

    Parameters
    ----------
    metric : GenerativeRegressionMetric, default=None
        Metric whose other parameters all candidates share; ``None`` is
        ``GenerativeRegressionMetric()``.
    methods : str or list of str, default=("combined", "kernel", "slices")
        Local metrics to select from, see `method` of :class:`GenerativeRegressionMetric`.
    n_slices : None, int or list, default=(None, 3)
        Numbers of slices; ``None`` is the default number. They have no effect for
        ``method="kernel"``.
    bases : str or list of str, default=("identity", "pooled")
        Base metrics.
    interpolations : float or list of float, default=(0.0, 0.5, 0.8, 1.0)
        Weights of the learned metric; 0 is the base itself.
    n_neighbors : int or list of int, default=(1, 3, 5, 7, 9, 11, 15, 21)
        Numbers of neighbours k; those that exceed the number of samples are ignored.
    cv : int, scikit-learn splitter or iterable, default=5
        Number of folds, at least 2, or splits. More folds take longer and fit the candidates on
        more samples.
    scoring : str or callable, default=None
        Scorer of scikit-learn, called with a fitted
        :class:`~sklearn.neighbors.KNeighborsRegressor` for each k; ``None`` is R².
    random_state : int, RandomState instance or None, default=None
        Seed of the folds, and of `metric` if it has no `random_state`.

    Attributes
    ----------
    best_params_ : dict
        Selected `method`, `n_slices`, `base`, `interpolation` and `n_neighbors`.
    best_score_ : float
        Mean score of the selected candidate with the selected k; optimistic, as the best of many.
    best_index_ : int
        Index of the selected candidate in the arrays of `cv_results_`.
    best_estimator_ : GenerativeRegressionMetric
        The selected metric, fitted on all samples.
    cv_results_ : dict of ndarrays
        One entry per candidate: `params`, `param_method`, ..., `split0_test_score`, ... (mean over
        k), `mean_test_score`, `std_test_score`, `rank_test_score` and `within_one_standard_error`
        (whether the candidate counts as equally good as the best).
    components_, metric_, metric_stderr_, slice_edges_
        Attributes of `best_estimator_`.
    n_features_in_ : int
        Number of features seen during fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of features seen during fit. Defined only when X has feature names that are all
        strings.

    See Also
    --------
    GenerativeRegressionMetric : The metric with fixed parameters.
    GenerativeMetricCV : An average of candidates, for class labels.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from genmetric import GenerativeRegressionMetricCV
    >>> X, y = make_friedman1(300, random_state=0)
    >>> metric = GenerativeRegressionMetricCV(random_state=0).fit(X, y)
    >>> bool(metric.best_params_["interpolation"] > 0)
    True
    """

    _parameter_rules: ClassVar[ParameterRules] = {
        "metric": [
            None,
            InstanceOf(GenerativeRegressionMetric, "a GenerativeRegressionMetric"),
        ],
        "cv": [Interval(int, 2), HasMethods(("split",)), HasMethods(("__iter__",))],
        "scoring": [None, InstanceOf(str, "the name of a scorer"), CALLABLE],
        "random_state": RANDOM_STATE,
    }

    def __init__(
        self,
        metric: GenerativeRegressionMetric | None = None,
        *,
        methods: Any = ("combined", "kernel", "slices"),
        n_slices: Any = (None, 3),
        bases: Any = ("identity", "pooled"),
        interpolations: Any = (0.0, 0.5, 0.8, 1.0),
        n_neighbors: Any = N_NEIGHBORS,
        cv: Any = 5,
        scoring: Any = None,
        random_state: Any = None,
    ) -> None:
        self.metric = metric
        self.methods = methods
        self.n_slices = n_slices
        self.bases = bases
        self.interpolations = interpolations
        self.n_neighbors = n_neighbors
        self.cv = cv
        self.scoring = scoring
        self.random_state = random_state

    @property
    def preprocessor(self) -> Any:
        """Preprocessor of `metric`."""
        return None if self.metric is None else self.metric.preprocessor

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> GenerativeRegressionMetricCV:
        """Select the parameters, and fit the selected metric on all samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples.
        y : array-like of shape (n_samples,)
            Numeric targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Frequency weights: weight 2 equals repeating the sample. Weights that are not integers
            count in the metrics and in the scores; in a mean of neighbours each counts once.

        Returns
        -------
        self : GenerativeRegressionMetricCV
            The fitted estimator.
        """
        check_parameters(self)
        rng = check_random_state(self.random_state)
        metric = self.metric or GenerativeRegressionMetric()
        template = shared_parameters(metric, self.random_state, rng)
        x, targets = numeric_targets(self, form_points(X, self.preprocessor, self), y)
        weight = np.ones(len(x))
        if sample_weight is not None:
            weight = check_weights(sample_weight, len(x))
        check_varying(targets[weight > 0], type(self).__name__)
        grid = self._grid()
        splits, weight = self._splits(x, targets, weight, rng)
        k = neighbor_numbers(self.n_neighbors, min(len(train) for train, _ in splits))
        scores = np.empty((len(grid), len(splits), len(k)))
        paired: list[list[FloatArray]] = [[] for _ in grid]
        with one_blas_thread(), warnings.catch_warnings():
            # The final fit emits the warnings, once.
            warnings.simplefilter("ignore", UserWarning)
            for s, (train, test) in enumerate(splits):
                factors = _candidate_factors(
                    template, grid, x[train], targets[train], weight[train]
                )
                for c, factor in enumerate(factors):
                    z = x @ factor.T
                    scores[c, s], each = self._score(z, targets, weight, train, test, k)
                    paired[c].append(each)
        self.cv_results_ = results_table(grid, scores.mean(axis=2))
        self._select(grid, np.array([np.concatenate(parts) for parts in paired]))
        by_number = scores[self.best_index_].mean(axis=0)
        self.best_score_ = float(by_number.max())
        best = grid[self.best_index_]
        self.best_params_ = {**best, "n_neighbors": int(k[by_number.argmax()])}
        self.best_estimator_ = clone(template).set_params(**best).fit(X, y, sample_weight)
        self.components_ = self.best_estimator_.components_
        self.metric_ = self.best_estimator_.metric_
        self.metric_stderr_ = self.best_estimator_.metric_stderr_
        self.slice_edges_ = self.best_estimator_.slice_edges_
        return self

    def _grid(self) -> list[dict[str, Any]]:
        """Return the parameters of the candidates; those with one average are neighbours."""
        rules = GenerativeRegressionMetric._parameter_rules
        methods = grid_values(self.methods, "methods", rules["method"])
        slices = grid_values(self.n_slices, "n_slices", rules["n_slices"])
        bases = grid_values(self.bases, "bases", rules["base"])
        amounts = grid_values(self.interpolations, "interpolations", rules["interpolation"])
        learned = [float(value) for value in amounts if value > 0]
        found: list[tuple[Any, ...]] = []
        if 0 in amounts:
            found += list(product(methods[:1], slices[:1], bases, [0.0]))
        for base, method in product(bases, methods):
            numbers = slices[:1] if method == "kernel" else slices
            found += list(product([method], numbers, [base], learned))
        names = ("method", "n_slices", "base", "interpolation")
        return [dict(zip(names, values, strict=True)) for values in found]

    def _splits(
        self, x: AnyArray, targets: FloatArray, weight: FloatArray, rng: np.random.RandomState
    ) -> tuple[list[tuple[IntArray, IntArray]], FloatArray]:
        """Return training and test indices of samples with a positive weight, and weights.

        Whole weights become repeated indices, among the neighbours too.
        """
        kept = np.flatnonzero(weight)
        if isinstance(self.cv, int | np.integer):
            folds = KFold(min(int(self.cv), len(kept)), shuffle=True, random_state=rng)
            pairs = [(kept[train], kept[test]) for train, test in folds.split(kept)]
        else:
            # The indices of given splits refer to all samples.
            given = check_cv(self.cv, targets).split(x, targets)
            pairs = [(np.intersect1d(a, kept), np.intersect1d(b, kept)) for a, b in given]
        if (weight == np.floor(weight)).all():
            counts = weight.astype(np.intp)
            pairs = [(np.repeat(a, counts[a]), np.repeat(b, counts[b])) for a, b in pairs]
            weight = np.ones(len(x))
        return pairs, weight

    def _score(
        self,
        z: FloatArray,
        targets: FloatArray,
        weight: FloatArray,
        train: IntArray,
        test: IntArray,
        k: IntArray,
    ) -> tuple[FloatArray, FloatArray]:
        """Return the score for each k, and scores of the test samples to compare candidates by."""
        if self.scoring is not None:
            values = []
            for number in k:
                model = KNeighborsRegressor(int(number)).fit(z[train], targets[train])
                values.append(check_scoring(model, self.scoring)(model, z[test], targets[test]))
            return np.array(values), np.array([np.mean(values)])
        found = nearest_neighbors(z[train], int(k.max()), queries=z[test]).indices
        errors = average_errors(targets[train][found], targets[test], k)
        center = np.average(targets[test], weights=weight[test])
        variance = np.average((targets[test] - center) ** 2, weights=weight[test]) or 1.0
        score = 1 - np.average(errors, axis=0, weights=weight[test]) / variance
        return score, -errors.mean(axis=1) * weight[test] / variance

    def _select(self, grid: list[dict[str, Any]], paired: FloatArray) -> None:
        """Select the simplest candidate within one standard error of the best.

        The standard error is that of the mean difference on the same samples, which varies less
        than the scores themselves.
        """
        means = self.cv_results_["mean_test_score"]
        n_scores = paired.shape[1]
        difference = paired[means.argmax()] - paired
        error = difference.std(axis=1, ddof=1) / np.sqrt(n_scores) if n_scores > 1 else 0.0
        close = means >= means.max() - error - 1e-12
        self.cv_results_["within_one_standard_error"] = close

        def departure(c: int) -> tuple[float, ...]:
            """Return how far a candidate is from the defaults, which are best on average."""
            p = grid[c]
            choices = (p["interpolation"] == 0, p["method"] != "combined", p["base"] != "pooled")
            return (*choices, p["n_slices"] is not None, 1 - p["interpolation"], -means[c])

        self.best_index_ = min(np.flatnonzero(close).tolist(), key=departure)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def _candidate_factors(
    template: GenerativeRegressionMetric,
    grid: list[dict[str, Any]],
    x: AnyArray,
    targets: FloatArray,
    weight: FloatArray,
) -> Iterator[FloatArray]:
    """Yield a factor of every candidate metric; interpolations of one metric share it.

    In the coordinates of the base M(lambda) = (1-lambda)·I + lambda·M, so in input space the base
    metric and the learned one are averaged.
    """
    own = None if (weight == 1).all() else weight
    covariance = np.cov(x.T, aweights=weight, bias=True).reshape(x.shape[1], -1)

    def fitted(**params: Any) -> FloatArray:
        metric = clone(template).set_params(**params, n_components=None, preprocessor=None)
        factor: FloatArray = metric.fit(x, targets, own).components_
        return factor

    for shared, members in groupby(grid, lambda p: (p["method"], p["n_slices"], p["base"])):
        method, n_slices, base = shared
        start = fitted(method="kernel", n_slices=n_slices, base=base, interpolation=0.0)
        learned: FloatArray | None = None
        for params in members:
            amount = params["interpolation"]
            if amount > 0 and learned is None:
                learned = fitted(method=method, n_slices=n_slices, base=base, interpolation=1.0)
            parts = [np.sqrt(1 - amount) * start]
            if learned is not None:
                parts.append(np.sqrt(amount) * learned)
            factor = np.linalg.qr(np.concatenate(parts))[1]
            yield reduced_factor(factor, template.n_components, covariance)

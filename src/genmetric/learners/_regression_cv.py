"""GenerativeRegressionMetricCV: a metric for numeric targets selected by cross-validation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.metrics import check_scoring
from sklearn.model_selection import KFold, check_cv
from sklearn.neighbors import KNeighborsRegressor
from sklearn.utils import check_random_state

from genmetric._averages import average_errors
from genmetric._chunks import one_blas_thread
from genmetric._parameters import (
    RANDOM_STATE,
    HasMethods,
    InstanceOf,
    Interval,
    ParameterRules,
    check_parameters,
)
from genmetric._rollback import restore_on_error
from genmetric._search import nearest_neighbors
from genmetric._typing import AnyArray, ArrayLike, FloatArray, IntArray
from genmetric._validation import check_weights, form_points, numeric_targets
from genmetric._votes import N_NEIGHBORS
from genmetric._warnings import suppress_warnings
from genmetric.learners._candidates import as_grid, results_table, select_candidate
from genmetric.learners._mahalanobis import LinearMapMixin, MahalanobisMixin
from genmetric.learners._regression import (
    RegressionMethod,
    RegressionSpecification,
    learn_regression_metric,
    regression_factor,
    regression_training,
)
from genmetric.learners._regression_metric import GenerativeRegressionMetric, check_distinct


@dataclass(frozen=True)
class RegressionCandidate:
    """Parameters of a :class:`GenerativeRegressionMetric` to compare with others.

    Attributes
    ----------
    method, n_slices, base, interpolation
        See :class:`GenerativeRegressionMetric`. With ``interpolation=0`` the metric is the base.
    """

    method: RegressionMethod
    n_slices: int | None
    base: Literal["identity", "pooled"]
    interpolation: float

    @property
    def params(self) -> dict[str, Any]:
        """Parameters by name."""
        return asdict(self)

    @property
    def preference(self) -> tuple[float, ...]:
        """Sort key: the preferred one of equally good candidates has the smallest.

        Preferred is what is best on average over datasets: a learned metric, the combination of
        both local metrics, the pooled base, no interpolation.
        """
        return (
            float(self.interpolation == 0),
            float(self.method != "combined"),
            float(self.base != "pooled"),
            float(self.n_slices is not None),
            1 - self.interpolation,
        )


class GenerativeRegressionMetricCV(LinearMapMixin, MahalanobisMixin, BaseEstimator):
    """A :class:`GenerativeRegressionMetric` selected by the error of nearest neighbours.

    The candidates are all combinations of the grids; ``interpolation=0`` adds Euclidean distance
    and the pooled base. Each is fitted on the training part of every split, and the left-out
    targets are predicted by the mean of their k nearest neighbours there. Of the candidates
    whose score is within one standard error of the best, the one closest to the defaults of
    :class:`GenerativeRegressionMetric` is fitted on all samples.

    Parameters
    ----------
    metric : GenerativeRegressionMetric, default=None
        Metric whose other parameters all candidates share; ``None`` is
        ``GenerativeRegressionMetric()``.
    methods : str or list of str, default=("combined", "kernel", "slices")
        Local metrics to select from, see `method` of :class:`GenerativeRegressionMetric`.
    n_slices : None, int or list, default=(None, 3)
        Numbers of slices to select from; ``None`` is the default number. They have no effect for
        ``method="kernel"``.
    bases : str or list of str, default=("identity", "pooled")
        Base metrics to select from.
    interpolations : float or list of float, default=(0.0, 0.5, 0.8, 1.0)
        Weights of the learned metric to select from; 0 is the base itself.
    n_neighbors : int or list of int, default=(1, 3, 5, 7, 9, 11, 15, 21)
        Numbers of neighbours k to select from; those that exceed the number of samples are ignored.
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
    GenerativeMetricCV : The same selection for class labels.

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

    @restore_on_error
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
        template = self._template()
        x, targets = numeric_targets(self, form_points(X, self.preprocessor, self), y)
        weight = np.ones(len(x))
        if sample_weight is not None:
            weight = check_weights(sample_weight, len(x))
        check_distinct(targets[weight > 0], type(self).__name__)
        spec = template._specification(x.shape[1])
        candidates = self._candidates()
        splits = self._splits(x, targets, weight)
        if (weight == weight.astype(np.intp)).all():
            # Whole frequencies: samples are repeated, among the neighbours too.
            counts = weight.astype(np.intp)
            splits = [(np.repeat(a, counts[a]), np.repeat(b, counts[b])) for a, b in splits]
            weight = np.ones(len(x))
        numbers = np.unique(as_grid(self.n_neighbors, "n_neighbors", [Interval(int, 1)]))
        k = numbers[numbers <= min(len(train) for train, _ in splits)]
        if not len(k):
            raise ValueError(
                f"n_neighbors={self.n_neighbors!r} is too large for {len(x)} samples. Use a "
                "smaller number."
            )
        scores = np.empty((len(candidates), len(splits), len(k)))
        paired: list[list[FloatArray]] = [[] for _ in candidates]
        # The final fit emits the warnings, once.
        with one_blas_thread(), suppress_warnings(UserWarning):
            for s, (train, test) in enumerate(splits):
                factors = candidate_factors(spec, candidates, x, targets, weight, train)
                for c, factor in enumerate(factors):
                    data = (x @ factor.T, targets, weight, train, test)
                    scores[c, s], each = self._score(data, np.asarray(k, np.intp))
                    paired[c].append(each)
        self._select(candidates, scores, np.array([np.concatenate(p) for p in paired]), k)
        best = template.set_params(**candidates[self.best_index_].params)
        self.best_estimator_ = best.fit(X, y, sample_weight)
        for name in ("components_", "metric_", "metric_stderr_", "slice_edges_"):
            setattr(self, name, getattr(best, name))
        return self

    def _template(self) -> GenerativeRegressionMetric:
        """Return the metric with all parameters that the candidates share."""
        template: GenerativeRegressionMetric = clone(
            GenerativeRegressionMetric() if self.metric is None else self.metric
        )
        if template.random_state is None:
            template.set_params(random_state=self.random_state)
        check_parameters(template)
        return template

    def _candidates(self) -> list[RegressionCandidate]:
        """Return the candidates of the grids; those of one average are next to each other."""
        rules = GenerativeRegressionMetric._parameter_rules
        methods = as_grid(self.methods, "methods", rules["method"])
        slices = as_grid(self.n_slices, "n_slices", rules["n_slices"])
        bases = as_grid(self.bases, "bases", rules["base"])
        interpolations = as_grid(self.interpolations, "interpolations", rules["interpolation"])
        found = []
        if 0 in interpolations:
            found += [RegressionCandidate(methods[0], slices[0], base, 0.0) for base in bases]
        for base, method in product(bases, methods):
            for number in slices[:1] if method == "kernel" else slices:
                found += [
                    RegressionCandidate(method, number, base, float(value))
                    for value in interpolations
                    if value > 0
                ]
        return found

    def _splits(
        self, x: AnyArray, targets: FloatArray, weight: FloatArray
    ) -> list[tuple[IntArray, IntArray]]:
        """Return training and test indices of samples with a positive weight."""
        kept = np.flatnonzero(weight > 0)
        if isinstance(self.cv, int | np.integer):
            seed = check_random_state(self.random_state)
            folds = KFold(min(int(self.cv), len(kept)), shuffle=True, random_state=seed)
            return [(kept[train], kept[test]) for train, test in folds.split(kept)]
        # The indices of given splits refer to all samples.
        pairs = check_cv(self.cv, targets).split(x, targets)
        return [(np.intersect1d(a, kept), np.intersect1d(b, kept)) for a, b in pairs]

    def _score(self, data: Any, k: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the score for each k, and the paired scores of the test samples."""
        z, targets, weight, train, test = data
        if self.scoring is not None:
            values = []
            for number in k:
                model = KNeighborsRegressor(int(number)).fit(z[train], targets[train])
                values.append(check_scoring(model, self.scoring)(model, z[test], targets[test]))
            return np.array(values), np.array([np.mean(values)])
        found = nearest_neighbors(z[train], int(k.max()), queries=z[test]).indices
        errors = average_errors(targets[train][found], targets[test], k)
        center = np.average(targets[test], weights=weight[test])
        variance = np.average((targets[test] - center) ** 2, weights=weight[test])
        variance = variance if variance > 0 else 1.0
        score = 1 - np.average(errors, axis=0, weights=weight[test]) / variance
        return score, -errors.mean(axis=1) * weight[test] / variance

    def _select(
        self,
        candidates: list[RegressionCandidate],
        scores: FloatArray,
        paired: FloatArray,
        k: AnyArray,
    ) -> None:
        """Set the results from scores of shape (n_candidates, n_splits, n_numbers)."""
        self.cv_results_ = results_table(candidates, scores.mean(axis=2), paired)
        self.best_index_ = select_candidate(candidates, self.cv_results_)
        by_number = scores[self.best_index_].mean(axis=0)
        place = int(by_number.argmax())
        self.best_score_ = float(by_number[place])
        self.best_params_ = {
            **candidates[self.best_index_].params,
            "n_neighbors": int(k[place]),
        }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def candidate_factors(
    spec: RegressionSpecification,
    candidates: list[RegressionCandidate],
    x: AnyArray,
    targets: FloatArray,
    weight: FloatArray,
    train: IntArray,
) -> Iterator[FloatArray]:
    """Yield the factor of every candidate; interpolations of one metric share its average.

    Parameters
    ----------
    spec : RegressionSpecification
        Parameters that all candidates share.
    candidates : list of RegressionCandidate
        The candidates.
    x : ndarray of shape (n_samples, n_features)
        Samples.
    targets, weight : ndarray of shape (n_samples,)
        Targets and frequencies.
    train : ndarray of int
        Training samples.

    Yields
    ------
    ndarray of shape (n_components, n_features)
        Factor of the metric.
    """
    last: Any = None
    own: FloatArray | None = weight[train]
    if own is not None and (own == 1).all():
        own = None
    for candidate in candidates:
        shared = (candidate.method, candidate.n_slices, candidate.base, candidate.interpolation > 0)
        if shared != last:
            one = replace(
                spec,
                method=candidate.method,
                n_slices=candidate.n_slices,
                base=candidate.base,
            )
            data = regression_training(one, x[train], targets[train], own)
            metric = np.eye(x.shape[1])
            if candidate.interpolation > 0:
                metric = learn_regression_metric(one, data).metric
            last = shared
        yield regression_factor(replace(one, interpolation=candidate.interpolation), data, metric)

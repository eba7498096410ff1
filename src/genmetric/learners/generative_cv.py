"""GenerativeMetricCV: generative metrics averaged with weights from their cross-validation."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import product
from typing import Any, ClassVar, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from genmetric._neighbors import N_NEIGHBORS, nearest_neighbors, select_n_neighbors, vote_errors
from genmetric._parallel import one_blas_thread
from genmetric._typing import AnyArray, ArrayLike, FloatArray, IntArray
from genmetric._validation import ArrayLike as ArrayRule
from genmetric._validation import (
    InstanceOf,
    Interval,
    ParameterRules,
    RuleOrValue,
    check_parameters,
    check_priors,
    check_weights,
    encode_classes,
    labelled_samples,
)
from genmetric.learners.candidates import (
    SEARCH_RULES,
    candidate_factors,
    given_splits,
    grid_values,
    lifted_factor,
    neighbor_numbers,
    reduced_factor,
    results_table,
    scorer_values,
    seeded_copy,
    span_coordinates,
    weighted_covariance,
)
from genmetric.learners.generative import GenerativeMetric
from genmetric.learners.mahalanobis import LinearMapMixin, MahalanobisMixin

#: Samples of positive weight, their classes, and their weights.
Samples: TypeAlias = tuple[FloatArray, IntArray, FloatArray]
#: Samples to fit on, to classify, and to search among, ascending.
Split: TypeAlias = tuple[IntArray, IntArray, IntArray]

#: Least number of samples that the average of a candidate on a split runs over, if available.
MIN_AVERAGED = 256

#: Candidates with a smaller fraction of the weight of the best one are left out of the average.
MIN_WEIGHT = 1e-3

#: If a random subset would have fewer samples per class on average, whole classes are drawn.
MIN_PER_CLASS = 10


class GenerativeMetricCV(LinearMapMixin, MahalanobisMixin, BaseEstimator):
    r"""An average of generative metrics, each weighted by the accuracy of its nearest neighbours.

    The candidates are all combinations of the grids. They include Euclidean distance
    (``interpolation=0`` with the base "identity"), whitening by the within-class covariance
    (``interpolation=0`` with "pooled") and its reduction to the dimensions of linear discriminant
    analysis (``n_components="lda"``). Each candidate is fitted on the training part of every split,
    and the held-out samples are classified by majority vote among their k nearest neighbours. The
    accuracies at adjacent k are averaged with weights 1/4, 1/2 and 1/4 (3/4 and 1/4 at the ends),
    and the score of a candidate is the largest of these averages.

    Several candidates are usually equally good, and the best one is best by chance. So the metrics
    of all candidates are averaged, fitted on all samples and scaled to the same mean squared
    distance between samples. A candidate with score a has the weight

    .. math:: \exp\Big(\frac{a - a_{best}}{s / 2}\Big),

    with s the standard error of the best score. A metric of fewer dimensions is averaged as a
    matrix of lower rank. The number of neighbours is selected by the sum of the accuracy of the
    held-out samples and of the leave-one-out accuracy in the space of the average.

    Parameters
    ----------
    metric : GenerativeMetric, default=None
        Metric whose other parameters all candidates share; ``None`` is ``GenerativeMetric()``. The
        grids replace its `base`, `normalization`, `shrinkage`, `interpolation` and `n_components`.
    bases : str or list of str, default=("identity", "pooled")
        Values of `base`.
    normalizations : str or list of str, default="trace"
        Values of `normalization`.
    shrinkages : None, "auto", float or list, default=("auto", 0.5, 0.05)
        Values of `shrinkage`; larger ones regularise more. Not used if `metric` has a
        `class_model`.
    interpolations : float or list of float, default=(0.0, 1.0)
        Values of `interpolation`; smaller ones are closer to the base metric, and 0 adds each base
        metric once.
    n_components : None, "lda", int or list, default=(None, "lda")
        Output dimensions; ``None`` keeps all, "lda" is the number of classes minus one. The average
        has the largest of them.
    n_neighbors : int or list of int, default=(1, 3, 5, 7, 9, 11, 15, 21)
        Numbers of neighbours k; those that exceed the number of samples are ignored.
    cv : int, scikit-learn splitter, iterable or None, default=5
        Number of stratified folds, at least 2 and at most the size of the largest class; more folds
        take longer and fit the candidates on more samples. With a number, the metric of a fold is
        fitted on the other folds, and neighbours are searched among all other samples, including
        those of the same fold. With a splitter, neighbours are searched in the training part of the
        split only. ``None`` is 5.
    scoring : str or callable, default=None
        A scikit-learn scorer, called with a fitted
        :class:`~sklearn.neighbors.KNeighborsClassifier` for each k; ``None`` is accuracy, which is
        much faster. With a scorer, neighbours are searched in the training part of each split, the
        number of neighbours is selected by the held-out samples only, and the standard error is
        that of the mean over splits.
    max_queries : int, default=2000
        Maximum number of samples to classify in all splits together; beyond it a random subset is
        used. Candidates average the local metrics of about as many samples (at least 256), while
        their class models, and the best candidate in the end, use all samples. Larger values make
        the scores more reliable and slower.
    max_references : int, default=20000
        Maximum number of samples to search neighbours among; beyond it a random subset is used.
        Larger values make the scores more reliable and slower. If the subset would have fewer than
        10 samples per class on average, whole classes are drawn, and the candidates are scored on
        these classes only; the final metric uses all.
    n_jobs : int, default=None
        Number of threads; ``None`` uses the number of `metric`. The result is the same, bit for
        bit, for every number.
    random_state : int, RandomState instance or None, default=None
        Seed of folds, subsets, and of `metric` if it has no `random_state`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The factor L.
    metric_ : ndarray of shape (n_features, n_features)
        The average M = LᵀL, with the mean squared distance of the best candidate.
    candidate_weights_ : ndarray of shape (n_candidates,)
        Weight of each candidate in the average, with sum one; zero below 1/1000 of the largest.
    n_neighbors_ : int
        Number of neighbours that suits the average.
    best_params_ : dict
        `base`, `normalization`, `shrinkage`, `interpolation` and `n_components` of the best
        candidate, and `n_neighbors_`.
    best_score_ : float
        Mean score of the best candidate with the selected k, without the average over adjacent k;
        optimistic, as the best of many.
    best_index_ : int
        Index of the best candidate in the arrays of `cv_results_`; the first of several.
    best_estimator_ : GenerativeMetric
        The best candidate, fitted on all samples.
    cv_results_ : dict of ndarrays
        One entry per candidate: `params`, `param_base`, ..., `split0_test_score`, ... (1/2 of the
        score at the best k and 1/4 of that at each adjacent k), `mean_test_score`,
        `std_test_score`, `rank_test_score`, and `test_score_k1`, ... (mean over splits for each
        k). It can be passed to ``pandas.DataFrame``.
    n_splits_ : int
        Number of splits.
    classes_ : ndarray of shape (n_classes,)
        Class names.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of features seen during `fit`. Defined only when X has feature names that are all
        strings.

    See Also
    --------
    GenerativeMetric : The metric with fixed parameters.

    Notes
    -----
    The interpolations and dimensions of a base, normalization and shrinkage share one average of
    local metrics, since :math:`M(\lambda) = (1-\lambda) I + \lambda M`, and one search finds the
    neighbours for all k. With a `combination` by density every candidate is fitted separately.

    With no more samples than features, the candidates are learned in the span of the samples, which
    is much faster: the metric is that of the samples in an orthonormal basis of their span. There
    shrinkage and normalization average over the dimensions of the span, and no longer over all
    features, along which the samples do not vary. Directions outside of the span change the
    distances of a new sample to all training samples by the same amount; they get the mean
    eigenvalue of the metric. `best_estimator_` is fitted in all dimensions.

    Examples
    --------
    >>> from genmetric import GenerativeMetricCV
    >>> from genmetric.datasets import load_vehicle
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> X, y = load_vehicle(return_X_y=True)
    >>> metric = GenerativeMetricCV(random_state=0).fit(X[:600], y[:600])
    >>> metric.best_params_["base"]
    'pooled'

    The number of neighbours is selected too: pass it to the classifier that follows.

    >>> neighbors = KNeighborsClassifier(metric.n_neighbors_)
    >>> neighbors = neighbors.fit(metric.transform(X[:600]), y[:600])
    >>> bool(neighbors.score(metric.transform(X[600:]), y[600:]) > 0.8)
    True
    """

    _parameter_rules: ClassVar[ParameterRules] = {
        "metric": [None, InstanceOf(GenerativeMetric, "a GenerativeMetric")],
        "max_queries": [Interval(int, 1)],
        "max_references": [Interval(int, 2)],
        **SEARCH_RULES,
    }

    def __init__(
        self,
        metric: GenerativeMetric | None = None,
        *,
        bases: Any = ("identity", "pooled"),
        normalizations: Any = "trace",
        shrinkages: Any = ("auto", 0.5, 0.05),
        interpolations: Any = (0.0, 1.0),
        n_components: Any = (None, "lda"),
        n_neighbors: Any = N_NEIGHBORS,
        cv: Any = 5,
        scoring: Any = None,
        max_queries: int = 2000,
        max_references: int = 20_000,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.metric = metric
        self.bases = bases
        self.normalizations = normalizations
        self.shrinkages = shrinkages
        self.interpolations = interpolations
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.cv = cv
        self.scoring = scoring
        self.max_queries = max_queries
        self.max_references = max_references
        self.n_jobs = n_jobs
        self.random_state = random_state

    @property
    def preprocessor(self) -> Any:
        """Preprocessor of `metric`."""
        return None if self.metric is None else self.metric.preprocessor

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
    ) -> GenerativeMetricCV:
        """Score the candidates, and average their metrics, fitted on all samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples, or indices of samples if `metric` has a `preprocessor`.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Frequency weights. They count in the class models, in the averages and in the scores;
            in a vote every neighbour counts once. With a `cv` that is a splitter or a list of
            splits, whole numbers equal repeated samples in the votes too.
        groups : array-like of shape (n_samples,), default=None
            Groups, passed to a `cv` that is a splitter, such as
            :class:`~sklearn.model_selection.GroupKFold`; other values of `cv` would divide them and
            raise an error.

        Returns
        -------
        self : GenerativeMetricCV
            The fitted estimator.
        """
        check_parameters(self)
        rng = check_random_state(self.random_state)
        template = seeded_copy(self.metric or GenerativeMetric(), self.random_state, rng)
        if self.n_jobs is not None:
            template.set_params(n_jobs=self.n_jobs)
        x, labels = labelled_samples(self, X, y)
        check_consistent_length(x, groups)
        if groups is not None and (self.cv is None or isinstance(self.cv, int | np.integer)):
            raise ValueError(
                f"groups needs a cv that keeps groups together; got cv={self.cv!r}. Pass a splitter, "
                "such as cv=GroupKFold(5)."
            )
        weight = np.ones(len(x)) if sample_weight is None else check_weights(sample_weight, len(x))
        kept = np.flatnonzero(weight)
        self.classes_, codes = encode_classes(labels[kept], type(self).__name__)
        check_priors(template.priors, len(self.classes_))
        best = clone(template)
        if ArrayRule().accepts(template.combination):
            given = check_weights(template.combination, len(x), "combination")
            template.set_params(combination=given[kept])
        z, basis = span_coordinates(x[kept])
        samples = (z, codes, weight[kept])
        grid = self._grid(template, len(self.classes_), z.shape[1])
        with one_blas_thread(), warnings.catch_warnings():
            # The fit of the best candidate emits the warnings about classes, once.
            warnings.simplefilter("ignore", UserWarning)
            splits = self._splits(x, labels, weight, groups, rng)
            k = neighbor_numbers(self.n_neighbors, min(len(among) for _, _, among in splits) - 1)
            scores = self._scores(template, grid, samples, splits, k)
        self._weigh(grid, scores, k, sum(weight[kept][queries].sum() for _, queries, _ in splits))
        best.set_params(**grid[self.best_index_])
        self.best_estimator_ = best.fit(X, y, sample_weight)
        with one_blas_thread(), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            factor = self._average(template, grid, samples, in_span=basis is not None)
        self._select_n_neighbors(z @ factor.T, codes, weight[kept], k)
        self.components_ = factor if basis is None else lifted_factor(factor, basis)
        self.metric_ = self.components_.T @ self.components_
        return self

    def local_metrics(self, X: ArrayLike) -> FloatArray:
        """Return the local metric of each sample under the best candidate.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_features, n_features)
            Local metrics of `best_estimator_`.
        """
        check_is_fitted(self, "components_")
        return np.asarray(self.best_estimator_.local_metrics(X))

    def _grid(self, template: GenerativeMetric, n_classes: int, rank: int) -> list[dict[str, Any]]:
        """Return the parameters of the candidates."""
        rules = GenerativeMetric._parameter_rules
        bases = grid_values(self.bases, "bases", rules["base"])
        scales = grid_values(self.normalizations, "normalizations", rules["normalization"])
        shrinkages = grid_values(self.shrinkages, "shrinkages", rules["shrinkage"])
        if template.class_model is not None:
            shrinkages = ["auto"]
        amounts = grid_values(self.interpolations, "interpolations", rules["interpolation"])
        valid: list[RuleOrValue] = [None, "lda", Interval(int, 1, self.n_features_in_)]
        given = grid_values(self.n_components, "n_components", valid)
        wanted = [n_classes - 1 if value == "lda" else value for value in given]
        # Without repetitions, in the same order.
        dimensions = list(dict.fromkeys(None if (n or rank) >= rank else n for n in wanted))
        found = []
        if 0 in amounts:
            found += list(product(bases, scales[:1], shrinkages[:1], [0.0], dimensions))
        learned = [float(value) for value in amounts if value > 0]
        found += list(product(bases, scales, shrinkages, learned, dimensions))
        names = ("base", "normalization", "shrinkage", "interpolation", "n_components")
        return [dict(zip(names, values, strict=True)) for values in found]

    def _splits(
        self,
        x: AnyArray,
        labels: AnyArray,
        weight: FloatArray,
        groups: Any,
        rng: np.random.RandomState,
    ) -> list[Split]:
        """Return the splits of `cv`, with indices among the samples of positive weight."""
        kept = np.flatnonzero(weight)
        codes = np.unique(labels[kept], return_inverse=True)[1]
        folds = self.cv is None or isinstance(self.cv, int | np.integer)
        if folds:
            rows = _whole_classes(codes, self.max_references, rng)
            pairs = _stratified(codes, rows, self.cv or 5, rng)
            references = _draw(rows, self.max_references, rng)
        else:
            pairs = given_splits(self.cv, x, labels, weight, groups)
            whole = (weight == np.floor(weight)).all()
            repeats = weight[kept].astype(np.intp) if whole else np.ones(len(kept), np.intp)
        splits: list[Split] = []
        for train, test in pairs:
            if len(np.unique(codes[train])) < 2:
                raise ValueError(
                    f"Split {len(splits)} of cv has training samples of a single class. Use a "
                    "stratified splitter."
                )
            queries = _draw(test, max(self.max_queries // len(pairs), 1), rng)
            if not folds:
                references = _draw(np.repeat(train, repeats[train]), self.max_references, rng)
            splits.append((train, queries, references))
        return splits

    def _scores(
        self,
        template: GenerativeMetric,
        grid: list[dict[str, Any]],
        samples: Samples,
        splits: list[Split],
        k: IntArray,
    ) -> FloatArray:
        """Return the scores of all candidates, shape (n_candidates, n_splits, n_numbers)."""
        (x, codes, weight), n_jobs = samples, template.n_jobs
        labels = self.classes_[codes]
        scores = np.empty((len(grid), len(splits), len(k)))
        for s, (train, queries, references) in enumerate(splits):
            place = np.minimum(np.searchsorted(references, queries), len(references) - 1)
            itself = np.where(references[place] == queries, place, -1)
            trained = np.isin(references, train)
            options = {} if (weight == 1).all() else {"sample_weight": weight[queries]}
            factors = _candidate_factors(template, grid, samples, train, len(queries))
            for c, factor in enumerate(factors):
                z, known = x[queries] @ factor.T, x[references] @ factor.T
                if self.scoring is not None:
                    parts = (known[trained], labels[references[trained]]), (z, labels[queries])
                    model = KNeighborsClassifier()
                    scores[c, s] = scorer_values(model, self.scoring, k, *parts, **options)
                    continue
                found = nearest_neighbors(known, k[-1], queries=z, exclude=itself, n_jobs=n_jobs)
                votes, truth = codes[references[found.indices]], codes[queries]
                scores[c, s] = 1 - vote_errors(votes, truth, len(self.classes_), k, **options)
        return scores

    def _weigh(
        self, grid: list[dict[str, Any]], scores: FloatArray, k: IntArray, n_queries: float
    ) -> None:
        """Set the results, the best candidate and the weights of all."""
        by_number = np.round(scores.mean(axis=1), 12)  # equal counts have equal scores
        # Metrics of few dimensions need more neighbours than others, so a candidate is compared at
        # the number that suits it. A single score is noisy: adjacent numbers count as well.
        padded = np.pad(np.eye(len(k)), ((0, 0), (1, 1)), mode="edge")
        smooth = padded[:, :-2] / 4 + padded[:, 1:-1] / 2 + padded[:, 2:] / 4
        best_number = np.round(by_number @ smooth, 12).argmax(axis=1)
        by_split = np.einsum("csk,ck->cs", scores, smooth[best_number])
        self.n_splits_ = scores.shape[1]
        self.cv_results_ = results_table(grid, by_split)
        for number, values in zip(k, by_number.T, strict=True):
            self.cv_results_[f"test_score_k{number}"] = values
        means = self.cv_results_["mean_test_score"]
        self.best_index_ = int(means.argmax())
        if self.scoring is None:
            # One success and one failure more: the error of a perfect score is not zero.
            rate = (means.max() * n_queries + 1) / (n_queries + 2)
            error = np.sqrt(rate * (1 - rate) / n_queries)
        else:
            error = by_split[self.best_index_].std() / np.sqrt(self.n_splits_)
        weights = np.exp((means - means.max()) / max(error / 2, 1e-12))
        weights[weights < MIN_WEIGHT] = 0.0
        self.candidate_weights_ = weights / weights.sum()

    def _average(
        self,
        template: GenerativeMetric,
        grid: list[dict[str, Any]],
        samples: Samples,
        *,
        in_span: bool,
    ) -> FloatArray:
        r"""Return a factor of the average of the candidates, fitted on all samples.

        The metrics are scaled to the mean squared distance of the best one. They are not formed,
        because their condition number is the square of that of their factors.
        """
        (x, _, weight), best = samples, self.best_index_
        others = [c for c, share in enumerate(self.candidate_weights_) if share and c != best]
        fitted = [] if in_span else [self.best_estimator_.components_]
        missing = [grid[c] for c in [best, *others][len(fitted) :]]
        rest = _candidate_factors(template, missing, samples, np.arange(len(x)), self.max_queries)
        factors = [*fitted, *rest]
        covariance = weighted_covariance(x, weight)
        sizes = np.array([np.einsum("ij,jk,ik", L, covariance, L) for L in factors])
        sizes[sizes == 0] = 1.0
        scales = np.sqrt(self.candidate_weights_[[best, *others]] * sizes[0] / sizes)
        stack = np.concatenate([scale * L for scale, L in zip(scales, factors, strict=True)])
        dimensions = [params["n_components"] for params in grid]
        if None not in dimensions:
            return reduced_factor(np.linalg.qr(stack)[1], max(dimensions), covariance)
        # The symmetric root in units of the standard deviations of the features.
        units = np.sqrt(np.diag(covariance))
        units[units == 0] = 1.0
        _, roots, axes = np.linalg.svd(np.linalg.qr(stack * units)[1], full_matrices=False)
        return np.asarray((axes.T * roots) @ axes / units)

    def _select_n_neighbors(
        self, z: FloatArray, codes: IntArray, weight: FloatArray, k: IntArray
    ) -> None:
        """Select the number of neighbours by two scores, whose sum is less noisy than each.

        One is that of the held-out samples, the other the leave-one-out score in the space of the
        average.
        """
        by_number = np.array([self.cv_results_[f"test_score_k{number}"] for number in k])
        total = by_number @ self.candidate_weights_
        if self.scoring is None:
            found = select_n_neighbors(
                *(z, codes, k),
                max_queries=self.max_queries,
                max_references=self.max_references,
                n_jobs=self.best_estimator_.n_jobs,
                sample_weight=None if (weight == 1).all() else weight,
            )
            total = total - found.errors
        place = int(np.round(total, 12).argmax())
        self.n_neighbors_ = int(k[place])
        self.best_score_ = float(by_number[place, self.best_index_])
        best = self.cv_results_["params"][self.best_index_]
        self.best_params_ = {**best, "n_neighbors": self.n_neighbors_}


def _candidate_factors(
    template: GenerativeMetric,
    grid: list[dict[str, Any]],
    samples: Samples,
    rows: IntArray,
    n_averaged: int,
) -> Iterator[FloatArray]:
    """Yield a factor of every candidate, fitted on some of the samples."""
    x, codes, weight = samples
    # Class models use all of these samples, and averages of local metrics a random subset.
    n_averaged = max(n_averaged, MIN_AVERAGED)
    metric = clone(template).set_params(max_samples=n_averaged if n_averaged < len(rows) else 1.0)
    given = isinstance(template.combination, np.ndarray)
    if given:
        metric.set_params(combination=template.combination[rows])
    if template.priors is not None:
        metric.set_params(priors=np.asarray(template.priors)[np.unique(codes[rows])])
    return candidate_factors(
        *(metric, grid, x[rows], codes[rows], weight[rows]),
        base_options={"max_samples": 2, "combination": "uniform"},
        mix=given or template.combination == "uniform",
    )


# Splits


def _draw(rows: IntArray, n_draws: int, rng: np.random.RandomState) -> IntArray:
    """Draw samples without replacement, ascending; all of them if there are no more."""
    return rows if n_draws >= len(rows) else np.sort(rng.choice(rows, n_draws, replace=False))


def _whole_classes(codes: IntArray, n_samples: int, rng: np.random.RandomState) -> IntArray:
    """Return the samples of random classes, about `n_samples`, if there are many; else all.

    A random subset of the samples of thousands of small classes would have hardly any two of the
    same class.
    """
    counts = np.bincount(codes)
    if n_samples >= min(MIN_PER_CLASS * len(counts), len(codes)):
        return np.arange(len(codes))
    order = rng.permutation(len(counts))
    n_classes = int(np.searchsorted(np.cumsum(counts[order]), n_samples, side="right"))
    return np.flatnonzero(np.isin(codes, order[: max(2, n_classes)]))


def _stratified(
    codes: IntArray, rows: IntArray, n_folds: Any, rng: np.random.RandomState
) -> list[tuple[IntArray, IntArray]]:
    """Return training and test parts of stratified folds of some samples.

    The only sample of a class is in every training part and in no test part: without it the class
    would be missing.
    """
    counts = np.bincount(codes[rows])
    several = rows[counts[codes[rows]] > 1]
    if not len(several):
        raise ValueError(
            "Every class has a single sample, so no sample has a neighbour of its own class. Use "
            "GenerativeMetric with fixed parameters, or collect more samples."
        )
    folds = StratifiedKFold(min(n_folds, counts.max()), shuffle=True, random_state=rng)
    tests = [several[test] for _, test in folds.split(several, codes[several])]
    return [(np.setdiff1d(rows, test), test) for test in tests]

"""GenerativeMetricCV: a generative metric with parameters selected by cross-validation."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import check_cv
from sklearn.utils import check_random_state

from genmetric._chunks import one_blas_thread
from genmetric._logging import log_progress
from genmetric._parameters import (
    CALLABLE,
    N_JOBS,
    RANDOM_STATE,
    VERBOSE,
    HasMethods,
    InstanceOf,
    Interval,
    ParameterRules,
    check_parameters,
)
from genmetric._rollback import restore_on_error
from genmetric._typing import AnyArray, ArrayLike, FloatArray, IntArray
from genmetric._validation import check_groups, check_weights, form_points, labelled_rows
from genmetric._votes import N_NEIGHBORS, select_n_neighbors
from genmetric._warnings import suppress_warnings
from genmetric.learners._candidates import (
    Candidate,
    as_grid,
    make_candidates,
    results_table,
    select_candidate,
    weights_at_best,
)
from genmetric.learners._fitting import OPTIONAL
from genmetric.learners._generative import GenerativeMetric
from genmetric.learners._local_geometry import LocalGeometryMixin
from genmetric.learners._mahalanobis import LinearMapMixin, MahalanobisMixin
from genmetric.learners._scoring import SelectionSamples
from genmetric.learners._specification import METRIC_RULES, FitSpecification
from genmetric.learners._splits import Split, Splitter, warn_in_sample


class GenerativeMetricCV(LocalGeometryMixin, LinearMapMixin, MahalanobisMixin, BaseEstimator):
    r"""A :class:`GenerativeMetric` with parameters selected by the error of nearest neighbours.

    The candidates are all combinations of the grids. They include Euclidean distance
    (``interpolation=0`` with the base "identity"), whitening by the within-class covariance
    (``interpolation=0`` with "pooled") and its reduction to the dimensions of linear discriminant
    analysis (``n_components="lda"``). Each candidate is fitted on the training part of every split,
    and the left-out samples are classified by majority vote among their k nearest neighbours. The
    accuracies at adjacent k are averaged with weights 1/4, 1/2 and 1/4 (3/4 and 1/4 at the ends),
    and the score of a candidate is the largest of these averages.

    Several candidates are usually equally good: those whose score is within one standard error of
    the best, where the standard error is that of the difference on the same samples. Of these, the
    one closest to what is best on average over many datasets is fitted on all samples: all
    dimensions, a learned metric, the base "pooled", Ledoit-Wolf shrinkage, equal trace and no
    interpolation, in this order. The number of neighbours is selected by the sum of the accuracy of
    the left-out samples and of the leave-one-out accuracy in the space of that metric.

    Parameters
    ----------
    metric : GenerativeMetric, default=None
        Metric whose other parameters all candidates share; ``None`` is ``GenerativeMetric()``. The
        grids replace its `base`, `normalization`, `shrinkage`, `interpolation` and `n_components`.
    bases : str or list of str, default=("identity", "pooled")
        Values of `base` to select from.
    normalizations : str or list of str, default="trace"
        Values of `normalization` to select from.
    shrinkages : None, "auto", float or list, default=("auto", 0.5, 0.05)
        Values of `shrinkage` to select from; larger ones regularise more. Not used if `metric` has
        a `class_model`.
    interpolations : float or list of float, default=(0.0, 1.0)
        Values of `interpolation` to select from; smaller ones are closer to the base metric, and 0
        adds each base metric once.
    n_components : None, "lda", int or list, default=(None, "lda")
        Output dimensions to select from; ``None`` keeps all, "lda" is the number of classes minus
        one.
    n_neighbors : int or list of int, default=(1, 3, 5, 7, 9, 11, 15, 21)
        Numbers of neighbours k to select from; those that exceed the number of samples are ignored.
    cv : int, scikit-learn splitter, iterable or None, default=5
        Number of stratified folds, at least 2 and at most the size of the largest class; more folds
        take longer and fit the candidates on more samples. With a number, the metric of a fold is
        fitted on the other folds, and neighbours are searched among all other samples, including
        those of the same fold. With a splitter, neighbours are searched in the training part of the
        split only.
        ``None`` fits on all samples and classifies the same samples, each without itself. This is
        several times faster and too optimistic unless every class has at least 20 samples per
        feature; otherwise a warning is given.
    scoring : str or callable, default=None
        Scorer of scikit-learn, called with a fitted
        :class:`~sklearn.neighbors.KNeighborsClassifier` for each k; ``None`` is accuracy, which is
        much faster. With a scorer, neighbours are searched in the training part of each split, and
        the number of neighbours is selected by the left-out samples only. Not available with
        ``cv=None``.
    max_queries : int, default=2000
        Maximum number of samples to classify in all splits together; beyond it a random subset is
        used. Candidates average the local metrics of about as many samples (at least 256 per
        split), while their class models, and the selected metric, use all samples. Larger values
        make the selection more reliable and slower.
    max_references : int, default=20000
        Maximum number of samples to search neighbours among; beyond it a random subset is used.
        Larger values make the selection more reliable and slower. With thousands of classes that
        have fewer samples than features, whole classes are drawn, and the candidates are fitted on
        these classes only; the selected metric uses all.
    n_jobs : int, default=None
        Number of threads; ``None`` uses the number of `metric`. The result is the same, bit for
        bit, for every number.
    random_state : int, RandomState instance or None, default=None
        Seed of folds, subsets, and of `metric` if it has no `random_state`.
    verbose : int, default=0
        Whether to print a summary.

    Attributes
    ----------
    best_params_ : dict
        Selected `base`, `normalization`, `shrinkage`, `interpolation`, `n_components` and
        `n_neighbors`.
    best_score_ : float
        Mean score of the selected candidate with the selected k, without the average over adjacent
        k; optimistic, as the best of many.
    best_index_ : int
        Index of the selected candidate in the arrays of `cv_results_`. Its rank there need not be
        1, because of the rule of one standard error.
    best_estimator_ : GenerativeMetric
        The selected metric, fitted on all samples.
    cv_results_ : dict of ndarrays
        One entry per candidate: `params`, `param_base`, ..., `split0_test_score`, ... (1/2 of the
        score at the best k and 1/4 of that at each adjacent k), `mean_test_score`,
        `std_test_score`, `rank_test_score`, `within_one_standard_error` (whether the candidate
        counts as equally good as the best), and `test_score_k1`, ... (mean over splits for each
        k). It can be passed to ``pandas.DataFrame``.
    n_splits_ : int
        Number of splits.
    components_, metric_, metric_stderr_, classes_, means_, covariances_, n_iter_
        Attributes of `best_estimator_`.
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
    Class statistics are computed once and merged for each fold. The interpolations and dimensions
    of a base, normalization and shrinkage share one average of local metrics, since
    :math:`M(\lambda) = (1-\lambda) I + \lambda M`, and one search finds the neighbours for all k.
    With a `combination` by density every candidate is fitted separately.

    Examples
    --------
    >>> from genmetric import GenerativeMetricCV
    >>> from genmetric.datasets import load_vehicle
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> X, y = load_vehicle(return_X_y=True)
    >>> metric = GenerativeMetricCV(random_state=0).fit(X[:600], y[:600])
    >>> metric.best_params_["base"]
    'pooled'
    >>> neighbors = KNeighborsClassifier(metric.best_params_["n_neighbors"])
    >>> neighbors = neighbors.fit(metric.transform(X[:600]), y[:600])
    >>> bool(neighbors.score(metric.transform(X[600:]), y[600:]) > 0.8)
    True
    """

    _parameter_rules: ClassVar[ParameterRules] = {
        "metric": [None, InstanceOf(GenerativeMetric, "a GenerativeMetric")],
        "cv": [
            None,
            Interval(int, 2),
            HasMethods(("split",)),
            HasMethods(("__iter__",)),
        ],
        "scoring": [None, InstanceOf(str, "the name of a scorer"), CALLABLE],
        "max_queries": [Interval(int, 1)],
        "max_references": [Interval(int, 2)],
        "n_jobs": N_JOBS,
        "random_state": RANDOM_STATE,
        "verbose": VERBOSE,
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
        verbose: int = 0,
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
        self.verbose = verbose

    @property
    def preprocessor(self) -> Any:
        """Preprocessor of `metric`."""
        return None if self.metric is None else self.metric.preprocessor

    @restore_on_error
    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
    ) -> GenerativeMetricCV:
        """Select the parameters, and fit the selected metric on all samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples, or indices of samples if `metric` has a `preprocessor`.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Frequency weights. They count in the class models, in the averages and in the scores;
            in a vote every neighbour counts once.
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
        template = self._template(rng)
        x, labels, classes, codes = labelled_rows(self, form_points(X, self.preprocessor, self), y)
        weight = None if sample_weight is None else check_weights(sample_weight, len(x))
        group_labels = check_groups(groups, self.cv, len(x))
        spec = FitSpecification.of(template.get_params(deep=False))
        spec.log_priors(len(classes))
        candidates = self._candidates(spec, len(classes), x.shape[1])
        data = SelectionSamples.of(template, spec, x, labels, weight)
        with one_blas_thread(), suppress_warnings(UserWarning):
            # The final fit emits the warnings about classes, once.
            factored = data.uses_factors(spec, candidates)
            own_splits = self.cv is None or isinstance(self.cv, int | np.integer)
            if factored and own_splits and spec.priors is None:
                data = data.some_classes(int(self.max_references), rng)
            splits = self._splits(data, rng, group_labels, factored)
            k = self._numbers(min(len(split.references) for split in splits))
            scores, paired = data.scores(candidates, splits, k, self.scoring)
        self._select(candidates, scores, paired, k)
        best = template.set_params(**candidates[self.best_index_].params)
        self.best_estimator_ = best.fit(X, y, sample_weight)
        if self.scoring is None:
            self._select_n_neighbors(best, data, k)
        for name in OPTIONAL:
            self.__dict__.pop(name, None)
        parameters = best.get_params(deep=False)
        self.__dict__.update({n: v for n, v in vars(best).items() if n not in parameters})
        if self.cv is None:
            warn_in_sample(x.shape[1], np.bincount(codes))
        if self.verbose:
            log_progress(
                "GenerativeMetricCV",
                f"{len(candidates)} candidates, {self.n_splits_} splits: {self.best_params_}, "
                f"score {self.best_score_:.4f}",
            )
        return self

    def _template(self, rng: np.random.RandomState) -> GenerativeMetric:
        """Return the metric with all parameters that the candidates share."""
        template: GenerativeMetric = clone(
            GenerativeMetric() if self.metric is None else self.metric
        )
        if template.random_state is None:
            seed = self.random_state
            fixed = isinstance(seed, int | np.integer)
            template.set_params(random_state=seed if fixed else int(rng.randint(2**31 - 1)))
        if self.n_jobs is not None:
            template.set_params(n_jobs=self.n_jobs)
        check_parameters(template)
        return template

    def _candidates(
        self, spec: FitSpecification, n_classes: int, n_features: int
    ) -> list[Candidate]:
        """Return the candidates of the grids."""
        dimensions = []
        valid = [None, "lda", Interval(int, 1, n_features)]
        for value in as_grid(self.n_components, "n_components", valid):
            k = min(n_classes - 1, n_features) if isinstance(value, str) else value
            if k == n_features:
                k = None
            if k not in dimensions:
                dimensions.append(k)
        shrinkages = as_grid(self.shrinkages, "shrinkages", METRIC_RULES["shrinkage"])
        if not spec.class_models.streams:
            shrinkages = ["auto"]
        return make_candidates(
            as_grid(self.bases, "bases", METRIC_RULES["base"]),
            as_grid(self.normalizations, "normalizations", METRIC_RULES["normalization"]),
            shrinkages,
            as_grid(self.interpolations, "interpolations", METRIC_RULES["interpolation"]),
            dimensions,
        )

    def _splits(
        self,
        data: SelectionSamples,
        rng: np.random.RandomState,
        groups: AnyArray | None,
        factored: bool,
    ) -> list[Split]:
        """Return the splits of `cv`."""
        splitter = Splitter(
            data.x,
            data.codes,
            len(data.classes),
            data.frame,
            data.weight,
            int(self.max_queries),
            int(self.max_references),
            rng,
            data.n_jobs,
            factored,
        )
        if self.cv is None:
            if self.scoring is not None:
                raise ValueError(
                    "scoring requires left-out samples; got cv=None. Use cv=5, or scoring=None."
                )
            return splitter.in_sample()
        if isinstance(self.cv, int | np.integer):
            return splitter.folds(int(self.cv))
        kept = None if groups is None else groups[data.kept]
        pairs = check_cv(self.cv, data.labels, classifier=True).split(data.x, data.labels, kept)
        return splitter.given(pairs)

    def _numbers(self, n_references: int) -> IntArray:
        """Return the numbers of neighbours, ascending, that there are enough samples for."""
        valid = [Interval(int, 1)]
        numbers = np.unique(as_grid(self.n_neighbors, "n_neighbors", valid))
        k = numbers[numbers < n_references]
        if not len(k):
            raise ValueError(
                f"n_neighbors={self.n_neighbors!r} is too large for {n_references} samples, which "
                f"have {n_references - 1} neighbours. Use a smaller number."
            )
        return np.asarray(k, np.intp)

    def _select(
        self,
        candidates: list[Candidate],
        scores: FloatArray,
        paired: list[FloatArray],
        k: IntArray,
    ) -> None:
        """Set the results from scores of shape (n_candidates, n_splits, n_numbers)."""
        by_number = np.round(scores.mean(axis=1), 12)  # equal counts have equal scores
        weights = weights_at_best(by_number)
        by_split = np.einsum("csk,ck->cs", scores, weights)
        each = np.array([found @ w for found, w in zip(paired, weights, strict=True)])
        columns = results_table(candidates, by_split, each)
        self.best_index_ = select_candidate(candidates, columns)
        place = int(by_number[self.best_index_].argmax())
        self.best_score_ = float(by_number[self.best_index_, place])
        self.best_params_ = {**candidates[self.best_index_].params, "n_neighbors": int(k[place])}
        self.n_splits_ = scores.shape[1]
        for number, values in zip(k, by_number.T, strict=True):
            columns[f"test_score_k{number}"] = values
        self.cv_results_ = columns

    def _select_n_neighbors(
        self, best: GenerativeMetric, data: SelectionSamples, k: IntArray
    ) -> None:
        """Select the number of neighbours by the sum of two scores, which is less noisy than each.

        One is that of the left-out samples, the other the leave-one-out score in the space of the
        selected metric.
        """
        found = select_n_neighbors(
            data.x @ best.components_.T,
            data.labels,
            k,
            max_queries=int(self.max_queries),
            max_references=int(self.max_references),
            n_jobs=data.n_jobs,
            sample_weight=data.weight,
        )
        left_out = np.array([self.cv_results_[f"test_score_k{n}"][self.best_index_] for n in k])
        place = int(np.round(left_out - found.errors, 12).argmax())
        self.best_params_["n_neighbors"] = int(k[place])
        self.best_score_ = float(left_out[place])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

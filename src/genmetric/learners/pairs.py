"""PairClassifier: whether two vectors are of the same entity, learned from pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from math import isnan
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.special import expit, logit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score, roc_curve
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data

from genmetric._neighbors import unit_vectors
from genmetric._parallel import map_chunks, one_blas_thread, row_chunks
from genmetric._typing import AnyArray, ArrayLike, FloatArray, IntArray
from genmetric._validation import (
    BOOLEAN,
    CALLABLE,
    FLOATS,
    Interval,
    ParameterRules,
    cast_finite,
    check_n_components,
    check_parameter,
    check_parameters,
    refuse_lazy,
    warn_user,
)
from genmetric._validation import ArrayLike as ArrayRule
from genmetric.density.gaussian import correlation_shrinkage
from genmetric.learners.mahalanobis import MahalanobisMixin
from genmetric.learners.two_covariance import (
    UnitVectorMapMixin,
    axis_lengths,
    check_size,
    discriminant_axes,
    group_moments,
    indexed_pairs,
    log_likelihood_ratio,
    pair_forms,
    row_hashes,
    shrunk_covariances,
)

#: Vectors that the cross-validation uses, and pairs of different entities that it draws.
MAX_VECTORS, N_DIFFERENT = 6144, 20_000

#: Candidates: the cosine, and models whose odds of shrinkage are multiples of Ledoit-Wolf's.
CANDIDATES: list[dict[str, Any]] = [
    {"model": "cosine"},
    *({"model": "two-covariance", "within_factor": factor} for factor in (1.0, 4.0, 16.0, 64.0)),
]


class PairClassifier(UnitVectorMapMixin, ClassifierMixin, MahalanobisMixin, BaseEstimator):
    r"""Tell whether two vectors are of the same entity; learned from pairs.

    Use it to deduplicate or link records, to cache answers, or to verify faces and voices: you have
    pairs ("these two are the same"), and you need a probability and a threshold.

    Vectors of an entity are :math:`m + e`, with one Gaussian of all entities m and one of all
    deviations e: the two-covariance model of probabilistic linear discriminant analysis. Pairs of
    the same entity are joined to groups, from which both covariances follow in closed form. Vectors
    are scaled to unit length, centred and whitened, and scaled again before the final estimate. The
    shrinkage is selected on held-out entities, and plain cosine similarity is a candidate, since
    few pairs can say too little to improve on it.

    Scores are log-likelihood ratios of "same" against "different", calibrated on held-out entities.

    Parameters
    ----------
    normalize : bool, default=True
        Whether to scale vectors to unit length, before and after the map. ``False`` is for features
        whose lengths matter; minus the squared distance then takes the place of the cosine.
    n_components : int, default=None
        Number of axes that scores and outputs of `transform` use. Smaller values make search faster
        and lose accuracy; ``None`` keeps all.
    cv : int, default=5
        Number of folds of the entities for selection and calibration.
    preprocessor : array-like of shape (n_samples, n_features) or callable, default=None
        Vectors that pairs of indices refer to; a function returns those of an array of indices. All
        vectors of an array count in the total covariance, even those in no pair.
    random_state : int, RandomState instance or None, default=None
        Seed of the folds and of the random pairs of different entities.
    n_jobs : int, default=None
        Number of threads; the result is the same for every number.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Matrix L of the map of `transform`.
    mean_ : ndarray of shape (n_features,)
        Mean that `transform` subtracts; zero without `normalize`.
    bias_ : ndarray of shape (n_components,)
        The offset :math:`-L\mu` of the map.
    threshold_ : float
        Least `decision_function` of a pair that `predict` takes for the same entity. After `fit`,
        the value at which both answers have the probability 0.5.
    prior_ : float
        Fraction of pairs of the same entity that probabilities assume: that of y, or 0.5 without
        pairs of different entities.
    best_params_ : dict
        The selected `model`, "cosine" or "two-covariance", and its `within_factor`, the odds of the
        shrinkage as a multiple of those of Ledoit and Wolf.
    cv_results_ : dict
        `params`, a list with one entry per candidate, and `log_loss`, their losses
        on held-out pairs, with equal weight of same and different.
    classes_ : ndarray of shape (2,)
        The labels -1 and 1.
    n_features_in_ : int
        Number of features of a vector.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of features, if `fit_groups` gets a DataFrame with such names.

    See Also
    --------
    EmbeddingAdapter : The same model from class labels, for search.

    Notes
    -----
    Selection and calibration need pairs of different entities. If y has fewer than 50, random pairs
    of vectors from two groups are added. Their scores also give `threshold`. If future pairs are
    harder, for example because a search found them, pass such pairs with y.

    For a fraction p of pairs of the same entity other than `prior_`, the probability is
    ``scipy.special.expit(model.decision_function(pairs) + scipy.special.logit(p))``.

    The cost is linear in vectors and pairs. Selection and calibration use at most 6144 vectors of
    whole groups, and 3072 in no group. To score many pairs of few vectors, pass indices and
    `preprocessor`: each vector is mapped once. Names follow metric-learn's learners from pairs, but
    `threshold_` refers to `decision_function`, and not to a distance.

    References
    ----------
    S. Ioffe, Probabilistic linear discriminant analysis, ECCV 2006. N. Brümmer and E. de Villiers,
    The speaker partitioning problem, Odyssey 2010 (the two-covariance model). D. Garcia-Romero and
    C. Y. Espy-Wilson, Analysis of i-vector length normalization, Interspeech 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric import PairClassifier
    >>> rng = np.random.default_rng(0)
    >>> entities = rng.normal(size=(500, 1, 16))
    >>> pairs = entities + 0.4 * rng.normal(size=(500, 2, 16))
    >>> model = PairClassifier(random_state=0).fit(pairs[:400])
    >>> model.set_threshold(model.threshold(false_match_rate=0.01))
    PairClassifier(random_state=0)
    >>> bool(np.mean(model.predict(pairs[400:]) == 1) > 0.9)
    True
    >>> different = np.stack([pairs[400:-1, 0], pairs[401:, 1]], axis=1)
    >>> bool(np.mean(model.predict(different) == -1) > 0.95)
    True
    """

    _parameter_rules: ClassVar[ParameterRules] = {
        "normalize": [BOOLEAN],
        "n_components": [None, Interval(int, 1)],
        "cv": [Interval(int, 2)],
        "preprocessor": [None, CALLABLE, ArrayRule()],
    }

    def __init__(
        self,
        *,
        normalize: bool = True,
        n_components: int | None = None,
        cv: int = 5,
        preprocessor: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.normalize = normalize
        self.n_components = n_components
        self.cv = cv
        self.preprocessor = preprocessor
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(
        self,
        pairs: ArrayLike,
        y: ArrayLike | None = None,
        *,
        calibration_params: dict[str, Any] | None = None,
    ) -> PairClassifier:
        """Learn from pairs of vectors.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features)
            Pairs of vectors; pairs of indices, shape (n_pairs, 2), if there is a `preprocessor`.
        y : array-like of shape (n_pairs,), default=None
            1 for pairs of the same entity and -1 for pairs of different entities. ``None`` means
            that all pairs are of the same entity.
        calibration_params : dict, default=None
            Arguments of `calibrate_threshold`, which is then called with the same pairs, as in
            metric-learn. ``None`` keeps the threshold of equal probabilities.

        Returns
        -------
        self : PairClassifier
            The fitted estimator.
        """
        check_parameters(self)
        x, index = self._training_vectors(pairs)
        labels = np.ones(len(index)) if y is None else _check_pair_labels(y, len(index))
        same, different = index[labels > 0], index[labels < 0]
        repeated = same[:, 0] == same[:, 1]
        if repeated.any():
            warn_user(
                f"{np.count_nonzero(repeated)} pairs of the same entity are a vector with itself, "
                "which says nothing. They are ignored."
            )
        same = same[~repeated]
        graph = coo_array((np.ones(len(same)), (same[:, 0], same[:, 1])), (len(x), len(x)))
        groups = np.asarray(connected_components(graph, directed=False)[1], np.intp)
        wrong = groups[different[:, 0]] == groups[different[:, 1]]
        if wrong.any():
            where = np.flatnonzero(labels < 0)[wrong][0]
            warn_user(
                f"{np.count_nonzero(wrong)} pairs are labelled as different although other pairs say "
                f"that they are the same (the first is pair {where}). They are ignored; check y."
            )
        prior = 0.5 if (labels > 0).all() else float(np.mean(labels > 0))
        self._fit(x, groups, same, different[~wrong], prior)
        if calibration_params is not None:
            self.calibrate_threshold(pairs, np.asarray(labels), **calibration_params)
        return self

    def fit_groups(self, X: ArrayLike, groups: ArrayLike) -> PairClassifier:
        """Learn from vectors with the names of their entities.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Vectors.
        groups : array-like of shape (n_samples,)
            Entity of each vector; -1, NaN or None for an unknown entity, different from all others.

        Returns
        -------
        self : PairClassifier
            The fitted estimator.
        """
        check_parameters(self)
        refuse_lazy(X)
        x = validate_data(self, X, dtype=FLOATS)
        names = column_or_1d(groups)
        if len(names) != len(x):
            raise ValueError(f"groups must have one name per vector, {len(x)}; got {len(names)}.")
        known = np.array([not _is_unknown(name) for name in names.tolist()])
        codes = len(x) + np.arange(len(x))
        codes[known] = np.unique(names[known], return_inverse=True)[1]
        codes = np.unique(codes, return_inverse=True)[1]
        none = np.empty((0, 2), int)
        self._fit(x, codes, none, none, 0.5)
        return self

    def decision_function(self, pairs: ArrayLike) -> FloatArray:
        """Return the calibrated log-likelihood ratio of "same" against "different".

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features)
            Pairs of vectors; pairs of indices, shape (n_pairs, 2), if there is a `preprocessor`.

        Returns
        -------
        ndarray of shape (n_pairs,)
            Ratios in nats; positive values favour the same entity.
        """
        x, index = self._pair_rows(pairs)
        slope, intercept = self._calibration
        return np.asarray(slope * self._model.scores(x, index, self.n_jobs) + intercept)

    def pair_score(self, pairs: ArrayLike) -> FloatArray:
        """Return the similarity of the vectors of each pair: that of `decision_function`.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features)
            Pairs of vectors; pairs of indices, shape (n_pairs, 2), if there is a `preprocessor`.

        Returns
        -------
        ndarray of shape (n_pairs,)
            Log-likelihood ratios.
        """
        return self.decision_function(pairs)

    def predict_proba(self, pairs: ArrayLike) -> FloatArray:
        """Return the probability that the vectors of each pair are of the same entity.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features)
            Pairs of vectors; pairs of indices, shape (n_pairs, 2), if there is a `preprocessor`.

        Returns
        -------
        ndarray of shape (n_pairs, 2)
            Probabilities of "different" and "same", in the order of `classes_`, if the fraction
            `prior_` of all pairs is of the same entity.
        """
        same = expit(self.decision_function(pairs) + logit(self.prior_))
        return np.stack([1 - same, same], axis=1)

    def predict(self, pairs: ArrayLike) -> IntArray:
        """Return 1 for pairs of the same entity and -1 for others.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features)
            Pairs of vectors; pairs of indices, shape (n_pairs, 2), if there is a `preprocessor`.

        Returns
        -------
        ndarray of shape (n_pairs,)
            1 where `decision_function` is at least `threshold_`, otherwise -1.
        """
        return np.where(self.decision_function(pairs) >= self.threshold_, 1, -1)

    def score(
        self, pairs: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return the area under the ROC curve, which does not depend on the threshold.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features)
            Pairs of vectors; pairs of indices, shape (n_pairs, 2), if there is a `preprocessor`.
        y : array-like of shape (n_pairs,)
            1 for pairs of the same entity and -1 for others.
        sample_weight : array-like of shape (n_pairs,), default=None
            Weights of the pairs.

        Returns
        -------
        float
            Probability that a pair of the same entity scores higher than another pair.
        """
        scores = self.decision_function(pairs)
        labels = _check_pair_labels(y, len(scores))
        return float(roc_auc_score(labels, scores, sample_weight=sample_weight))

    def threshold(self, *, false_match_rate: float) -> float:
        """Return the threshold at which a fraction of the different pairs is taken for the same.

        It comes from the cross-fitted scores of training pairs of different entities. Pass it to
        `set_threshold`. The rate is that among such pairs: among candidates of a search, which are
        alike, it is higher.

        Parameters
        ----------
        false_match_rate : float
            The fraction, in (0, 1). Smaller values need more pairs and miss more true matches.

        Returns
        -------
        float
            Threshold of `decision_function`.
        """
        check_is_fitted(self, "components_")
        check_parameter(
            false_match_rate, "false_match_rate", [Interval(float, 0, 1, closed="neither")]
        )
        scores = self._different_scores
        allowed = int(false_match_rate * len(scores))
        if allowed < 1:
            raise ValueError(
                f"false_match_rate={false_match_rate:g} is below 1/{len(scores)}, the smallest rate "
                f"that {len(scores)} pairs of different entities show. Use a larger rate, or fit with "
                "more pairs."
            )
        return float(np.nextafter(np.sort(scores)[-allowed - 1], np.inf))

    def set_threshold(self, threshold: float) -> PairClassifier:
        """Set the threshold of `predict`.

        Parameters
        ----------
        threshold : float
            Least value of `decision_function` of a pair of the same entity. Larger values give
            fewer false matches and more misses.

        Returns
        -------
        self : PairClassifier
            The estimator.
        """
        check_is_fitted(self, "components_")
        check_parameter(threshold, "threshold", [Interval(float)])
        self.threshold_ = float(threshold)
        return self

    def calibrate_threshold(
        self,
        pairs_valid: ArrayLike,
        y_valid: ArrayLike,
        strategy: Literal["accuracy", "f_beta", "max_tpr", "max_tnr"] = "accuracy",
        min_rate: float | None = None,
        beta: float = 1.0,
    ) -> PairClassifier:
        """Set the threshold that is best for given pairs, preferably pairs not used in `fit`.

        Parameters
        ----------
        pairs_valid : array-like of shape (n_pairs, 2, n_features)
            Pairs of vectors; pairs of indices, shape (n_pairs, 2), if there is a `preprocessor`.
        y_valid : array-like of shape (n_pairs,)
            1 for pairs of the same entity and -1 for others; both must occur.
        strategy : {"accuracy", "f_beta", "max_tpr", "max_tnr"}, default="accuracy"
            What to maximise: the fraction of right predictions, the F-beta score, or the rate of
            found pairs of the same entity (of recognised different pairs) among the thresholds with
            at least `min_rate` of the other.
        min_rate : float, default=None
            Minimum rate of true negatives for "max_tpr", and of true positives for "max_tnr".
        beta : float, default=1.0
            Weight of recall in the F-beta score.

        Returns
        -------
        self : PairClassifier
            The estimator.
        """
        check_is_fitted(self, "components_")
        check_parameter(strategy, "strategy", ["accuracy", "f_beta", "max_tpr", "max_tnr"])
        check_parameter(beta, "beta", [Interval(float, 0)])
        if strategy.startswith("max"):
            check_parameter(min_rate, "min_rate", [Interval(float, 0, 1)])
        scores = self.decision_function(pairs_valid)
        same = _check_pair_labels(y_valid, len(scores)) > 0
        if same.all() or not same.any():
            raise ValueError("y_valid must have pairs of the same entity and of different ones.")
        fpr, tpr, thresholds = roc_curve(same, scores, drop_intermediate=False)
        thresholds[0] = np.nextafter(thresholds[1], np.inf)  # infinity: no pair is the same
        n_same, n_different = np.count_nonzero(same), np.count_nonzero(~same)
        found, false = tpr * n_same, fpr * n_different
        if strategy == "accuracy":
            value = found - false
        elif strategy == "f_beta":
            value = (1 + beta**2) * found / np.maximum(beta**2 * n_same + found + false, 1e-300)
        else:
            first, second = (tpr, 1 - fpr) if strategy == "max_tpr" else (1 - fpr, tpr)
            value = np.where(second >= float(min_rate or 0.0), first, -1.0)
        self.threshold_ = float(thresholds[np.argmax(value)])
        return self

    def get_metric(self) -> Callable[..., float]:
        """Return the distance of `pair_distance` as a function of two vectors.

        Returns
        -------
        callable
            ``metric(u, v, squared=False)``; a later fit does not change it.
        """
        check_is_fitted(self, "components_")
        if not self.normalize:
            return super().get_metric()
        fitted = copy(self)  # a later fit makes new arrays

        def metric(u: ArrayLike, v: ArrayLike, squared: bool = False) -> float:
            a, b = fitted._outputs(np.stack([np.ravel(u), np.ravel(v)]).astype(float))
            return float((a - b) @ (a - b)) if squared else float(np.linalg.norm(a - b))

        return metric

    def _training_vectors(self, pairs: Any) -> tuple[AnyArray, IntArray]:
        """Validate pairs; return distinct vectors, all of a preprocessor, and the rows of pairs."""
        refuse_lazy(pairs, "pairs")
        vectors, index = indexed_pairs(self, pairs, all_vectors=True)
        x = validate_data(self, vectors, dtype=FLOATS)
        if np.ndim(pairs) == 2 and not callable(self.preprocessor):
            return x, index
        hashes = row_hashes(x, np.arange(len(x)))
        _, first, codes = np.unique(hashes, return_index=True, return_inverse=True)
        order = np.argsort(first)  # in the order of the pairs, not of the hashes
        return x[first[order]], np.argsort(order)[codes][index]

    def _fit(
        self, x: AnyArray, groups: IntArray, same: IntArray, different: IntArray, prior: float
    ) -> None:
        """Select and fit the model of vectors, calibrate it and set the attributes."""
        _check_entities(groups)
        n_components = check_n_components(self.n_components, x.shape[1])
        if not self.normalize:
            check_size(x)
        rng = check_random_state(self.random_state)
        with one_blas_thread():
            scores, labels = self._held_out_scores(x, groups, same, different, n_components, rng)
            calibrations = [_calibrate(values, labels) for values in scores]
            losses = np.array([loss for _, _, loss in calibrations])
            best = int(np.argmin(losses))
            (self._model,) = fit_pair_models(
                x, groups, n_components, self.normalize, CANDIDATES[best : best + 1], self.n_jobs
            )
        slope, intercept, _ = calibrations[best]
        self._calibration = slope, intercept
        self._different_scores = slope * scores[best][~labels] + intercept
        self.best_params_ = dict(CANDIDATES[best])
        self.cv_results_ = {"params": [dict(params) for params in CANDIDATES], "log_loss": losses}
        self.classes_, self.prior_ = np.array([-1, 1]), prior
        self.threshold_ = float(-logit(prior))
        _, mean, whitening, axes, ratios = self._model
        L = np.eye(x.shape[1]) if whitening is None else whitening
        if axes is not None and ratios is not None:
            L = axis_lengths(ratios, "detection")[:, None] * axes @ L
        self.components_ = np.asarray(cast_finite(L, x.dtype, "Components"))
        # Without normalize a shift would change nothing but the outputs.
        self._mean = mean if self.normalize else np.zeros_like(mean)
        self.mean_ = self._mean.astype(x.dtype)

    def _held_out_scores(
        self,
        x: AnyArray,
        groups: IntArray,
        same: IntArray,
        different: IntArray,
        n_components: int | None,
        rng: np.random.RandomState,
    ) -> tuple[FloatArray, AnyArray]:
        """Return the scores of pairs by all candidates, fitted on other entities, and labels."""
        paired = np.bincount(groups) > 1
        n_folds = min(self.cv, int(np.count_nonzero(paired)))
        fold = np.empty(len(paired), int)
        for part in (paired, ~paired):
            fold[part] = rng.permutation(np.count_nonzero(part)) % n_folds
        kept = _drawn_vectors(groups, rng)
        fold_of, is_kept = fold[groups], np.zeros(len(x), bool)
        is_kept[kept] = True
        same = same[is_kept[same].all(axis=1)]
        if not len(same):
            same = _pairs_within(kept, groups, rng)
        different = different[rng.permutation(len(different))[:N_DIFFERENT]]
        if len(different) < 50:  # too few to calibrate with
            folds = [kept[fold_of[kept] == k] for k in range(n_folds)]
            n_each = N_DIFFERENT // n_folds
            drawn = [_pairs_between(rows, kept, groups, n_each, rng) for rows in folds]
            different = np.concatenate([different, *drawn])
        pairs = np.concatenate([same, different])
        labels = np.arange(len(pairs)) < len(same)

        # A pair of different entities of two folds is scored in the fold of the first.
        def scores_of_fold(k: int) -> FloatArray:
            train, asked = kept[fold_of[kept] != k], pairs[fold_of[pairs[:, 0]] == k]
            rows, index = np.unique(asked, return_inverse=True)
            index = index.reshape(-1, 2)
            models = fit_pair_models(x[train], groups[train], n_components, self.normalize)
            return np.array([model.scores(x[rows], index) for model in models])

        scores = np.empty((len(CANDIDATES), len(pairs)))
        for k, found in enumerate(map_chunks(scores_of_fold, range(n_folds), self.n_jobs)):
            scores[:, fold_of[pairs[:, 0]] == k] = found
        return scores, labels

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.three_d_array = False, True
        tags.target_tags.required = False
        tags.classifier_tags.multi_class = False
        return tags


def _check_pair_labels(y: ArrayLike, n_pairs: int) -> AnyArray:
    """Return labels of pairs, 1 or -1; raise on others."""
    labels = np.asarray(column_or_1d(y))
    if len(labels) != n_pairs:
        raise ValueError(f"y must have one label per pair, {n_pairs}; got {len(labels)}.")
    if labels.dtype.kind not in "iuf" or not np.isin(labels, (-1, 1)).all():
        raise ValueError(
            "The labels y of pairs must be 1 (same entity) or -1 (different entities); got "
            f"{np.unique(labels)[:5].tolist()}."
        )
    return labels


def _is_unknown(name: Any) -> bool:
    """Return whether the name of an entity stands for an unknown one."""
    return name is None or name == -1 or (isinstance(name, float) and isnan(name))


def _check_entities(groups: IntArray) -> None:
    """Raise if there are too few entities to learn from, and warn if there are few."""
    n_paired = np.count_nonzero(np.bincount(groups) > 1)
    if n_paired < 2:
        raise ValueError(
            "PairClassifier needs pairs of the same entity for at least 2 entities; got "
            f"{'pairs that all join one entity' if n_paired else 'no such pairs'}."
        )
    if n_paired < 50:
        warn_user(
            f"The pairs are of {n_paired} entities. With fewer than about 50, probabilities and "
            "thresholds may not hold for other entities."
        )


def _drawn_vectors(groups: IntArray, rng: np.random.RandomState) -> IntArray:
    """Return the vectors of the cross-validation: whole entities, or a part of each large one."""
    if len(groups) <= MAX_VECTORS:
        return np.arange(len(groups))
    counts = np.bincount(groups)
    most = max(MAX_VECTORS // int(np.count_nonzero(counts > 1)), 8)
    order = rng.permutation(len(groups))
    shuffled = rng.permutation(len(counts))[groups[order]]
    by_group = np.argsort(shuffled, kind="stable")
    order, shuffled = order[by_group], shuffled[by_group]
    order = order[np.arange(len(order)) - np.searchsorted(shuffled, shuffled) < most]
    paired = counts[groups[order]] > 1
    return np.sort(np.r_[order[paired][:MAX_VECTORS], order[~paired][: MAX_VECTORS // 2]])


def _pairs_within(rows: IntArray, groups: IntArray, rng: np.random.RandomState) -> IntArray:
    """Return pairs of the same entity: each vector with the next of its entity."""
    order = rng.permutation(rows)
    order = order[np.argsort(groups[order], kind="stable")]
    pairs = np.stack([order[:-1], order[1:]], axis=1)
    return np.asarray(pairs[groups[pairs[:, 0]] == groups[pairs[:, 1]]])


def _pairs_between(
    rows: IntArray, others: IntArray, groups: IntArray, n_pairs: int, rng: np.random.RandomState
) -> IntArray:
    """Return random pairs of different entities, among `rows` if they are of more than one."""
    several = np.ptp(groups[rows]) > 0
    second = rng.choice(rows if several else others, n_pairs)
    pairs = np.stack([rng.choice(rows, n_pairs), second], axis=1)
    return np.asarray(pairs[groups[pairs[:, 0]] != groups[pairs[:, 1]]])


def _calibrate(scores: FloatArray, labels: AnyArray) -> tuple[float, float, float]:
    """Return slope and intercept that make log-likelihood ratios of held-out scores, and the loss.

    Pairs of the same entity and of different ones have the same weight.
    """
    center, spread = scores.mean(), scores.std() or 1.0
    standard = (scores - center)[:, None] / spread
    fitted = LogisticRegression(class_weight="balanced").fit(standard, labels)
    # Useless scores can have a negative slope. A small positive one keeps their order.
    slope = max(float(fitted.coef_[0, 0]), 1e-6) / spread
    intercept = float(fitted.intercept_[0]) - slope * center
    ratios = slope * scores + intercept
    losses = np.logaddexp(0, -ratios[labels]), np.logaddexp(0, ratios[~labels])
    return slope, intercept, float(np.mean([loss.mean() for loss in losses]))


# The model


class PairModel(NamedTuple):
    """A two-covariance model of whitened vectors; without `ratios`, the cosine or a distance."""

    normalize: bool
    mean: FloatArray
    whitening: FloatArray | None = None
    axes: FloatArray | None = None
    ratios: FloatArray | None = None

    def coordinates(self, x: AnyArray) -> AnyArray:
        """Return the coordinates of vectors on the axes, in their own type."""
        x = unit_vectors(x) if self.normalize else x
        if self.whitening is not None:
            x = (x - self.mean).astype(x.dtype) @ self.whitening.T.astype(x.dtype)
            x = unit_vectors(x) if self.normalize else x
        return x if self.axes is None else np.asarray(x @ self.axes.T.astype(x.dtype))

    def scores(self, x: AnyArray, pairs: IntArray, n_jobs: int | None = None) -> FloatArray:
        """Return the scores of pairs of rows of `x`, before calibration."""
        chunks = row_chunks(len(x), 48 * x.shape[1])
        z = np.empty((len(x), len(self.coordinates(x[:1])[0])), x.dtype)
        parts = map_chunks(lambda rows: self.coordinates(x[rows]), chunks, n_jobs)
        for rows, part in zip(chunks, parts, strict=True):
            z[rows] = part
        if self.ratios is not None:
            return log_likelihood_ratio(z, pairs, self.ratios)
        ones = np.ones(z.shape[1])
        if self.normalize:  # the cosine
            return pair_forms(z, pairs, ones, 0 * ones)
        return pair_forms(z, pairs, 2 * ones, ones)  # minus the squared distance


def fit_pair_models(
    x: AnyArray,
    groups: IntArray,
    n_components: int | None,
    normalize: bool,
    candidates: Sequence[dict[str, Any]] = CANDIDATES,
    n_jobs: int | None = None,
) -> list[PairModel]:
    """Fit candidates to vectors and their groups.

    Vectors are scaled to unit length, centred, whitened by the shrunk covariance within entities
    and scaled again. Then both covariances are estimated again.
    """
    plain = PairModel(normalize, np.zeros(x.shape[1]))
    chunks = row_chunks(len(x), 24 * x.shape[1], budget=2**23)
    sums = map_chunks(lambda rows: plain.coordinates(x[rows]).sum(axis=0, dtype=float), chunks)
    mean = np.asarray(sum(sums) / len(x))
    within, total, degrees = group_moments(x, groups, lambda v: plain.coordinates(v) - mean, n_jobs)
    models = []
    for params in candidates:
        if params["model"] == "cosine":
            leading = None
            if n_components is not None:  # the leading axes of all vectors
                leading = np.linalg.eigh(total + np.outer(mean, mean))[1].T[::-1][:n_components]
            models.append(plain._replace(whitening=leading))
            continue
        factor = params["within_factor"]
        shrunk = _shrunk(within, total, degrees, factor, 0.0)[0]
        white = PairModel(normalize, mean, np.linalg.inv(np.linalg.cholesky(shrunk)))
        # About zero, because whitened vectors are directions. A quarter of the covariance between
        # entities is that of all vectors, for directions that few entities show.
        moments = group_moments(x, groups, white.coordinates, n_jobs)
        axes, ratios = discriminant_axes(*_shrunk(*moments, factor, 0.25))
        models.append(white._replace(axes=axes[:n_components], ratios=ratios[:n_components]))
    return models


def _shrunk(
    within: FloatArray, total: FloatArray, degrees: float, factor: float, between_shrinkage: float
) -> tuple[FloatArray, FloatArray]:
    """Return the shrunk covariances within and between entities."""
    shrinkage = correlation_shrinkage(within / (np.trace(within) or 1.0), degrees)
    return shrunk_covariances(within, total - within, shrinkage, factor, between_shrinkage)

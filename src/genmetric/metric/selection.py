"""GenerativeMetricCV: shrinkage, interpolation and k chosen on rows that are left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state

from genmetric._chunks import one_blas_thread
from genmetric._quiet import quiet
from genmetric._rollback import all_or_nothing
from genmetric._typing import AnyArray, ArrayLike, FloatArray, IntArray
from genmetric._validation import (
    check_count,
    check_fraction,
    check_priors,
    check_weights,
    form_points,
    labelled_rows,
)
from genmetric.density.covariance import check_shrinkage, ledoit_wolf_shrinkage
from genmetric.density.frame import Frame
from genmetric.geometry.factor import rank_limited_factor
from genmetric.geometry.local import interpolate
from genmetric.metric.fitting import check_parameters, combines_by_density
from genmetric.metric.generative import GenerativeMetric
from genmetric.metric.left_out import Part, nearest_others, split_parts, vote_errors
from genmetric.metric.local_geometry import LocalGeometryMixin


class GenerativeMetricCV(LocalGeometryMixin, BaseEstimator):
    r"""A :class:`GenerativeMetric` whose shrinkage and interpolation are chosen by its neighbours.

    Each candidate, a shrinkage of the class covariances and an interpolation lambda of the metric
    with the identity, is judged by the leave-one-out error of nearest neighbours on the training
    rows: every row is classed by the majority of its k nearest others. The candidate with the
    least error, averaged over the numbers of neighbours k, is fitted on all rows, and the k that
    is best under it is reported.

    A metric with little shrinkage knows the rows it was fitted on too well to be judged by them.
    So the rows are dealt into folds, and a row is judged under the metric of the other folds
    (`cv`); its neighbours are always sought among all other rows. ``cv=None`` fits on all rows at
    once, several times faster; safe where every class has many more rows than there are features.

    Class statistics are computed once and merged for each fold; the interpolations of a shrinkage
    share its average of local metrics, since :math:`M(\lambda) = (1-\lambda) I + \lambda M`; and
    one search finds the neighbours for all k.

    Parameters
    ----------
    shrinkages : list of None, "auto" or float, default=(None, "auto", 0.01, 0.1, 0.3, 0.5, 0.9)
        Candidates for `shrinkage`.
    interpolations : list of float, default=(0.25, 0.5, 0.75, 1.0)
        Candidates for `interpolation`.
    n_neighbors : int or list of int, default=(1, 3, 5, 7, 9, 11, 15, 21)
        Numbers of neighbours; those of the number of rows or more are left out.
    cv : int or None, default=5
        Folds, at least 2, or ``None``: see above.
    max_queries : int, default=2000
        Most rows that candidates are judged by; beyond it a random sample, drawn by
        `random_state`. Candidates average the local metrics of so many rows in all folds together
        (of 256 at least in each), while their class models, and the metric chosen, see every row.
    max_references : int, default=20000
        Most rows among which neighbours are sought; beyond it a random sample.
    combination : "uniform", "kde", "gmm" or array-like of shape (n_samples,), default="uniform"
        As in :class:`GenerativeMetric`. The weights of "kde" and "gmm" depend on shrinkage and
        interpolation: every candidate is then a fit of its own, on each fold.
    covariance_estimator : estimator, default=None
        As in :class:`GenerativeMetric`: the covariance of the candidate ``"auto"``.
    class_model : estimator, default=None
        As in :class:`GenerativeMetric`; it has no shrinkage but its own, so that with it
        `shrinkages` are not used and interpolation and k alone are chosen.
    n_components, solver, tol, priors, preprocessor, verbose
        As in :class:`GenerativeMetric`, the same for all candidates.
    max_samples, max_iter, validation_fraction, bandwidth
        As in :class:`GenerativeMetric`; `max_samples` for the metric chosen alone.
    n_jobs : int, default=None
        Threads over chunks of rows. The answer is the same, bit for bit, for every number.
    random_state : int, RandomState instance or None, default=None
        Deals the folds and draws the samples.

    Attributes
    ----------
    best_params_ : dict
        The `shrinkage`, `interpolation` and `n_neighbors` chosen. Equal errors go to the simpler:
        to the larger interpolation, which mixes in less, then to the larger shrinkage (``None`` is
        zero, ``"auto"`` its mean over the classes), and to the smaller k.
    best_score_ : float
        Leave-one-out accuracy with these parameters; as the best of many a little too good.
    best_index_ : int
        The candidate chosen, as an index into the arrays of `cv_results_`.
    best_estimator_ : GenerativeMetric
        The metric chosen, fitted on all rows.
    cv_results_ : dict of ndarrays
        One entry a candidate: `params`, `param_shrinkage`, `param_interpolation`,
        `test_score_k1`, ... (accuracy with 1, ... neighbours), `mean_test_score` (their mean) and
        `rank_test_score`. A table for ``pandas.DataFrame``.
    components_, metric_, metric_stderr_, classes_, means_, covariances_, n_iter_
        Those of `best_estimator_`.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, where X has such.

    See Also
    --------
    GenerativeMetric : The metric with parameters given.

    Examples
    --------
    >>> from genmetric import GenerativeMetricCV
    >>> from genmetric.datasets import load_vehicle
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> X, y = load_vehicle(return_X_y=True)
    >>> metric = GenerativeMetricCV(random_state=0).fit(X[:600], y[:600])
    >>> sorted(metric.best_params_)
    ['interpolation', 'n_neighbors', 'shrinkage']
    >>> neighbors = KNeighborsClassifier(metric.best_params_["n_neighbors"])
    >>> neighbors = neighbors.fit(metric.transform(X[:600]), y[:600])
    >>> bool(neighbors.score(metric.transform(X[600:]), y[600:]) > 0.8)
    True
    """

    def __init__(
        self,
        shrinkages: Any = (None, "auto", 0.01, 0.1, 0.3, 0.5, 0.9),
        *,
        interpolations: Any = (0.25, 0.5, 0.75, 1.0),
        n_neighbors: Any = (1, 3, 5, 7, 9, 11, 15, 21),
        cv: int | None = 5,
        max_queries: int = 2000,
        max_references: int = 20_000,
        combination: Any = "uniform",
        covariance_estimator: Any = None,
        class_model: Any = None,
        n_components: int | None = None,
        solver: str = "auto",
        tol: float = 1e-2,
        max_samples: Any = None,
        max_iter: int = 20,
        validation_fraction: float = 0.2,
        bandwidth: float | None = None,
        priors: ArrayLike | None = None,
        preprocessor: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.shrinkages = shrinkages
        self.interpolations = interpolations
        self.n_neighbors = n_neighbors
        self.cv = cv
        self.max_queries = max_queries
        self.max_references = max_references
        self.combination = combination
        self.covariance_estimator = covariance_estimator
        self.class_model = class_model
        self.n_components = n_components
        self.solver = solver
        self.tol = tol
        self.max_samples = max_samples
        self.max_iter = max_iter
        self.validation_fraction = validation_fraction
        self.bandwidth = bandwidth
        self.priors = priors
        self.preprocessor = preprocessor
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @all_or_nothing
    def fit(self, X: ArrayLike, y: ArrayLike) -> GenerativeMetricCV:
        """Choose shrinkage, interpolation and k, and fit the metric chosen on all rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, or indices of rows with a `preprocessor`.
        y : array-like of shape (n_samples,)
            Class labels.

        Returns
        -------
        self : GenerativeMetricCV
            The fitted estimator.
        """
        shrinkages, interpolations, numbers = self._check_grids()
        rng = check_random_state(self.random_state)
        seed = self.random_state
        if not isinstance(seed, int | np.integer):
            seed = int(rng.randint(2**31 - 1))
        template = self._template(seed)
        check_parameters(template)
        x, labels, classes, codes = labelled_rows(self, form_points(X, self.preprocessor, self), y)
        check_priors(self.priors, len(classes))

        frame = Frame.of(x)
        parts = split_parts(
            x,
            codes,
            len(classes),
            frame,
            cv=self.cv,
            max_queries=self.max_queries,
            rng=rng,
            n_jobs=self.n_jobs,
        )
        references = np.arange(len(x))
        if len(x) > self.max_references:
            references = np.sort(rng.choice(len(x), self.max_references, replace=False))
        k = numbers[numbers < len(references)]
        if not len(k):
            raise ValueError(
                f"n_neighbors={self.n_neighbors!r} is too many for {len(references)} rows, of "
                f"which a row has {len(references) - 1} others. Give a smaller number."
            )
        errors = np.zeros((len(shrinkages), len(interpolations), len(k)))
        n_queries = sum(len(part.queries) for part in parts)
        # What there is to say about the classes the fit of the chosen metric says, once.
        with one_blas_thread(), quiet(UserWarning):
            for part in parts:
                # Rows of the search alone, in the frame: sizes and offsets do no harm there.
                rows = np.union1d(part.queries, references)
                inside, own = frame.inward(x[rows]), codes[rows]
                queries, others = (np.searchsorted(rows, r) for r in (part.queries, references))
                for i, shrinkage in enumerate(shrinkages):
                    metric = self._candidate(template, shrinkage)
                    data = x, labels, codes, classes, frame
                    for j, factor in enumerate(self._factors(metric, interpolations, part, data)):
                        found = nearest_others(
                            inside @ factor.T, queries, others, int(k.max()), self.n_jobs
                        )
                        wrong = vote_errors(own[found], own[queries], len(classes), k)
                        errors[i, j] += wrong * (len(queries) / n_queries)

        auto = float(np.mean([ledoit_wolf_shrinkage(part.stats).mean() for part in parts]))
        self._choose(errors, shrinkages, interpolations, k, auto)
        best = self._candidate(template, self.best_params_["shrinkage"])
        best.set_params(interpolation=self.best_params_["interpolation"], verbose=self.verbose)
        self.best_estimator_ = best.fit(X, y)
        for name in ("weights_", "metric_changes_", "bandwidths_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        for name, value in vars(best).items():
            if name not in best.get_params(deep=False):
                setattr(self, name, value)
        return self

    def _check_grids(self) -> tuple[list[Any], list[float], IntArray]:
        """Candidates as lists, and the numbers of neighbours, ascending."""
        shrinkages = [check_shrinkage(s) for s in as_list(self.shrinkages, "shrinkages")]
        if self.class_model is not None:
            shrinkages = ["auto"]
        interpolations = [
            check_fraction(value, "interpolations")
            for value in as_list(self.interpolations, "interpolations")
        ]
        numbers = [check_count(k, "n_neighbors") for k in as_list(self.n_neighbors, "n_neighbors")]
        if self.cv is not None and check_count(self.cv, "cv") < 2:
            raise ValueError(f"cv must be None or a whole number of at least 2; got {self.cv!r}.")
        check_count(self.max_queries, "max_queries")
        if check_count(self.max_references, "max_references") < 2:
            raise ValueError("max_references must be at least 2: a row and a neighbour.")
        return shrinkages, interpolations, np.unique(numbers)

    def _template(self, seed: int) -> GenerativeMetric:
        """The metric with all parameters that candidates share."""
        shared = GenerativeMetric().get_params(deep=False).keys() & self.get_params(deep=False)
        params = {name: getattr(self, name) for name in shared}
        return GenerativeMetric(**params | {"random_state": seed, "verbose": 0})

    @staticmethod
    def _candidate(template: GenerativeMetric, shrinkage: Any) -> GenerativeMetric:
        """The metric with one of the shrinkages; `covariance_estimator` is another "auto"."""
        candidate: GenerativeMetric = clone(template)
        candidate.set_params(shrinkage=shrinkage)
        if shrinkage != "auto":
            candidate.set_params(covariance_estimator=None)
        return candidate

    def _factors(
        self,
        metric: GenerativeMetric,
        interpolations: list[float],
        part: Part,
        data: tuple[AnyArray, AnyArray, IntArray, AnyArray, Frame],
    ) -> Iterator[FloatArray]:
        """A factor of the metric of `part.train` for each interpolation."""
        x, labels, codes, classes, frame = data
        if combines_by_density(self):
            for interpolation in interpolations:
                metric.set_params(interpolation=interpolation)
                yield metric.fit(x[part.train], labels[part.train]).components_
            return
        job = metric._prepare(
            frame, part.stats, classes, len(part.averaged), (x[part.train], codes[part.train], None)
        )
        weights = None
        if not isinstance(self.combination, str):
            weights = check_weights(self.combination, len(x), "combination")[part.averaged]
        mean = job.metric_sum(x[part.averaged], weights).mean()
        if self.n_components is None:
            # One eigendecomposition for all: the identity has any axes.
            eigenvalues, axes = np.linalg.eigh(mean)
            for interpolation in interpolations:
                mixed = (1 - interpolation) + interpolation * np.maximum(eigenvalues, 0.0)
                yield (axes * np.sqrt(mixed)).T
        else:
            covariance = part.stats.total_covariance
            for interpolation in interpolations:
                mixed = interpolate(mean, interpolation)
                yield rank_limited_factor(mixed, self.n_components, covariance)

    def _choose(
        self,
        errors: FloatArray,
        shrinkages: list[Any],
        interpolations: list[float],
        k: IntArray,
        auto: float,
    ) -> None:
        """Set the results from errors of shape (n_shrinkages, n_interpolations, n_numbers)."""
        scores = np.round(1 - errors.reshape(-1, len(k)), 12)  # equal counts, equal scores
        grid = list(product(shrinkages, interpolations))
        amount = {None: 0.0, "auto": auto}
        simple = [(-v, -amount.get(s, s)) for s, v in grid]
        mean = np.round(scores.mean(axis=1), 12)
        self.best_index_ = min(range(len(grid)), key=lambda c: (-mean[c], simple[c]))
        chosen = scores[self.best_index_]
        self.best_score_ = float(chosen.max())
        self.best_params_ = {
            "shrinkage": grid[self.best_index_][0],
            "interpolation": grid[self.best_index_][1],
            "n_neighbors": int(k[chosen.argmax()]),
        }
        names = np.empty(len(grid), object)
        names[:] = [shrinkage for shrinkage, _ in grid]
        self.cv_results_ = {
            "params": [{"shrinkage": s, "interpolation": v} for s, v in grid],
            "param_shrinkage": names,
            "param_interpolation": np.array([v for _, v in grid]),
            "mean_test_score": mean,
            "rank_test_score": rankdata(-mean, method="min").astype(np.int32),
            **{f"test_score_k{number}": column for number, column in zip(k, scores.T, strict=True)},
        }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def as_list(values: Any, name: str) -> list[Any]:
    """The candidates of a parameter as a list; a single one may come without."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        return [values]
    found = list(values)
    if not found:
        raise ValueError(f"{name} is empty. Give at least one value to choose from.")
    return found

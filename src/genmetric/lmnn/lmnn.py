"""LMNN: the large-margin nearest-neighbour metric (eq. eLMNN) as an estimator."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, get_args

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from genmetric._chunks import check_n_jobs, one_blas_thread
from genmetric._rollback import all_or_nothing
from genmetric._typing import AnyArray, ArrayLike, FloatArray, IntArray
from genmetric._validation import (
    as_number,
    check_count,
    check_fraction,
    check_n_components,
    form_points,
    labelled_rows,
)
from genmetric.density.frame import Frame
from genmetric.lmnn.initial import best_length, check_init, initial_factor
from genmetric.lmnn.objective import Evaluation, Loss, Problem
from genmetric.lmnn.solver import Solution, minimize_objective
from genmetric.lmnn.targets import target_neighbors
from genmetric.metric.mahalanobis import MahalanobisMixin


class LMNN(MahalanobisMixin, BaseEstimator):
    r"""The large-margin nearest-neighbour metric, by L-BFGS over its factor.

    Each row :math:`x_i` has target neighbours :math:`x_i^+`, the nearest rows of its own class
    under the initial metric. The metric M = LᵀL pulls them near and pushes rows :math:`x_l` of
    other classes a margin of one beyond them. With squared distances
    :math:`d_{ij} = \|L(x_i - x_j)\|^2` it minimises (eq. eLMNN)

    .. math::
        (1 - \mu) \sum_i \sum_{j \in x_i^+} d_{ij}
        + \mu \sum_i \sum_{j \in x_i^+} \sum_{l:\, y_l \ne y_i} (1 + d_{ij} - d_{il})_+ .

    Parameters
    ----------
    n_neighbors : int, default=3
        Target neighbours of a row. A class with fewer other rows gives as many as it has, with a
        warning; the row of a class of one has no targets and is only pushed away.
    n_components : int, default=None
        Rows of L; ``None`` keeps as many as the start has, all for the named ones.
    init : str, array-like of shape (n_components, n_features) or estimator, default="auto"
        The initial metric. It chooses the targets, and L-BFGS starts from it.

        - ``"auto"``: :class:`GenerativeMetric`;
        - ``"identity"``: the Euclidean metric, or the first `n_components` features;
        - ``"pca"``: the leading principal components;
        - ``"lda"``: the leading linear discriminants, which make the classes round; where all
          are kept, the inverse of the within-class covariance;
        - ``"random"``: normal random entries;
        - an array: the factor itself;
        - a metric with `components_`: that factor. One that is not fitted is cloned and fitted:
          ``LMNN(init=LMNN())`` chooses targets anew under the metric of a first pass.

        Where a metric has more components than `n_components`, the leading principal components
        of the rows in its space are taken.
    push : float, default=0.5
        The weight :math:`\mu` of the margins against the pull, in [0, 1].
    loss : {"hinge", "squared_hinge"}, default="hinge"
        Whether a violated margin costs what it lacks, as above, or the square of that.
    max_iter : int, default=200
        Most iterations of L-BFGS.
    tol : float, default=1e-6
        The fit ends when an iteration lowers the objective by less than this share of its start.
    warm_start : bool, default=False
        Whether to start from the `components_` of the last fit. The targets are still chosen
        by `init`, so a second fit on the same rows goes on where the first one ended.
    callback : callable, default=None
        Called after each iteration as ``callback(n_iter, objective, components)``. The fit ends
        when it returns a true value.
    preprocessor : array-like or callable, default=None
        Looks rows up where indices are passed instead, as in metric-learn.
    n_jobs : int, default=None
        Threads. The answer is the same, bit for bit, for every number.
    random_state : int, RandomState instance or None, default=None
        Draws the entries of ``init="random"``; nothing else is left to chance.
    verbose : int, default=0
        Whether to print a line for each iteration.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The factor L.
    metric_ : ndarray of shape (n_features, n_features)
        The metric M = LᵀL.
    objective_ : float
        The objective at L, over all triplets.
    n_iter_ : int
        Iterations of L-BFGS.
    classes_ : ndarray of shape (n_classes,)
        Class names.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, where X has such.

    See Also
    --------
    GenerativeMetric : A metric in closed form.
    sklearn.neighbors.NeighborhoodComponentsAnalysis : Another objective over L.

    Notes
    -----
    **Scale.** The margin is one whatever the unit of the features, and that is no loss: where L
    minimises the objective for rows X, L/c does for rows cX, with the same value. The unit only
    moves the start away from the minimum, so the start is first multiplied by the number that
    makes the objective least; whatever length `init` has does not matter. (A margin m in place of
    one would multiply L by √m.) The scales of the features against each other matter in one
    place: under ``"identity"`` and ``"pca"`` they choose the targets.

    **Against metric-learn.** With ``init="identity"`` and ``push=1-regularization`` the objective
    is the one of metric-learn's LMNN, so its values compare.

    **Minimisation.** In M the problem is convex; from other starts a square L reaches the same
    minimum. L-BFGS sees hinges whose kink is rounded over 0.003 of the margin, and at the end
    `objective_` is that of the plain hinge.

    **Memory.** Rows of other classes near a row are found by matrix products over chunks of rows
    and kept as an active set of pairs, at most 134 MB. The search is repeated when L has moved,
    and at the end: the fit is over when no violated triplet is outside the set. With more pairs
    than that every evaluation searches, which takes longer but no more memory.

    References
    ----------
    K. Q. Weinberger and L. K. Saul, Distance metric learning for large margin nearest neighbor
    classification, Journal of Machine Learning Research 10 (2009).

    Examples
    --------
    >>> from genmetric import LMNN
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> X, y = load_wine(return_X_y=True)
    >>> plain = cross_val_score(KNeighborsClassifier(), X, y).mean()
    >>> learned = make_pipeline(LMNN(), KNeighborsClassifier())
    >>> bool(cross_val_score(learned, X, y).mean() > plain + 0.2)
    True
    """

    def __init__(
        self,
        n_neighbors: int = 3,
        *,
        n_components: int | None = None,
        init: Any = "auto",
        push: float = 0.5,
        loss: Loss = "hinge",
        max_iter: int = 200,
        tol: float = 1e-6,
        warm_start: bool = False,
        callback: Callable[[int, float, FloatArray], Any] | None = None,
        preprocessor: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.n_components = n_components
        self.init = init
        self.push = push
        self.loss = loss
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.callback = callback
        self.preprocessor = preprocessor
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @all_or_nothing
    def fit(self, X: ArrayLike, y: ArrayLike) -> LMNN:
        """Choose the targets and minimise the objective.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, or indices of rows with a `preprocessor`.
        y : array-like of shape (n_samples,)
            Class labels.

        Returns
        -------
        self : LMNN
            The fitted estimator.
        """
        self._check_parameters()
        warm = self.components_ if self.warm_start and hasattr(self, "components_") else None
        points = form_points(X, self.preprocessor, self)
        x, _, classes, codes = labelled_rows(self, points, y)
        n_components = check_n_components(self.n_components, x.shape[1])
        n_neighbors = self._count_targets(classes, codes)

        with one_blas_thread():
            frame = Frame.of(x)
            rows = frame.inward(x)
            L = initial_factor(
                self.init,
                x,
                codes,
                n_components=n_components,
                n_jobs=self.n_jobs,
                random_state=self.random_state,
            )
            targets = target_neighbors(rows @ L.T, codes, n_neighbors)
            problem = Problem.of(rows, codes, targets, push=self.push, loss=self.loss)
            if warm is None:
                L *= best_length(problem, L)
            elif warm.shape == L.shape:
                L = warm * frame.scale
            else:
                raise ValueError(
                    f"warm_start goes on from components_ of shape {warm.shape}, but this fit "
                    f"needs {L.shape}. Fit with warm_start=False first."
                )
            solution = minimize_objective(
                problem,
                L,
                max_iter=int(self.max_iter),
                tol=float(self.tol),
                n_jobs=self.n_jobs,
                callback=self._report(frame.scale),
            )

        self.classes_ = classes
        self.components_ = solution.L / frame.scale
        self.metric_ = self.components_.T @ self.components_
        self.objective_, self.n_iter_ = solution.value, solution.n_iter
        self._conclude(solution)
        return self

    def _check_parameters(self) -> None:
        """Refuse what cannot be used before any work is done."""
        check_count(self.n_neighbors, "n_neighbors")
        check_count(self.max_iter, "max_iter")
        check_fraction(self.push, "push")
        check_init(self.init)
        check_n_jobs(self.n_jobs)
        tol = as_number(self.tol)
        if tol is None or not 0 <= tol < np.inf:
            raise ValueError(f"tol must be a number of at least 0; got {self.tol!r}.")
        if self.loss not in get_args(Loss):
            raise ValueError(f'loss must be "hinge" or "squared_hinge"; got {self.loss!r}.')
        if self.callback is not None and not callable(self.callback):
            raise TypeError(f"callback must be None or a function; got {self.callback!r}.")

    def _count_targets(self, classes: AnyArray, codes: IntArray) -> int:
        """Targets of a row at most; a warning names the classes that are too small for them."""
        sizes = np.bincount(codes)
        if sizes.max() == 1:
            raise ValueError(
                "Every class has a single row, so no row has a neighbour of its own class to be "
                "pulled to. LMNN needs classes of at least 2 rows."
            )
        small = sizes <= self.n_neighbors
        if small.any():
            warnings.warn(
                f"Classes {classes[small].tolist()} have {sizes[small].tolist()} rows, too few for "
                f"n_neighbors={self.n_neighbors} targets of their own class besides the row: these "
                "rows have fewer targets. Lower n_neighbors, or merge classes this small.",
                UserWarning,
                stacklevel=4,
            )
        return int(min(self.n_neighbors, sizes.max() - 1))

    def _report(self, scale: float) -> Callable[[int, Evaluation, FloatArray], Any]:
        """What is done after an iteration."""

        def report(n_iter: int, found: Evaluation, L: FloatArray) -> Any:
            if self.verbose:
                print(  # noqa: T201
                    f"[LMNN] iteration {n_iter}: objective {found.value:.6g}, "
                    f"{found.n_triplets} violated triplets"
                )
            return self.callback is not None and self.callback(n_iter, found.value, L / scale)

        return report

    def _conclude(self, solution: Solution) -> None:
        """Say how the fit ended."""
        if solution.reason == "max_iter":
            warnings.warn(
                f"LMNN did not converge in max_iter={self.max_iter} iterations. Raise max_iter or "
                "tol, or go on with warm_start=True.",
                ConvergenceWarning,
                stacklevel=4,
            )
        if self.verbose:
            print(  # noqa: T201
                f"[LMNN] {solution.reason}: objective {solution.value:.6g}, {solution.n_iter} "
                f"iterations, {solution.n_evaluations} evaluations, {solution.n_searches} searches"
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

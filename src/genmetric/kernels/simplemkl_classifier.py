"""SimpleMKLClassifier: a support vector machine that learns which kernels to use."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    clone,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from genmetric._chunks import one_blas_thread, row_chunks
from genmetric._rollback import all_or_nothing
from genmetric._typing import AnyArray, ArrayLike, FloatArray
from genmetric._validation import as_number, encode_classes, refuse_lazy
from genmetric.kernels.gram import (
    check_kernels,
    check_memory,
    check_stack,
    check_symmetric,
    combine,
    gram_matrix,
    gram_stack,
    readable_bytes,
    unit_trace_factors,
)
from genmetric.kernels.regional import RegionalKernels
from genmetric.kernels.simplemkl import SOLVERS, MKLResult, MKLStep, simplemkl
from genmetric.kernels.svm import BinaryProblem, binary_problems, class_scores


class SimpleMKLClassifier(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClassifierMixin, BaseEstimator
):
    r"""Support vector machine on a convex combination of kernels that it learns (SimpleMKL).

    The weights of the kernels :math:`K_m` and the machine are optimised together,

    .. math:: \min_{d \ge 0,\, \sum_m d_m = 1} \; \max_{0 \le \beta \le C,\, \beta^T y = 0} \;
              \beta^T e - \tfrac12 \sum_{ij} \beta_i y_i
              \Big(\sum_m d_m K_m(x_i, x_j)\Big) y_j \beta_j ,

    which is convex and leaves most weights at zero. With more than two classes the objectives of
    the two-class problems are summed, so that all share the weights.

    Parameters
    ----------
    kernels : list, RegionalKernels, "precomputed" or None, default=None
        What to combine: a list of functions of two arrays of rows (such as
        :func:`~genmetric.metric_kernel` or ``functools.partial(rbf_kernel, gamma=2)``) and of
        names that :func:`sklearn.metrics.pairwise.pairwise_kernels` knows; a
        :class:`RegionalKernels`, cloned and fitted; ``"precomputed"``, where `X` is a stack of
        Gram matrices; ``None`` is ``RegionalKernels(n_regions=0)``, Gaussian kernels of 15
        bandwidths on Euclidean distances.
    C : float, default=1.0
        Bound of the multipliers, as in :class:`sklearn.svm.SVC`.
    strategy : "ovo" or "ovr", default="ovo"
        More than two classes: one problem a pair of classes, or one a class against the rest.
    shared_weights : bool, default=True
        Whether all two-class problems share the kernel weights. With False each has its own, and
        there is no `transform`.
    normalize : bool, default=True
        Scale each kernel to a mean diagonal of one on the training rows. Gaussian kernels have
        that already, so that C means what it means for :class:`sklearn.svm.SVC`.
    solver : "newton" or "gradient", default="newton"
        How to step: by second derivatives of the objective, or by SimpleMKL's reduced gradient
        until that crawls, which needs many times more solutions of the machines. The minimum is
        the same.
    tol : float, default=0.01
        Largest relative duality gap. Weights that stand still do not end the fit. libsvm keeps
        kernel values in single precision: less than 1e-4 may be out of reach where C is large.
    max_iter : int, default=200
        Largest number of steps.
    warm_start : bool, default=False
        Start from the weights of the last fit where there are as many kernels, which over a path
        of C saves two thirds of the time. What is found lies within the same duality gap.
    n_jobs : int, default=None
        Threads. The answer is the same, bit for bit, for every number.
    verbose : int, default=0
        Whether to print the memory needed and each iteration.

    Attributes
    ----------
    weights_ : ndarray of shape (n_kernels,)
        Kernel weights, of sum one; shape (n_problems, n_kernels) with ``shared_weights=False``.
    normalization_ : ndarray of shape (n_kernels,)
        Factor of each kernel; the combined kernel is the sum of ``weights_ * normalization_ * K``.
    objective_ : float
        Dual objective of the machines at the weights, summed over problems.
    duality_gap_ : float
        Relative duality gap: what the objective may be above the least possible, over the
        objective; at most `tol` unless a warning says otherwise.
    n_iter_ : int
        Number of iterations, the one that found the gap small enough included; with
        ``shared_weights=False`` the largest of all problems.
    history_ : list of MKLStep
        Objective, gap, number of kernels and of solved machines at each iteration; with
        ``shared_weights=False`` one such list a problem.
    classes_ : ndarray of shape (n_classes,)
        Class names.
    kernels_ : list, RegionalKernels or "precomputed"
        The kernels, fitted.
    support_ : ndarray of shape (n_support,)
        Training rows that are support vectors of some problem.
    dual_coef_ : ndarray of shape (n_problems, n_support)
        Multiplier times sign of each.
    intercept_ : ndarray of shape (n_problems,)
        Offsets of the decisions.
    n_features_in_ : int
        Number of features seen in `fit`; of training rows for ``kernels="precomputed"``.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, where X has such.

    See Also
    --------
    RegionalKernels : Gaussian kernels of regional metrics.
    sklearn.svm.SVC : One kernel.

    Notes
    -----
    The Gram matrices of all kernels are held in memory during `fit`, 8 bytes an entry (4 for
    float32 rows): 432 MB for 150 kernels on 600 rows. :class:`MemoryError` says so beforehand where
    they do not fit. A precomputed stack may be a memory map and is not copied.

    References
    ----------
    A. Rakotomamonjy, F. Bach, S. Canu and Y. Grandvalet, SimpleMKL, Journal of Machine Learning
    Research 9, 2491-2521 (2008).

    O. Chapelle and A. Rakotomamonjy, Second order optimization of kernel parameters, NIPS workshop
    on kernel learning (2008).

    Examples
    --------
    >>> from genmetric.kernels import RegionalKernels, SimpleMKLClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> kernels = RegionalKernels(n_regions=2, random_state=0)
    >>> model = SimpleMKLClassifier(kernels, C=10).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.9)
    True
    >>> bool(model.duality_gap_ <= 0.01)
    True
    """

    history_: list[MKLStep] | list[list[MKLStep]]

    def __init__(
        self,
        kernels: Any = None,
        *,
        C: float = 1.0,
        strategy: str = "ovo",
        shared_weights: bool = True,
        normalize: bool = True,
        solver: str = "newton",
        tol: float = 0.01,
        max_iter: Any = 200,
        warm_start: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.kernels = kernels
        self.C = C
        self.strategy = strategy
        self.shared_weights = shared_weights
        self.normalize = normalize
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.verbose = verbose

    @all_or_nothing
    def fit(self, X: ArrayLike, y: ArrayLike) -> SimpleMKLClassifier:
        """Learn the kernel weights and the support vector machines.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training rows; with ``kernels="precomputed"`` their Gram matrices, shape
            (n_kernels, n_samples, n_samples).
        y : array-like of shape (n_samples,)
            Class labels.

        Returns
        -------
        self : SimpleMKLClassifier
            The fitted estimator.
        """
        self._check_parameters()
        refuse_lazy(X)
        refuse_lazy(y, "y")
        precomputed = isinstance(self.kernels, str) and self.kernels == "precomputed"
        if precomputed:
            labels = column_or_1d(y, warn=True)
            x = check_stack(X, shape=(None, len(labels), len(labels)))
            self.n_features_in_ = len(labels)
        else:
            x, labels = validate_data(self, X, y, dtype=[np.float64, np.float32])
        check_classification_targets(labels)
        classes, codes = encode_classes(labels, self)
        problems = binary_problems(codes, len(classes), self.strategy)
        with one_blas_thread():
            fitted, stack = self._fit_kernels(x, labels, len(problems))
            n_kernels = len(stack)
            factors = unit_trace_factors(stack) if self.normalize else np.ones(n_kernels)
            groups = [problems] if self.shared_weights else [[problem] for problem in problems]
            starts = self._starts(len(groups), n_kernels)
            results = [
                self._learn(stack, group, factors, start)
                for group, start in zip(groups, starts, strict=True)
            ]
        self.classes_, self.kernels_, self.normalization_ = classes, fitted, factors
        self._sides = [(problem.positive, problem.negative) for problem in problems]
        self._X_fit = None if precomputed else x
        self._n_fit = len(labels)
        self._store(results)
        return self

    def _check_parameters(self) -> None:
        for name in ("C", "tol"):
            number = as_number(getattr(self, name))
            if number is None or not 0 < number < np.inf:
                raise ValueError(f"{name} must be a positive number; got {getattr(self, name)!r}.")
        if not isinstance(self.max_iter, Integral) or self.max_iter < 1:
            raise ValueError(
                f"max_iter must be a whole number of at least 1; got {self.max_iter!r}."
            )
        if self.solver not in SOLVERS:
            raise ValueError(f"solver must be one of {sorted(SOLVERS)}; got {self.solver!r}.")

    def _fit_kernels(self, x: AnyArray, labels: AnyArray, n_problems: int) -> tuple[Any, AnyArray]:
        """The fitted kernels and their Gram matrices on the training rows."""
        fitted: Any
        if isinstance(self.kernels, str) and self.kernels == "precomputed":
            check_symmetric(x)
            self._announce(len(x), x.shape[1], n_problems, 0)
            return "precomputed", x
        if self.kernels is None or callable(getattr(self.kernels, "gram", None)):
            template = RegionalKernels(n_regions=0) if self.kernels is None else self.kernels
            fitted = clone(template).fit(x, labels)
            self._announce(fitted.n_kernels_, len(x), n_problems, x.dtype.itemsize)
            return fitted, fitted.gram(x)
        fitted = check_kernels(self.kernels)
        self._announce(len(fitted), len(x), n_problems, x.dtype.itemsize)
        stack = check_stack(gram_stack(fitted, x), shape=(None, None, None), name="kernels")
        check_symmetric(stack)
        return fitted, stack

    def _announce(self, n_kernels: int, n_rows: int, n_problems: int, itemsize: int) -> None:
        """Check, and say where asked, what the fit will hold at once."""
        # Products of kernels and solutions; a few combined matrices; libsvm's copies.
        work = 8 * n_rows * (n_kernels * n_problems + 6 * n_rows)
        total = n_kernels * n_rows**2 * itemsize + work
        what = f"Learning {n_kernels} kernels on {n_rows} rows"
        check_memory(total, what)
        if self.verbose:
            print(f"[SimpleMKLClassifier] {what} takes {readable_bytes(total)}")  # noqa: T201

    def _starts(self, n_groups: int, n_kernels: int) -> list[FloatArray | None]:
        """First weights of each group of problems; None is equal weights."""
        last = np.atleast_2d(getattr(self, "weights_", np.empty(0)))
        if self.warm_start and last.shape == (n_groups, n_kernels):
            return list(last)
        return [None] * n_groups

    def _learn(
        self,
        stack: AnyArray,
        problems: list[BinaryProblem],
        factors: FloatArray,
        start: FloatArray | None,
    ) -> MKLResult:
        result = simplemkl(
            stack,
            problems,
            C=float(self.C),
            factors=factors,
            start=start,
            solver=self.solver,
            tol=float(self.tol),
            max_iter=int(self.max_iter),
            n_jobs=self.n_jobs,
            verbose=self.verbose,
        )
        if not result.converged:
            ran_out = len(result.history) > self.max_iter
            advice = "Raise max_iter" if ran_out else "Raise tol: libsvm's precision is used up"
            warnings.warn(
                f"SimpleMKLClassifier stopped at a relative duality gap of "
                f"{result.duality_gap:.2g} after {len(result.history)} iterations, above "
                f"tol={self.tol:g}. {advice}, or check that the kernels are positive "
                "semidefinite.",
                ConvergenceWarning,
                stacklevel=4,
            )
        return result

    def _store(self, results: list[MKLResult]) -> None:
        weights = np.array([result.weights for result in results])
        histories = [result.history for result in results]
        coef = np.hstack([result.solution.coef for result in results])
        gaps = sum(result.duality_gap * result.objective for result in results)
        self.objective_ = float(sum(result.objective for result in results))
        self.duality_gap_ = float(gaps / self.objective_)
        self.n_iter_ = max(map(len, histories))
        self.weights_ = weights[0] if self.shared_weights else weights
        self.history_ = histories[0] if self.shared_weights else histories
        self.support_ = np.flatnonzero(coef.any(axis=1))
        self.dual_coef_ = coef[self.support_].T
        self.intercept_ = np.concatenate([result.solution.intercept for result in results])

    def _queries(self, X: Any) -> AnyArray:
        """Validated rows, or a validated stack, to compare with the training rows."""
        check_is_fitted(self, "weights_")
        refuse_lazy(X)
        if self._X_fit is None:
            return check_stack(X, shape=(len(self.normalization_), None, self._n_fit))
        return np.asarray(validate_data(self, X, dtype=[np.float64, np.float32], reset=False))

    def _combined(self, queries: AnyArray, weights: FloatArray) -> Iterator[FloatArray]:
        """Combined Gram matrices of blocks of queries against the training rows.

        Only kernels of non-zero weight are evaluated.
        """
        total = weights * self.normalization_
        n_queries = queries.shape[1] if self._X_fit is None else len(queries)
        for rows in row_chunks(n_queries, 3 * 8 * self._n_fit):
            if self._X_fit is None:
                yield combine(queries[:, rows], total, self.n_jobs)
            elif isinstance(self.kernels_, list):
                out = np.zeros((rows.stop - rows.start, self._n_fit))
                for m in np.flatnonzero(total):
                    K = gram_matrix(self.kernels_[m], queries[rows], self._X_fit)
                    if not np.isfinite(K).all():
                        raise ValueError(
                            f"kernels[{m}] returned NaN or infinite values for these rows."
                        )
                    out += total[m] * K
                yield out
            else:
                yield self.kernels_.combined_gram(total, queries[rows], self._X_fit)

    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Scores of the classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; with ``kernels="precomputed"`` their Gram matrices against the training rows,
            shape (n_kernels, n_samples, n_training_samples).

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes the decision value, above zero for ``classes_[1]``. For more, the
            decision of each class against the rest, or with ``strategy="ovo"`` the number of
            pairs that the class wins plus a part below one half that breaks ties.
        """
        queries = self._queries(X)
        coef = np.zeros((self._n_fit, len(self.dual_coef_)))
        coef[self.support_] = self.dual_coef_.T
        table = np.atleast_2d(self.weights_)
        with one_blas_thread():
            decisions = np.hstack(
                [
                    np.vstack([K @ own for K in self._combined(queries, weights)])
                    for weights, own in zip(table, np.hsplit(coef, len(table)), strict=True)
                ]
            )
        return class_scores(decisions + self.intercept_, self._sides, len(self.classes_))

    def predict(self, X: ArrayLike) -> AnyArray:
        """Class of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, or a stack of Gram matrices as in :meth:`decision_function`.

        Returns
        -------
        ndarray of shape (n_samples,)
            Class names.
        """
        scores = self.decision_function(X)
        best = scores > 0 if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[np.asarray(best, np.intp)])

    def transform(self, X: ArrayLike) -> Any:
        r"""The combined Gram matrix :math:`\sum_m d_m K_m` against the training rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, or a stack of Gram matrices as in :meth:`decision_function`.

        Returns
        -------
        ndarray of shape (n_samples, n_training_samples)
            Kernel values, ready for ``SVC(kernel="precomputed")``; float32 where X is.
        """
        check_is_fitted(self, "weights_")
        if self.weights_.ndim == 2:
            raise ValueError(
                "There are as many combined kernels as two-class problems. Fit with "
                "shared_weights=True for a single one."
            )
        queries = self._queries(X)
        n_queries = queries.shape[1] if self._X_fit is None else len(queries)
        size = n_queries * self._n_fit * queries.dtype.itemsize
        check_memory(size, f"The combined Gram matrix of shape {(n_queries, self._n_fit)}")
        with one_blas_thread():
            blocks = [K.astype(queries.dtype) for K in self._combined(queries, self.weights_)]
        return np.vstack(blocks)

    @property
    def _n_features_out(self) -> int:
        return self._n_fit

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        if isinstance(self.kernels, str) and self.kernels == "precomputed":
            tags.input_tags.two_d_array = False
            tags.input_tags.three_d_array = True
        return tags

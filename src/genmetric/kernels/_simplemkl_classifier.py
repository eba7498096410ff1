"""SimpleMKLClassifier: a support vector machine with learned kernel weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data

from genmetric._chunks import one_blas_thread
from genmetric._labels import check_class_labels
from genmetric._logging import log_progress
from genmetric._memory import check_memory, readable_bytes
from genmetric._parameters import (
    BOOLEAN,
    N_JOBS,
    VERBOSE,
    Interval,
    ParameterRules,
    check_parameters,
)
from genmetric._rollback import restore_on_error
from genmetric._typing import AnyArray, ArrayLike, FloatArray
from genmetric._validation import encode_classes, query_rows, refuse_lazy
from genmetric._warnings import warn_user
from genmetric.kernels._gram import (
    FEWER_KERNELS,
    check_stack,
    unit_trace_factors,
)
from genmetric.kernels._kernel_sources import (
    combined_blocks,
    count_kernels,
    fit_kernels,
    learning_bytes,
    training_stack,
)
from genmetric.kernels._simplemkl import MKLResult, MKLStep, simplemkl
from genmetric.kernels._svm import (
    BinaryProblem,
    binary_problems,
    class_probabilities,
    class_scores,
    n_binary_problems,
)


class SimpleMKLClassifier(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClassifierMixin, BaseEstimator
):
    r"""Support vector machine on a learned convex combination of kernels (SimpleMKL).

    The weights of the kernels :math:`K_m` and the support vector machine are optimised together,

    .. math:: \min_{d \ge 0,\, \sum_m d_m = 1} \; \max_{0 \le \beta \le C,\, \beta^T y = 0} \;
              \beta^T e - \tfrac12 \sum_{ij} \beta_i y_i
              \Big(\sum_m d_m K_m(x_i, x_j)\Big) y_j \beta_j ,

    which is convex and leaves most weights at zero. With more than two classes the objectives of
    the two-class problems are summed, so that all share the weights.

    Parameters
    ----------
    kernels : list, RegionalKernels, "precomputed" or None, default=None
        Kernels to combine: a list of functions of two arrays of samples (such as
        :func:`~genmetric.metric_kernel` or ``functools.partial(rbf_kernel, gamma=2)``) and of
        names of :func:`sklearn.metrics.pairwise.pairwise_kernels`; a
        :class:`RegionalKernels`, which is cloned and fitted; ``"precomputed"`` if `X` is a stack of
        Gram matrices; ``None`` is ``RegionalKernels(n_regions=0)``, Gaussian kernels of 15
        bandwidths on Euclidean distances.
    C : float, default=1.0
        Penalty of errors, as in :class:`sklearn.svm.SVC`. Smaller values regularise more.
    strategy : "ovo" or "ovr", default="ovo"
        Strategy for more than two classes: one problem per pair of classes, or one per class
        against the rest.
    shared_weights : bool, default=True
        Whether all two-class problems share the kernel weights. With False each problem has its own
        weights, and `transform` is not available.
    normalize : bool, default=True
        Scale each kernel to a mean diagonal of one on the training samples. Gaussian kernels have
        this diagonal already, so that C is comparable with that of :class:`sklearn.svm.SVC`.
    tol : float, default=0.01
        Relative duality gap at which the fit stops; smaller values are more accurate and slower.
        libsvm keeps kernel values in single precision, so that values below 1e-4 may not be reached
        if C is large.
    max_iter : int, default=200
        Maximum number of iterations.
    warm_start : bool, default=False
        Start from the weights of the last fit if the number of kernels is the same, which saves two
        thirds of the time over a path of C. The result has the same duality gap.
    n_jobs : int, default=None
        Number of threads. Results are bit-identical for every value.
    verbose : int, default=0
        If positive, print the required memory and a line per iteration.

    Attributes
    ----------
    weights_ : ndarray of shape (n_kernels,)
        Kernel weights, which sum to one; shape (n_problems, n_kernels) with
        ``shared_weights=False``.
    normalization_ : ndarray of shape (n_kernels,)
        Factor of each kernel; the combined kernel is the sum of ``weights_ * normalization_ * K``.
    objective_ : float
        Dual objective of the support vector machines, summed over problems.
    duality_gap_ : float
        Relative duality gap, an upper bound of the relative distance of the objective to its
        minimum; at most `tol` unless there was a warning.
    n_iter_ : int
        Number of iterations; with ``shared_weights=False`` the maximum over problems.
    history_ : list of MKLStep
        Objective, gap, number of kernels and of solved support vector machines at each iteration;
        with ``shared_weights=False`` one list per problem.
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    kernels_ : list, RegionalKernels or "precomputed"
        Fitted kernels.
    support_ : ndarray of shape (n_support,)
        Indices of training samples that are support vectors of any problem.
    dual_coef_ : ndarray of shape (n_problems, n_support)
        Multiplier times sign of each support vector.
    intercept_ : ndarray of shape (n_problems,)
        Offsets of the decision functions.
    n_features_in_ : int
        Number of features seen during fit; of training samples for ``kernels="precomputed"``.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of features seen during fit. Defined only when X has feature names that are all
        strings.

    See Also
    --------
    RegionalKernels : Gaussian kernels of regional metrics.
    sklearn.svm.SVC : One kernel.

    Notes
    -----
    The Gram matrices of all kernels are held in memory during `fit`, 8 bytes per entry (4 for
    float32 samples): 432 MB for 150 kernels on 600 samples. A :class:`MemoryError` is raised before
    the allocation if they exceed the available memory. A precomputed stack can be a memory map and
    is not copied.

    The quadratic model of Chapelle and Rakotomamonjy replaces the reduced gradient of the original
    SimpleMKL. The minimum is the same, and fewer support vector machines are solved.

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

    _parameter_rules: ClassVar[ParameterRules] = {
        "C": [Interval(float, 0, closed="neither")],
        "strategy": ["ovo", "ovr"],
        "shared_weights": [BOOLEAN],
        "normalize": [BOOLEAN],
        "tol": [Interval(float, 0, closed="neither")],
        "max_iter": [Interval(int, 1)],
        "warm_start": [BOOLEAN],
        "n_jobs": N_JOBS,
        "verbose": VERBOSE,
    }

    history_: list[MKLStep] | list[list[MKLStep]]

    def __init__(
        self,
        kernels: Any = None,
        *,
        C: float = 1.0,
        strategy: str = "ovo",
        shared_weights: bool = True,
        normalize: bool = True,
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
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.verbose = verbose

    @restore_on_error
    def fit(self, X: ArrayLike, y: ArrayLike) -> SimpleMKLClassifier:
        """Learn the kernel weights and the support vector machines.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples; with ``kernels="precomputed"`` their Gram matrices, shape
            (n_kernels, n_samples, n_samples).
        y : array-like of shape (n_samples,)
            Class labels.

        Returns
        -------
        self : SimpleMKLClassifier
            The fitted estimator.
        """
        check_parameters(self)
        refuse_lazy(X)
        refuse_lazy(y, "y")
        precomputed = isinstance(self.kernels, str) and self.kernels == "precomputed"
        if precomputed:
            labels = column_or_1d(y, warn=True)
            x = check_stack(X, shape=(None, len(labels), len(labels)))
            self.n_features_in_ = len(labels)
        else:
            x, labels = validate_data(self, X, y, dtype=[np.float64, np.float32])
        name = type(self).__name__
        check_class_labels(labels, name)
        classes, codes = encode_classes(labels, name)
        n_problems = n_binary_problems(len(classes), self.strategy)
        check_memory(
            8 * len(labels) * (n_problems + 6 * len(labels)),
            f"Solving {n_problems} problems of two classes on {len(labels)} samples",
            'Use fewer samples, fewer classes, or strategy="ovr", which solves one problem per class.',
        )
        problems = binary_problems(codes, len(classes), self.strategy)
        with one_blas_thread():
            fitted, stack = self._gram_matrices(x, labels, len(problems))
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

    def _gram_matrices(
        self, x: AnyArray, labels: AnyArray, n_problems: int
    ) -> tuple[Any, AnyArray]:
        """Fit the kernels and compute their Gram matrices, if the memory suffices."""
        fitted = fit_kernels(self.kernels, x, labels)
        n_kernels = count_kernels(fitted, x)
        needed = learning_bytes(fitted, x, n_kernels, n_problems)
        n_samples = len(labels)
        what = f"Learning {n_kernels} kernels on {n_samples} samples"
        check_memory(needed, what, FEWER_KERNELS)
        if self.verbose:
            log_progress("SimpleMKLClassifier", f"{what} takes {readable_bytes(needed)}")
        return fitted, training_stack(fitted, x)

    def _starts(self, n_groups: int, n_kernels: int) -> list[FloatArray | None]:
        """Return the initial weights of each group of problems; None stands for equal weights."""
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
            tol=float(self.tol),
            max_iter=int(self.max_iter),
            n_jobs=self.n_jobs,
            verbose=self.verbose,
        )
        if not result.converged:
            ran_out = len(result.history) > self.max_iter
            advice = (
                "Increase max_iter"
                if ran_out
                else "Increase tol: it is below the precision of libsvm"
            )
            warn_user(
                f"SimpleMKLClassifier stopped at a relative duality gap of "
                f"{result.duality_gap:.2g} after {len(result.history)} iterations, above "
                f"tol={self.tol:g}. {advice}, or check that the kernels are positive "
                "semidefinite.",
                ConvergenceWarning,
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
        """Validate query samples or a stack of Gram matrices."""
        check_is_fitted(self, "weights_")
        if self._X_fit is None:
            return check_stack(X, shape=(len(self.normalization_), None, self._n_fit))
        return query_rows(self, X)

    def _combined(self, queries: AnyArray, weights: FloatArray) -> Iterator[FloatArray]:
        """Yield combined Gram matrices of blocks of queries against the training samples."""
        return combined_blocks(
            self.kernels_,
            weights * self.normalization_,
            queries,
            self._X_fit,
            self._n_fit,
            self.n_jobs,
        )

    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Compute scores of the classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples; with ``kernels="precomputed"`` their Gram matrices against the training
            samples, shape (n_kernels, n_samples, n_training_samples).

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes the decision value, positive for ``classes_[1]``. For more classes, the
            decision value of each class against the rest, or with ``strategy="ovo"`` the number of
            pairs won by the class plus a number below one half that breaks ties.
        """
        return class_scores(self._decisions(X), self._sides, len(self.classes_))

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        r"""Compute class probabilities from the decision values.

        The logistic function of the decision value of two classes is the probability of the first
        against the second. With ``strategy="ovo"`` the probability of a class is the average of
        its pairwise probabilities; with ``strategy="ovr"`` the values of the classes are divided by
        their sum. If the class that wins the most pairs is not the most probable one, the two
        exchange their probabilities, so that the most probable class is that of :meth:`predict`.
        The probabilities rank samples but are not calibrated; use
        :class:`~sklearn.calibration.CalibratedClassifierCV` for calibrated ones.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples, or a stack of Gram matrices as in :meth:`decision_function`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities in the order of `classes_`; rows sum to one.
        """
        return class_probabilities(self._decisions(X), self._sides, len(self.classes_))

    def _decisions(self, X: Any) -> FloatArray:
        """Compute the decision values of all two-class problems."""
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
        return np.asarray(decisions + self.intercept_)

    def predict(self, X: ArrayLike) -> AnyArray:
        """Predict the class of each sample.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples, or a stack of Gram matrices as in :meth:`decision_function`.

        Returns
        -------
        ndarray of shape (n_samples,)
            Class labels.
        """
        scores = self.decision_function(X)
        best = scores > 0 if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[np.asarray(best, np.intp)])

    def transform(self, X: ArrayLike) -> Any:
        r"""Compute the combined Gram matrix :math:`\sum_m d_m K_m` against the training samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples, or a stack of Gram matrices as in :meth:`decision_function`.

        Returns
        -------
        ndarray of shape (n_samples, n_training_samples)
            Kernel values, for ``SVC(kernel="precomputed")``; float32 if X is.
        """
        check_is_fitted(self, "weights_")
        if self.weights_.ndim == 2:
            raise ValueError(
                "transform needs a single combined kernel, but each two-class problem has its own. Fit "
                "with shared_weights=True."
            )
        queries = self._queries(X)
        n_queries = queries.shape[1] if self._X_fit is None else len(queries)
        size = n_queries * self._n_fit * queries.dtype.itemsize
        check_memory(
            size, f"The combined Gram matrix of shape {(n_queries, self._n_fit)}", FEWER_KERNELS
        )
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

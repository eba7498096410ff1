"""SimpleMKLClassifier: a support vector machine with learned kernel weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    clone,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import kernel_metrics, pairwise_kernels
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.validation import check_is_fitted

from genmetric._parallel import check_memory, one_blas_thread, row_chunks
from genmetric._typing import AnyArray, ArrayLike, FloatArray, IntArray
from genmetric._validation import (
    BOOLEAN,
    CALLABLE,
    FLOATS,
    InstanceOf,
    Interval,
    ParameterRules,
    check_class_labels,
    check_parameter,
    check_parameters,
    encode_classes,
    labelled_rows,
    query_rows,
    refuse_lazy,
    warn_user,
)
from genmetric.kernels.regional import FEWER_KERNELS, RegionalKernels
from genmetric.kernels.simplemkl import Objective, combine, pair_problems, simplemkl


def gram_matrix(kernels: list[Any], m: int, X: AnyArray, Y: AnyArray) -> AnyArray:
    """Compute the Gram matrix of one kernel of a list."""
    kernel = kernels[m]
    by_name = isinstance(kernel, str)
    K = np.asarray(pairwise_kernels(X, Y, metric=kernel) if by_name else kernel(X, Y))
    shape = len(X), len(Y)
    if K.shape != shape or not np.isfinite(K).all():
        found = "NaN or infinite values" if K.shape == shape else f"shape {K.shape}"
        raise ValueError(
            f"kernels[{m}] returned {found} for {len(X)} and {len(Y)} samples. It must return a "
            f"finite number for each pair, shape {shape}. Fix or remove it."
        )
    return K


def check_stack(stack: Any, shape: tuple[int | None, int | None, int]) -> AnyArray:
    """Return precomputed Gram matrices of the given shape as floats; a memory map is not copied."""
    refuse_lazy(stack)
    found = np.shape(stack)
    pairs = zip(shape, found, strict=False)
    if len(found) != 3 or 0 in found or any(s not in (None, t) for s, t in pairs):
        wanted = ", ".join("any" if s is None else str(s) for s in shape)
        raise ValueError(
            f"X must be a stack of Gram matrices of shape ({wanted}): n_kernels, n_samples, "
            f"n_training_samples. Got shape {found}."
        )
    return np.asarray(check_array(stack, dtype=FLOATS, allow_nd=True, input_name="X"))


def check_symmetric(stack: AnyArray) -> None:
    """Raise ValueError if a Gram matrix is not symmetric or has a negative diagonal."""
    for m, K in enumerate(stack):
        level = 1e-5 * float(np.abs(K).max())
        if float(np.abs(K - K.T).max()) > level or float(K.diagonal().min()) < -level:
            raise ValueError(
                f"Kernel {m} is not symmetric on the training samples, or k(x, x) is negative. A "
                "kernel k(x, y) must equal k(y, x) and be positive semidefinite; check the "
                "function, or the order of the samples of a precomputed stack."
            )


def unit_trace_factors(stack: AnyArray) -> FloatArray:
    """Compute the factors that scale each kernel to a mean diagonal of one, if it is not zero."""
    diagonal = np.array([K.diagonal().mean(dtype=float) for K in stack])
    return np.asarray(np.divide(1.0, diagonal, out=np.ones(len(stack)), where=diagonal > 0))


def class_scores(decisions: FloatArray, sides: IntArray, n_classes: int) -> FloatArray:
    """Compute scores of the classes from the decisions of pairs of classes.

    For two classes the score is the decision itself; for more the number of pairs that a class
    wins plus a part below one half that grows with its summed decisions, which breaks ties.
    """
    if n_classes == 2:
        return decisions[:, 0]
    wins, losses = (side[:, None] == np.arange(n_classes) for side in sides.T)
    votes = (decisions > 0) @ wins.astype(float) + (decisions <= 0) @ losses.astype(float)
    strength = decisions @ wins - decisions @ losses
    return np.asarray(votes + 0.45 * strength / (1 + np.abs(strength)))


def class_probabilities(decisions: FloatArray, sides: IntArray, n_classes: int) -> FloatArray:
    """Average the logistic functions of the decisions; the predicted class gets the largest."""
    positive, negative = (side[:, None] == np.arange(n_classes) for side in sides.T)
    total = expit(decisions) @ positive + expit(-decisions) @ negative
    total /= total.sum(axis=1, keepdims=True)
    if n_classes > 2:
        samples, largest = np.arange(len(total)), total.argmax(axis=1)
        winner = class_scores(decisions, sides, n_classes).argmax(axis=1)
        total[samples, [largest, winner]] = total[samples, [winner, largest]]
    return np.asarray(total)


class SimpleMKLClassifier(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClassifierMixin, BaseEstimator
):
    r"""Support vector machine on a learned convex combination of kernels (SimpleMKL).

    The weights of the kernels :math:`K_m` and the support vector machine are optimised together,

    .. math:: \min_{d \ge 0,\, \sum_m d_m = 1} \; \max_{0 \le \beta \le C,\, \beta^T y = 0} \;
              \beta^T e - \tfrac12 \sum_{ij} \beta_i y_i
              \Big(\sum_m d_m K_m(x_i, x_j)\Big) y_j \beta_j ,

    which is convex and leaves most weights at zero. With more than two classes there is one problem
    per pair of classes; their objectives are summed, so all share the weights.

    Parameters
    ----------
    kernels : list, RegionalKernels, "precomputed" or None, default=None
        Kernels to combine: a list of functions of two arrays of samples (such as
        :func:`~genmetric.metric_kernel` or ``functools.partial(rbf_kernel, gamma=2)``) and of
        names of :func:`sklearn.metrics.pairwise.pairwise_kernels`; a
        :class:`RegionalKernels`, which is cloned and fitted, and whose `holdout` separates the
        samples for the metrics from those for the weights (the support vector machine is then
        trained on both); ``"precomputed"`` if `X` is a stack of Gram matrices; ``None`` is
        ``RegionalKernels(n_regions=0)``, Gaussian kernels of 15 bandwidths on Euclidean distances.
    C : float, default=1.0
        Penalty of errors, as in :class:`sklearn.svm.SVC`. Smaller values regularise more.
    normalize : bool, default=True
        Scale each kernel to a mean diagonal of one on the training samples. Gaussian kernels have
        this diagonal already, so C is comparable with that of :class:`sklearn.svm.SVC`.
    tol : float, default=0.01
        Relative duality gap at which the fit stops; smaller values are more accurate and slower.
        libsvm keeps kernel values in single precision, so values below 1e-4 may not be reached
        if C is large.
    max_iter : int, default=200
        Maximum number of iterations.
    warm_start : bool, default=False
        Start from the weights of the last fit if the number of kernels is the same, which saves two
        thirds of the time over a path of C. The result has the same duality gap.
    n_jobs : int, default=None
        Number of threads. Results are bit-identical for every value.
    verbose : int, default=0
        If positive, print a line per iteration.

    Attributes
    ----------
    weights_ : ndarray of shape (n_kernels,)
        Kernel weights, which sum to one.
    normalization_ : ndarray of shape (n_kernels,)
        Factor of each kernel; the combined kernel is the sum of ``weights_ * normalization_ * K``.
    objective_ : float
        Dual objective of the support vector machines, summed over problems.
    duality_gap_ : float
        Relative duality gap, an upper bound of the relative distance of the objective to its
        minimum; at most `tol` unless there was a warning.
    n_iter_ : int
        Number of iterations.
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
        "kernels": [
            None,
            "precomputed",
            InstanceOf(RegionalKernels, "a RegionalKernels"),
            InstanceOf((list, tuple), "a list of kernels"),
        ],
        "C": [Interval(float, 0, closed="neither")],
        "normalize": [BOOLEAN],
        "tol": [Interval(float, 0, closed="neither")],
        "warm_start": [BOOLEAN],
    }

    def __init__(
        self,
        kernels: Any = None,
        *,
        C: float = 1.0,
        normalize: bool = True,
        tol: float = 0.01,
        max_iter: Any = 200,
        warm_start: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.kernels = kernels
        self.C = C
        self.normalize = normalize
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.verbose = verbose

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
        if self._is_precomputed():
            refuse_lazy(y, "y")
            labels = column_or_1d(y, warn=True)
            x = check_stack(X, (None, len(labels), len(labels)))
            check_class_labels(labels, type(self).__name__)
            self.classes_, codes = encode_classes(labels, type(self).__name__)
            self.n_features_in_ = len(labels)
            self.kernels_: Any = "precomputed"
            rows = np.arange(len(labels))
        else:
            x, labels, self.classes_, codes = labelled_rows(self, X, y)
            rows = self._fit_kernels(x, labels)
        self._X_fit, self._n_fit = None if self._is_precomputed() else x, len(labels)
        with one_blas_thread():
            stack = self._training_stack(x if self._is_precomputed() else x[rows])
            problems = pair_problems(codes[rows], len(self.classes_))
            ones = np.ones(len(stack))
            self.normalization_ = unit_trace_factors(stack) if self.normalize else ones
            start = getattr(self, "weights_", ones) if self.warm_start else ones
            start = start if len(start) == len(stack) else ones
            objective = Objective(stack, self.normalization_, problems, float(self.C), self.n_jobs)
            solution, self.duality_gap_, self.n_iter_ = simplemkl(
                *(objective, start / start.sum()),
                tol=self.tol,
                max_iter=self.max_iter,
                verbose=self.verbose,
            )
            self.weights_ = solution.weights
            if len(rows) < self._n_fit:  # The machines are solved again with the samples held out.
                objective.problems = pair_problems(codes, len(self.classes_))
                solution = objective.at(self.weights_, np.vstack(list(self._combined(x))))
        if self.duality_gap_ > self.tol:
            precise = self.n_iter_ <= self.max_iter
            cause = "tol: it is below the precision of libsvm" if precise else "max_iter"
            warn_user(
                f"SimpleMKLClassifier stopped at a relative duality gap of {self.duality_gap_:.2g} "
                f"after {self.n_iter_} iterations, above tol={self.tol:g}. Increase {cause}, or "
                "check that the kernels are positive semidefinite.",
                ConvergenceWarning,
            )
        self._sides = np.array([(problem.positive, problem.negative) for problem in problems])
        self.objective_ = float(solution.dual)
        self.support_ = np.flatnonzero(solution.coef.any(axis=1))
        self.dual_coef_ = solution.coef[self.support_].T
        self.intercept_ = solution.intercept
        return self

    def _is_precomputed(self) -> bool:
        """Return whether samples are given as Gram matrices."""
        return isinstance(self.kernels, str) and self.kernels == "precomputed"

    def _fit_kernels(self, x: AnyArray, labels: AnyArray) -> IntArray:
        """Set `kernels_`; return the rows that the weights are learned from."""
        kernels = RegionalKernels(n_regions=0) if self.kernels is None else self.kernels
        if isinstance(kernels, RegionalKernels):
            with one_blas_thread():
                self.kernels_ = clone(kernels).fit(x, labels)
            return np.asarray(self.kernels_.holdout_)
        if not len(kernels):
            raise ValueError("kernels is empty. Pass at least one kernel, or None for the default.")
        for m, kernel in enumerate(kernels):
            check_parameter(kernel, f"kernels[{m}]", [CALLABLE, *sorted(kernel_metrics())])
        self.kernels_ = list(kernels)
        return np.arange(len(labels))

    def _training_stack(self, x: AnyArray) -> AnyArray:
        """Compute the Gram matrices of the training samples, if the memory suffices."""
        kernels, given = self.kernels_, self._X_fit is None
        n_samples = x.shape[1] if given else len(x)
        regional = isinstance(kernels, RegionalKernels)
        n_kernels = kernels.n_kernels_ if regional else len(x if given else kernels)
        n_problems = len(self.classes_) * (len(self.classes_) - 1) // 2
        # Products of kernels and solutions; a few combined matrices; the copies of libsvm.
        n_bytes = 8 * n_samples * (n_kernels * n_problems + 6 * n_samples)
        n_bytes += 0 if given else x.dtype.itemsize * n_kernels * n_samples**2
        what = f"{n_kernels} kernels on {n_samples} samples in {n_problems} problems of two classes"
        check_memory(n_bytes, what, FEWER_KERNELS)
        if regional:
            return np.asarray(kernels.gram(x))
        stack = x
        if not given:
            stack = np.empty((n_kernels, n_samples, n_samples), x.dtype)
            for m in range(n_kernels):
                stack[m] = gram_matrix(kernels, m, x, x)
        check_symmetric(stack)
        return stack

    def _queries(self, X: Any) -> AnyArray:
        """Validate query samples or a stack of Gram matrices."""
        check_is_fitted(self, "weights_")
        if self._X_fit is None:
            return check_stack(X, (len(self.normalization_), None, self._n_fit))
        return query_rows(self, X)

    def _combined(self, queries: AnyArray) -> Iterator[FloatArray]:
        """Yield combined Gram matrices of blocks of queries against the training samples."""
        weights = self.weights_ * self.normalization_
        n_queries = queries.shape[1] if self._X_fit is None else len(queries)
        for rows in row_chunks(n_queries, 3 * 8 * self._n_fit):
            if self._X_fit is None:
                yield combine(queries[:, rows], weights)
            elif isinstance(self.kernels_, RegionalKernels):
                yield self.kernels_.combined_gram(weights, queries[rows], self._X_fit)
            else:
                used = np.flatnonzero(weights).tolist()
                grams = (gram_matrix(self.kernels_, m, queries[rows], self._X_fit) for m in used)
                yield np.asarray(sum(w * K for w, K in zip(weights[used], grams, strict=True)))

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
            number of pairs won by the class plus a number below one half that breaks ties.
        """
        return class_scores(self._decisions(X), self._sides, len(self.classes_))

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        r"""Compute class probabilities from the decision values.

        The logistic function of the decision value of two classes is the probability of the first
        against the second. The probability of a class is the average of its pairwise
        probabilities. If the class that wins the most pairs is not the most probable one, the two
        exchange their probabilities, so the most probable class is that of :meth:`predict`.
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
        with one_blas_thread():
            decisions = np.vstack([K @ coef for K in self._combined(queries)])
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
        queries = self._queries(X)
        with one_blas_thread():
            blocks = [K.astype(queries.dtype) for K in self._combined(queries)]
        return np.vstack(blocks)

    @property
    def _n_features_out(self) -> int:
        return self._n_fit

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        if self._is_precomputed():
            tags.input_tags.two_d_array = False
            tags.input_tags.three_d_array = True
        return tags

"""How nearest neighbours of scikit-learn are written and rebuilt: by training samples and `fit`."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from genmetric._typing import AnyArray
from genmetric.files._estimators import EstimatorForm
from genmetric.files._probe import Budget, try_methods
from genmetric.files._sklearn_forms import public, set_common

#: Largest search tree that can be saved: this factor times the samples, plus `SPARE_TREE` bytes. It
#: leaves the labels their part of the memory that loading may use.
TREE_FACTOR = 3
SPARE_TREE = 8 * 2**20

#: Number of features above which scikit-learn does not choose a search tree automatically.
MAX_TREE_FEATURES = 15


def tree_memory(shape: tuple[int, ...], leaf_size: int) -> int:
    """Return an upper bound on the memory of a search tree, without its samples.

    Parameters
    ----------
    shape : tuple
        Numbers of samples and features.
    leaf_size : int
        Samples below which a node is not divided. Small values make large trees.

    Returns
    -------
    int
        Bytes of the indices, of the nodes, and of a lower and an upper bound per node and feature.

    Examples
    --------
    >>> from genmetric.files._neighbor_forms import tree_memory
    >>> tree_memory((1000, 2), 30), tree_memory((1000, 2), 1)
    (12032, 73472)
    """
    n_samples, n_features = shape
    n_leaves = max(1, (n_samples - 1) // max(leaf_size, 1))
    n_nodes: int = 2 ** n_leaves.bit_length() - 1
    return 8 * n_samples + n_nodes * (32 + 16 * n_features)


class FittedNeighbors(EstimatorForm):
    """Nearest neighbours: training samples and labels, from which `fit` builds the index again.

    scikit-learn has no public name for the training samples. This class is the only place that
    reads them.

    Parameters
    ----------
    target : {"classes", "numbers"} or None
        What the labels are.
    """

    def __init__(self, target: Literal["classes", "numbers"] | None) -> None:
        self._target = target

    def fitted(self, value: Any) -> dict[str, Any]:
        """Return the samples and labels."""
        fitted: dict[str, Any] = {}
        if hasattr(value, "n_samples_fit_"):
            samples = value._fit_X
            if not isinstance(samples, np.ndarray):
                samples = np.asarray(samples) if isinstance(samples, memoryview) else samples
            if isinstance(samples, np.ndarray) and getattr(value, "_tree", None) is not None:
                samples = self._tree_samples(value, samples)
            fitted = {"samples": samples, **public(value, ("feature_names_in_",))}
            if self._target is not None:
                fitted["labels"] = value._y
            if self._target == "classes":
                fitted["classes"] = value.classes_
        return fitted

    def _tree_samples(self, value: Any, samples: AnyArray) -> AnyArray:
        """Return the samples as the search tree stores them; refuse a tree that is too large."""
        samples = np.asarray(samples, dtype=np.float64, order="C")
        memory = tree_memory(samples.shape, int(value.leaf_size))
        if memory > TREE_FACTOR * samples.nbytes + SPARE_TREE:
            raise ValueError(
                f"The search tree of {type(value).__name__} with leaf_size={value.leaf_size} takes "
                f"{memory // 2**20} MB of memory for {samples.nbytes // 2**20} MB of samples, more "
                "than loading a model file may use. Fit it with leaf_size=30, which finds the same "
                "neighbours, or use skops."
            )
        return samples

    def restore(self, estimator: Any, fitted: dict[str, Any], budget: Budget) -> None:
        """Fit on the samples."""
        samples = fitted["samples"]
        if not isinstance(samples, np.ndarray) or samples.dtype.kind not in "biuf":
            raise ValueError("the samples of a nearest-neighbours estimator are not numbers")
        self._charge(estimator, samples, budget)
        if self._target is None:
            estimator.fit(samples)
        elif self._target == "numbers":
            if fitted["labels"].dtype.kind not in "biuf":
                raise ValueError("the targets of a nearest-neighbours estimator are not numbers")
            estimator.fit(samples, fitted["labels"])
        else:
            _fit_classes(estimator, samples, fitted["labels"], fitted["classes"], budget)
        set_common(estimator, {**fitted, "n_features_in_": estimator.n_features_in_})
        self._try(estimator, samples, budget)

    def _charge(self, estimator: Any, samples: AnyArray, budget: Budget) -> None:
        """Charge the budget with the copies of the samples and the search tree."""
        # The check of finite numbers takes a pass, a search tree one for each of its levels.
        budget.use_work(16 * samples.nbytes)
        if not samples.flags.c_contiguous:
            budget.use_memory(samples.nbytes)
        n_features = samples.shape[-1] if samples.ndim else 0
        if estimator.algorithm == "brute" or (
            estimator.algorithm == "auto" and n_features > MAX_TREE_FEATURES
        ):
            return
        if samples.dtype != np.float64:
            budget.use_memory(8 * samples.size)
        leaf_size = estimator.leaf_size
        if samples.ndim == 2 and isinstance(leaf_size, int | np.integer):
            budget.use_memory(tree_memory(samples.shape, int(leaf_size)))

    def _try(self, estimator: Any, samples: AnyArray, budget: Budget) -> None:
        """Call the prediction methods once."""
        from sklearn.base import clone

        if samples.dtype.kind != "f" and estimator.metric != "precomputed":
            # A search without a tree would convert all samples. The parameters, which are what
            # could be inconsistent now, are the same in a fit on two of them.
            labels = None if self._target is None else estimator._y[:2]
            estimator = clone(estimator).set_params(n_neighbors=1).fit(samples[:2], labels)
        budget.use_work(4 * samples.nbytes)
        try_methods(estimator, budget, samples[:1])


def _fit_classes(
    estimator: Any, samples: AnyArray, codes: Any, classes: Any, budget: Budget
) -> None:
    """Fit a classifier on indices of classes, and set the classes.

    Labels of their own type would take the memory of a label for each sample, and a label can be a
    long string.
    """
    several = classes if isinstance(classes, list) else [classes]
    if (
        not isinstance(codes, np.ndarray)
        or codes.dtype.kind not in "iu"
        or codes.ndim != (2 if isinstance(classes, list) else 1)
        or (codes.ndim == 2 and codes.shape[1] != len(several))
        or not all(isinstance(each, np.ndarray) and each.ndim == 1 for each in several)
    ):
        raise ValueError("labels are not indices of classes")
    columns = codes.T if codes.ndim == 2 else [codes]
    largest = max(len(each) for each in several)
    for each, column in zip(several, columns, strict=True):
        if column.min(initial=0) < 0 or column.max(initial=0) >= len(each):
            raise ValueError("labels are not indices of classes")
    compact = codes.astype(np.min_scalar_type(largest), copy=False)
    # One column at a time: its sorted copy, its order, and the indices in it.
    budget.use_memory(compact.nbytes + codes.nbytes + 24 * len(codes))
    estimator.fit(samples, compact)
    found = estimator.classes_ if isinstance(classes, list) else [estimator.classes_]
    if [len(each) for each in found] != [len(each) for each in several]:
        raise ValueError("the labels of a nearest-neighbours estimator are not its classes")
    estimator.classes_ = classes

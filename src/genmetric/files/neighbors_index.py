"""The search tree of scikit-learn's nearest neighbours, built again when a file is read."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.neighbors import BallTree, KDTree

_TREES = {"kd_tree": KDTree, "ball_tree": BallTree}


def rebuild_tree(estimator: Any) -> None:
    """Give a restored estimator the tree that its `fit` had built.

    A tree follows from the rows, its leaf size and its metric alone. The labels are checked here
    too: scikit-learn's compiled loops index by them without a look.

    Parameters
    ----------
    estimator : KNeighborsClassifier or NearestNeighbors
        With all attributes but the tree.
    """
    state = vars(estimator)
    if "_fit_method" not in state:
        return  # not fitted
    rows, labels = state["_fit_X"], state.get("_y")
    if rows.ndim != 2 or len(rows) != state["n_samples_fit_"]:
        raise ValueError("the rows of a nearest-neighbours index do not have the shape it says")
    if labels is not None:
        several = state["classes_"] if isinstance(state["classes_"], list) else [state["classes_"]]
        table = labels if labels.ndim == 2 else labels[:, None]
        sound = len(table) == len(rows) and table.shape[1] == len(several)
        if (
            not sound
            or labels.dtype.kind not in "iu"
            or table.min(initial=0) < 0
            or any(
                column.max(initial=-1) >= len(classes)
                for column, classes in zip(table.T, several, strict=True)
            )
        ):
            raise ValueError("the labels of a nearest-neighbours index are none of its classes")
    tree = _TREES.get(state["_fit_method"])
    estimator._tree = (
        None
        if tree is None
        else tree(
            np.asarray(rows),
            state["leaf_size"],
            metric=state["effective_metric_"],
            **state["effective_metric_params_"],
        )
    )

"""Limits, shape checks and trial calls that find invalid estimators when they are loaded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from genmetric._warnings import suppress_warnings

#: Memory that decoding may use: this factor times the file size, plus `SPARE_MEMORY` bytes.
MEMORY_FACTOR = 4
SPARE_MEMORY = 16 * 2**20
#: Bytes that the checks of decoded estimators may pass over: this factor times the file size, plus
#: `SPARE_WORK`. About a second for a file of 10 MB.
WORK_FACTOR = 64
SPARE_WORK = 256 * 2**20


class Budget:
    """Memory and work that decoding may still use.

    A file can refer to one array many times, and each use can cost a copy or a pass over the
    array. The budget turns these multiplications into an error.

    Parameters
    ----------
    file_size : int
        Size of the file in bytes.
    """

    def __init__(self, file_size: int) -> None:
        self._memory = MEMORY_FACTOR * file_size + SPARE_MEMORY
        self._work = WORK_FACTOR * file_size + SPARE_WORK

    def use_memory(self, n_bytes: int) -> None:
        """Subtract memory to be allocated; raise a ValueError if too little is left."""
        self._memory -= n_bytes
        if self._memory < 0:
            raise ValueError(
                "decoding it would take more memory than model files of this size do; it repeats "
                "its content or declares wrong sizes"
            )

    def use_work(self, n_bytes: int) -> None:
        """Subtract bytes to be processed; raise a ValueError if too few are left."""
        self._work -= n_bytes
        if self._work < 0:
            raise ValueError(
                "decoding it would take longer than model files of this size do; it repeats its "
                "content"
            )


#: Methods that take samples and that predictions are made with.
METHODS = ("transform", "predict", "predict_proba", "decision_function", "kneighbors", "gram")

#: Largest `n_jobs` in a file. Some versions of joblib loop over this number.
MAX_JOBS = 1024


def check_shapes(values: Mapping[str, Any], shapes: Mapping[str, str]) -> dict[str, int]:
    """Check that the attributes of an estimator agree with each other.

    Parameters
    ----------
    values : mapping
        Attributes by name; those that are missing are not checked.
    shapes : mapping
        Dimensions by attribute. ``"c d"`` is an array of shape (c, d), where equal letters are
        equal numbers in all attributes; ``""`` is a scalar; ``"|d"`` is a scalar or an array of
        shape (d,); ``"[c]"`` is a list of c arrays; ``"text"`` is a string; ``"?"`` at the end
        allows None.

    Returns
    -------
    dict
        Number of each letter.

    Raises
    ------
    ValueError
        If an attribute has another shape.
    """
    sizes: dict[str, int] = {}
    if "n_features_in_" in values:
        d = values["n_features_in_"]
        if isinstance(d, bool) or not isinstance(d, int | np.integer) or d < 0:
            raise ValueError("n_features_in_ is not a number of features")
        sizes["d"] = int(d)
    for name, shape in shapes.items():
        if name not in values or (values[name] is None and shape.endswith("?")):
            continue
        found = _shape_of(values[name], name, shape)
        if shape == "text" or (shape.startswith("|") and not found):
            continue
        letters = re.findall("[a-z]", shape)
        if len(found) != len(letters):
            raise ValueError(f"{name} has {len(found)} dimensions instead of {len(letters)}")
        for letter, n in zip(letters, found, strict=True):
            if sizes.setdefault(letter, n) != n:
                raise ValueError(f"the shape {found} of {name} does not match other attributes")
    return sizes


def _shape_of(value: Any, name: str, shape: str) -> tuple[int, ...]:
    """Return the shape of an attribute; raise if it does not have the type of its description."""
    if shape == "text":
        if not isinstance(value, str):
            raise ValueError(f"{name} is not a string")
        return ()
    if shape.startswith("["):
        if not isinstance(value, list | tuple) or not all(_is_numeric(v) for v in value):
            raise ValueError(f"{name} is not a list of arrays")
        return (len(value),)
    if name != "classes_" and not _is_numeric(value):
        raise ValueError(f"{name} is not numeric")
    return np.shape(value)


def _is_numeric(value: Any) -> bool:
    return isinstance(value, bool | int | float | np.number | np.bool_) or (
        isinstance(value, np.ndarray) and value.dtype.kind in "biuf"
    )


def check_names(fitted: Mapping[str, Any]) -> None:
    """Check the names of the features, if there are any."""
    names = fitted.get("feature_names_in_")
    if names is not None and (
        not isinstance(names, np.ndarray)
        or names.shape != (fitted.get("n_features_in_"),)
        or not all(isinstance(name, str) for name in names)
    ):
        raise ValueError("feature_names_in_ are not one string per feature")


def check_jobs(parameters: Mapping[str, Any]) -> None:
    """Check that a number of threads is one that computers have."""
    n_jobs: Any = parameters.get("n_jobs")
    if isinstance(n_jobs, int | np.integer) and abs(int(n_jobs)) > MAX_JOBS:
        raise ValueError(f"n_jobs is {n_jobs}")


def try_methods(
    estimator: Any, budget: Budget, samples: Any = None, *, cells: bool = False
) -> None:
    """Call the prediction methods of a rebuilt estimator once.

    Attributes that do not fit together raise an error here instead of at the first prediction.

    Parameters
    ----------
    estimator : estimator
        Fitted on numeric features.
    budget : Budget
        Memory that this may use.
    samples : ndarray of shape (n_samples, n_features), default=None
        Samples to predict; by default two of them.
    cells : bool, default=False
        Whether the default samples are strings instead of zeros.

    Raises
    ------
    ValueError
        If a method raises an error of another type. A ValueError of a method is a legitimate
        answer: predicting with more neighbours than samples raises one. So is a
        NotImplementedError.
    """
    if samples is None:
        d = estimator.n_features_in_
        budget.use_memory(64 * d)
        samples = np.array([[""] * d, ["a"] * d], dtype=object) if cells else np.zeros((2, d))
    budget.use_memory(16 * samples.nbytes)
    with suppress_warnings(Warning), np.errstate(all="ignore"):
        for name in METHODS:
            try:
                method = getattr(estimator, name, None)
                if method is not None:
                    method(samples)
            except (ValueError, NotImplementedError):
                continue
            except Exception as error:
                raise ValueError(
                    f"{name} of {type(estimator).__name__} fails with {type(error).__name__}: "
                    f"{error!s:.100}"
                ) from error

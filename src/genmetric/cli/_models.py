"""Models of the command line: a saved pipeline and what is known about its training."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from genmetric.inspection import LinearMap


@dataclass(frozen=True)
class Model:
    """Contents of a model file.

    Attributes
    ----------
    path : Path
        The file.
    columns : ColumnTransformer
        Fitted transformer from the columns of a table to features.
    estimator : estimator
        What follows it, a pipeline that ends with a predictor or an estimator saved from Python.
    header : dict
        Header of the file.
    """

    path: Path
    columns: Any
    estimator: Any
    header: Mapping[str, Any]

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features."""
        return tuple(map(str, self.columns.get_feature_names_out()))

    @property
    def target(self) -> str | None:
        """Column with the targets of the training table, if known."""
        return self._text("target")

    @property
    def id_column(self) -> str | None:
        """Column that names the rows of the training table, if known."""
        return self._text("id")

    def _text(self, name: str) -> str | None:
        value = self.header["command"].get(name)
        return value if isinstance(value, str) else None

    @property
    def facts(self) -> Mapping[str, Any]:
        """Facts about the training; empty for models saved from Python."""
        facts: Mapping[str, Any] = self.header["command"].get("training", {})
        return facts

    @property
    def method(self) -> str:
        """Key of the method, or the class of the estimator for models saved from Python."""
        return str(self.header["command"].get("method") or self.header["class"])


def load_model(path: Path) -> Model:
    """Load a model file with its columns.

    Parameters
    ----------
    path : Path
        Written by `genmetric fit`, or by :func:`genmetric.save` with feature names.

    Returns
    -------
    Model
        The model.
    """
    if not path.exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import Pipeline

    from genmetric.files import load
    from genmetric.tables._new_rows import number_columns

    # One open: header and estimator belong to the same model even if the file is replaced.
    estimator, header = load(path, return_header=True)
    steps = getattr(estimator, "steps", [])
    if len(steps) > 1 and isinstance(steps[0][1], ColumnTransformer):
        return Model(path, steps[0][1], Pipeline(steps[1:]), header)
    names = header["feature_names"]
    if not names:
        raise click.UsageError(
            f"{path}: the model has no column names. Fit it with genmetric fit, or in Python on a "
            "DataFrame."
        )
    return Model(path, number_columns([str(name) for name in names]), estimator, header)


def model_map(model: Model) -> LinearMap:
    """Return the linear map of a model; a UsageError explains why it has none.

    Parameters
    ----------
    model : Model
        The model.

    Returns
    -------
    LinearMap
        From features to the space where distances are Euclidean.
    """
    from genmetric.comparison import METHODS
    from genmetric.inspection import linear_map

    method = METHODS.get(model.method)
    if method is not None and not method.transforms:
        raise click.UsageError(
            f"{model.path}: a model of --method {method.key} ({method.label}) does not have a "
            "single metric. Fit with another method, such as uniform or regression."
        )
    try:
        return linear_map(model.estimator, feature_names=model.feature_names)
    except TypeError as error:
        raise click.UsageError(f"{model.path}: {error}") from error

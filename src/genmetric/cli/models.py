"""Models of the command line: a saved pipeline and the recipe of its columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from genmetric._typing import FloatArray
    from genmetric.tables import Recipe

#: Steps of a pipeline that give classes.
CLASSIFIERS = ("neighbors", "energy", "mkl", "lda", "local")


@dataclass(frozen=True)
class Model:
    """What a model file of `genmetric fit` holds.

    Attributes
    ----------
    path : Path
        The file.
    estimator : estimator
        A pipeline of the steps "scale", "metric" and a classifier, or what Python saved.
    recipe : Recipe
        How rows become numbers.
    header : dict
        The header of the file.
    """

    path: Path
    estimator: Any
    recipe: Recipe
    header: Mapping[str, Any]

    @property
    def facts(self) -> Mapping[str, Any]:
        """What is known of the training; empty for models that Python saved."""
        facts: Mapping[str, Any] = self.header["metadata"].get("training", {})
        return facts

    @property
    def method(self) -> str:
        """The method as the command line calls it, or the class of the estimator."""
        return str(self.header["metadata"].get("method") or self.header["class"])


def load_model(path: Path) -> Model:
    """Load a model file with its columns.

    Parameters
    ----------
    path : Path
        Written by `genmetric fit`, or by :func:`genmetric.save` with names of features.

    Returns
    -------
    Model
        The model.
    """
    from genmetric.files import load, read_header
    from genmetric.tables import Column, Recipe

    header = read_header(path)
    entries = header["metadata"].get("recipe")
    try:
        if entries is not None:
            recipe = Recipe.from_dict(entries)
        elif header["feature_names"]:
            recipe = Recipe(tuple(Column(str(name)) for name in header["feature_names"]))
        else:
            raise click.UsageError(
                f"{path}: the model does not know the names of its columns. Fit it with genmetric "
                "fit, or in Python on a frame with names."
            )
    except (KeyError, TypeError, ValueError) as error:
        raise click.UsageError(f"{path}: the columns of the model are not readable.") from error
    estimator = load(path)
    n_features = header["n_features"]
    if n_features is not None and n_features != len(recipe.feature_names):
        raise click.UsageError(
            f"{path}: the model has {n_features} features and names of {len(recipe.feature_names)}."
        )
    return Model(path, estimator, recipe, header)


@dataclass(frozen=True)
class LinearMap:
    """The metric of a model as the map z = L·(x - center)/scale.

    Attributes
    ----------
    center, scale, variance : ndarray of shape (n_features,)
        Of the features: what is subtracted and divided by, and the variance of the result.
    factor : ndarray of shape (n_components, n_features)
        The factor L.
    """

    center: FloatArray
    scale: FloatArray
    variance: FloatArray
    factor: FloatArray

    def __call__(self, X: FloatArray) -> FloatArray:
        """Rows in the space of the metric."""
        z: FloatArray = self.scaled(X) @ self.factor.T
        return z

    def scaled(self, X: FloatArray) -> FloatArray:
        """Rows in the units that the metric was learned in."""
        return (X - self.center) / self.scale

    @property
    def metric(self) -> FloatArray:
        """The metric M = LᵀL, in those units."""
        m: FloatArray = self.factor.T @ self.factor
        return m


def linear_map(model: Model) -> LinearMap:
    """The metric of a model, where it has a single one.

    Parameters
    ----------
    model : Model
        The model.

    Returns
    -------
    LinearMap
        Its metric and the scaling before it.
    """
    import numpy as np

    d = len(model.recipe.feature_names)
    steps = dict(getattr(model.estimator, "steps", [("metric", model.estimator)]))
    scale = steps.get("scale")
    center = np.zeros(d) if scale is None else scale.mean_
    unit = np.ones(d) if scale is None or scale.scale_ is None else scale.scale_
    metric = steps.get("metric")
    if "energy" in steps:
        metric = steps["energy"].metric_
    if "mkl" in steps or "local" in steps:
        raise click.UsageError(
            f"{model.path}: a model of --method {model.method} has many metrics, not one. Fit with "
            "another method, such as uniform."
        )
    if "lda" in steps:
        lda = steps["lda"]
        factor = lda.scalings_[:, : min(len(lda.classes_) - 1, d)].T
    elif metric is None:
        factor = np.eye(d)
    elif hasattr(metric, "components_"):
        factor = np.asarray(metric.components_)
    else:
        raise click.UsageError(f"{model.path}: a {model.method} has no metric.")
    variance = np.asarray(model.facts.get("variance", np.ones(d)), dtype=float)
    if variance.shape != (d,):
        variance = np.ones(d)
    return LinearMap(center, unit, variance / unit**2, factor)

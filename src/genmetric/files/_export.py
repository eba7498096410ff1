"""Learned linear maps as plain arrays, for programs without genmetric."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from genmetric._atomic import replacing
from genmetric._optional import import_optional
from genmetric._typing import AnyArray


def export_map(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write the linear map of a fitted estimator to a .npy or .safetensors file.

    The file appears complete or not at all.

    Parameters
    ----------
    estimator : estimator
        A fitted metric, an :class:`~genmetric.EmbeddingAdapter`, or a pipeline of linear steps that
        ends in a metric.
    path : str or path-like
        The file. Its extension selects the format:

        - ``.npy``: the matrix W of the map z = W x, of shape (n_components, n_features). Maps with
          an offset or with scaling to unit length are refused.
        - ``.safetensors`` (``pip install "genmetric[torch]"``): the tensors "weight" and, if the
          map has an offset, "bias", which are the names of :class:`torch.nn.Linear`. The metadata
          "normalize" is "true" if inputs and outputs have to be scaled to unit length.

    Raises
    ------
    ValueError
        If the estimator has no linear map, or the format cannot hold it.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric import GenerativeMetric
    >>> from genmetric.files import export_map
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> metric = GenerativeMetric().fit(X, y)
    >>> path = getfixture("tmp_path") / "map.npy"
    >>> export_map(metric, path)
    >>> bool(np.array_equal(X @ np.load(path).T, metric.transform(X)))
    True
    """
    suffix = Path(os.fspath(path)).suffix.lower()
    if suffix not in (".npy", ".safetensors"):
        raise ValueError(
            f"path must end in .npy or .safetensors; got {os.fspath(path)!r}. Use genmetric.save "
            "to write the whole estimator."
        )
    weight, bias, normalize = _affine_map(estimator)
    if suffix == ".npy":
        if bias is not None or normalize:
            raise ValueError(
                f"A .npy file holds one matrix, but the map of {type(estimator).__name__} also has "
                "an offset or scales vectors to unit length. Use a path that ends in .safetensors."
            )
        with replacing(path) as file:
            np.save(file, weight, allow_pickle=False)
        return
    tensors = {"weight": weight} if bias is None else {"weight": weight, "bias": bias}
    tensors = {name: np.ascontiguousarray(value) for name, value in tensors.items()}
    metadata = {"format": "pt", "normalize": "true" if normalize else "false"}
    content = import_optional("safetensors.numpy", "torch").save(tensors, metadata=metadata)
    with replacing(path) as file:
        file.write(content)


def _affine_map(estimator: Any) -> tuple[AnyArray, AnyArray | None, bool]:
    """Return matrix, offset or None, and whether vectors are scaled to unit length."""
    # Imported here, so that importing this module does not import scikit-learn.
    from sklearn.utils.validation import check_is_fitted

    from genmetric.inspection import linear_map
    from genmetric.learners import EmbeddingAdapter, LinearMapMixin

    check_is_fitted(estimator)
    if isinstance(estimator, EmbeddingAdapter):
        return estimator.components_, estimator.bias_, bool(estimator.normalize)
    if isinstance(estimator, LinearMapMixin):
        return estimator.components_, None, False
    found = linear_map(estimator)
    if found.preprocessing:
        steps = ", ".join(type(step).__name__ for step in found.preprocessing)
        raise ValueError(
            f"{type(estimator).__name__} has steps that are not linear ({steps}). Export the "
            "metric, its last step, and apply these steps before it, or use genmetric.save."
        )
    bias = found.offset if np.any(found.offset != 0) else None
    return found.matrix, bias, False

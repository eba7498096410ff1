"""ONNX export: converters that let skl2onnx write metrics, alone or in a pipeline.

The metric of an estimator is one product with a matrix, so a pipeline such as
``make_pipeline(StandardScaler(), GenerativeMetric(), KNeighborsClassifier())`` runs in onnxruntime
as it does in scikit-learn. What it takes:

.. code-block:: python

    import genmetric.onnx
    from skl2onnx import to_onnx

    genmetric.onnx.register()
    onnx_model = to_onnx(model, X[:1])
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from genmetric._extras import need
from genmetric._typing import AnyArray
from genmetric.cluster import MetricKMeans
from genmetric.kernels import SimpleMKLClassifier
from genmetric.lmnn import LMNN
from genmetric.metric import GenerativeMetric, GenerativeMetricCV
from genmetric.neighbors import (
    EnergyClassifier,
    FaissNeighborsTransformer,
    LocalMetricClassifier,
)

__all__ = ["register"]

#: The version of ONNX whose operators are used; later ones mean the same by them.
OPSET = 13

#: Estimators whose `transform` is a product with `components_`.
METRICS = (GenerativeMetric, GenerativeMetricCV, LMNN)

#: Estimators that no standard ONNX operator computes, and what to export instead.
REFUSED = {
    EnergyClassifier: "its metric_ in a pipeline with KNeighborsClassifier",
    LocalMetricClassifier: "a GenerativeMetric in a pipeline with KNeighborsClassifier",
    SimpleMKLClassifier: "a GenerativeMetric in a pipeline with KNeighborsClassifier",
    FaissNeighborsTransformer: "the steps before it, and search where the vectors are",
}


def register() -> None:
    """Teach skl2onnx the estimators of genmetric; calling it again does no harm.

    After it :func:`skl2onnx.to_onnx` takes :class:`~genmetric.GenerativeMetric`,
    :class:`~genmetric.GenerativeMetricCV`, :class:`~genmetric.LMNN` and
    :class:`~genmetric.MetricKMeans`, and pipelines of them with what it knows of scikit-learn.
    It refuses the other estimators of genmetric by name. Export with float64 rows (``X[:1]`` of
    that type) where features have large offsets: float32 has seven digits.

    Raises
    ------
    ImportError
        Where skl2onnx is not installed: ``pip install genmetric[onnx]``.

    Examples
    --------
    >>> import genmetric.onnx
    >>> import numpy as np
    >>> from genmetric import GenerativeMetric
    >>> from onnxruntime import InferenceSession
    >>> from skl2onnx import to_onnx
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GenerativeMetric().fit(X, y)
    >>> genmetric.onnx.register()
    >>> session = InferenceSession(to_onnx(model, X[:1]).SerializeToString())
    >>> bool(np.allclose(session.run(None, {"X": X})[0], model.transform(X)))
    True
    """
    skl2onnx = need("skl2onnx", "onnx")
    for cls in METRICS:
        skl2onnx.update_registered_converter(
            cls, f"Genmetric{cls.__name__}", _shape_of_transform, _convert_transform
        )
    skl2onnx.update_registered_converter(
        MetricKMeans, "GenmetricMetricKMeans", _shape_of_clusters, _convert_clusters
    )
    for refused in REFUSED:
        # A shape is asked for before anything is converted.
        skl2onnx.update_registered_converter(
            refused, f"Genmetric{refused.__name__}", _refuse, _convert_transform
        )


def _refuse(operator: Any) -> NoReturn:
    cls = type(operator.raw_operator)
    raise NotImplementedError(
        f"{cls.__name__} has no ONNX form. Export {REFUSED[cls]}, or save it by genmetric.save."
    )


def _float_type(operator: Any) -> Any:
    """Numbers of the input in the types of skl2onnx: float64 where it has them, else float32."""
    types = need("skl2onnx.common.data_types", "onnx")
    double = isinstance(operator.inputs[0].type, types.DoubleTensorType)
    return types.DoubleTensorType if double else types.FloatTensorType


def _numpy_type(operator: Any) -> Any:
    return np.float64 if _float_type(operator).__name__.startswith("Double") else np.float32


def _check_features(operator: Any) -> Any:
    """Rows of the input, after a check of its columns."""
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(operator.raw_operator)
    n_rows, n_columns = operator.inputs[0].type.shape
    n_features = operator.raw_operator.n_features_in_
    if n_columns not in (None, n_features):
        raise ValueError(
            f"The input of the ONNX graph has {n_columns} columns, but "
            f"{type(operator.raw_operator).__name__} is expecting {n_features} features."
        )
    return n_rows


def _shape_of_transform(operator: Any) -> None:
    n_rows = _check_features(operator)
    n_components = operator.raw_operator.components_.shape[0]
    operator.outputs[0].type = _float_type(operator)([n_rows, n_components])


def _shape_of_clusters(operator: Any) -> None:
    types = need("skl2onnx.common.data_types", "onnx")
    n_rows = _check_features(operator)
    n_clusters = len(operator.raw_operator.cluster_centers_)
    operator.outputs[0].type = types.Int64TensorType([n_rows])
    operator.outputs[1].type = _float_type(operator)([n_rows, n_clusters])


class _Graph:
    """A graph under way, whose names nobody else has."""

    def __init__(self, scope: Any, container: Any) -> None:
        self._scope, self._container = scope, container

    def constant(self, values: AnyArray) -> str:
        name = str(self._scope.get_unique_variable_name("genmetric"))
        code = _tensor_code(values.dtype)
        self._container.add_initializer(name, code, values.shape, values.ravel())
        return name

    def node(self, kind: str, *inputs: str, into: str | None = None, **attributes: Any) -> str:
        """Add an operator that means the same in every version of ONNX; return its output."""
        output = into or str(self._scope.get_unique_variable_name("genmetric"))
        name = self._scope.get_unique_operator_name(f"genmetric_{kind}")
        self._container.add_node(
            kind, list(inputs), [output], name=name, op_version=OPSET, **attributes
        )
        return output


def _tensor_code(dtype: Any) -> int:
    return int(need("onnx.helper", "onnx").np_dtype_to_tensor_dtype(np.dtype(dtype)))


def _convert_transform(scope: Any, operator: Any, container: Any) -> None:
    """X Lᵀ in the numbers of the input, as Python does."""
    graph, dtype = _Graph(scope, container), _numpy_type(operator)
    x = graph.node("Cast", operator.inputs[0].full_name, to=_tensor_code(dtype))
    factor = graph.constant(operator.raw_operator.components_.T.astype(dtype))
    graph.node("MatMul", x, factor, into=operator.outputs[0].full_name)


def _convert_clusters(scope: Any, operator: Any, container: Any) -> None:
    """The nearest centre and the distances to all, in float64, as Python does."""
    model, graph = operator.raw_operator, _Graph(scope, container)
    middle = model.cluster_centers_.mean(axis=0)
    centers = (model.cluster_centers_ - middle) @ model.components_.T
    x = graph.node("Cast", operator.inputs[0].full_name, to=_tensor_code(np.float64))
    z = graph.node(
        "MatMul",
        graph.node("Sub", x, graph.constant(middle)),
        graph.constant(model.components_.T),
    )
    # |z - c|² without |z|², which all centres share.
    part = graph.node(
        "Add",
        graph.node("MatMul", z, graph.constant(-2 * centers.T)),
        graph.constant(np.einsum("ij,ij->i", centers, centers)),
    )
    graph.node("ArgMin", part, into=operator.outputs[0].full_name, axis=1, keepdims=0)
    ones = graph.constant(np.ones((centers.shape[1], 1)))
    squared = graph.node("Add", part, graph.node("MatMul", graph.node("Mul", z, z), ones))
    distances = graph.node("Sqrt", graph.node("Relu", squared))
    out = operator.outputs[1].full_name
    graph.node("Cast", distances, into=out, to=_tensor_code(_numpy_type(operator)))

"""ONNX export: converters for skl2onnx.

A learned metric is applied by one product with a matrix, so that pipelines such as
``make_pipeline(StandardScaler(), GenerativeMetric(), KNeighborsClassifier())`` run in onnxruntime
as they do in scikit-learn:

.. code-block:: python

    import genmetric.onnx
    from skl2onnx import to_onnx

    genmetric.onnx.register()
    onnx_model = to_onnx(model, X[:1])
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from genmetric._text import import_optional
from genmetric._typing import AnyArray
from genmetric.cluster import MetricKMeans
from genmetric.kernels import SimpleMKLClassifier
from genmetric.learners import (
    LMNN,
    MLKR,
    EmbeddingAdapter,
    GenerativeMetric,
    GenerativeMetricCV,
    GenerativeRegressionMetric,
    GenerativeRegressionMetricCV,
)
from genmetric.neighbors import (
    EnergyClassifier,
    FaissNeighborsTransformer,
    KernelRegressor,
    LocalMetricClassifier,
)

__all__ = ["register"]

#: Version of the ONNX operators in use; they have the same meaning in later versions.
OPSET = 13

#: Estimators whose `transform` is a product with `components_`.
METRICS = (
    GenerativeMetric,
    GenerativeMetricCV,
    GenerativeRegressionMetric,
    GenerativeRegressionMetricCV,
    LMNN,
    MLKR,
)

#: Estimators that standard ONNX operators cannot express, and what to export instead.
REFUSED = {
    EnergyClassifier: "its metric_estimator_ in a pipeline with KNeighborsClassifier",
    LocalMetricClassifier: "a GenerativeMetric in a pipeline with KNeighborsClassifier",
    SimpleMKLClassifier: "a GenerativeMetric in a pipeline with KNeighborsClassifier",
    KernelRegressor: "its metric_estimator_ in a pipeline with KNeighborsRegressor",
    FaissNeighborsTransformer: "the steps before it, and search in the vector database",
}


def register() -> None:
    """Register the estimators of genmetric in skl2onnx; calling it again has no effect.

    After this call :func:`skl2onnx.to_onnx` converts metric learners such as
    :class:`~genmetric.GenerativeMetric` and :class:`~genmetric.LMNN`,
    :class:`~genmetric.MetricKMeans`, and pipelines of them with estimators of scikit-learn. For
    the other estimators of genmetric it raises an error that names them. Pass a float64 sample
    (``X[:1]``) if features have large offsets: float32 has seven digits.

    Raises
    ------
    ImportError
        If skl2onnx is not installed (extra ``onnx``).

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
    skl2onnx = import_optional("skl2onnx", "onnx")
    for cls in METRICS:
        skl2onnx.update_registered_converter(
            cls, f"Genmetric{cls.__name__}", _shape_of_transform, _convert_transform
        )
    skl2onnx.update_registered_converter(
        EmbeddingAdapter, "GenmetricEmbeddingAdapter", _shape_of_transform, _convert_adapter
    )
    skl2onnx.update_registered_converter(
        MetricKMeans, "GenmetricMetricKMeans", _shape_of_clusters, _convert_clusters
    )
    for refused in REFUSED:
        # skl2onnx computes shapes before it converts anything.
        skl2onnx.update_registered_converter(
            refused, f"Genmetric{refused.__name__}", _refuse, _convert_transform
        )


def _refuse(operator: Any) -> NoReturn:
    cls = type(operator.raw_operator)
    raise NotImplementedError(
        f"{cls.__name__} cannot be converted to ONNX. Export {REFUSED[cls]}, or use genmetric.save."
    )


def _float_type(operator: Any) -> Any:
    """Return the type of the output: float64 if the input is float64, else float32."""
    types = import_optional("skl2onnx.common.data_types", "onnx")
    double = isinstance(operator.inputs[0].type, types.DoubleTensorType)
    return types.DoubleTensorType if double else types.FloatTensorType


def _numpy_type(operator: Any) -> Any:
    return np.float64 if _float_type(operator).__name__.startswith("Double") else np.float32


def _check_features(operator: Any) -> Any:
    """Check the number of features; return the number of samples, which can be None."""
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
    types = import_optional("skl2onnx.common.data_types", "onnx")
    n_rows = _check_features(operator)
    n_clusters = len(operator.raw_operator.cluster_centers_)
    operator.outputs[0].type = types.Int64TensorType([n_rows])
    operator.outputs[1].type = _float_type(operator)([n_rows, n_clusters])


class _Graph:
    """Builder of an ONNX graph with unique names."""

    def __init__(self, scope: Any, container: Any) -> None:
        self._scope, self._container = scope, container

    def constant(self, values: AnyArray) -> str:
        name = str(self._scope.get_unique_variable_name("genmetric"))
        code = _tensor_code(values.dtype)
        self._container.add_initializer(name, code, values.shape, values.ravel())
        return name

    def node(self, kind: str, *inputs: str, into: str | None = None, **attributes: Any) -> str:
        """Add an operator and return the name of its output."""
        output = into or str(self._scope.get_unique_variable_name("genmetric"))
        name = self._scope.get_unique_operator_name(f"genmetric_{kind}")
        self._container.add_node(
            kind, list(inputs), [output], name=name, op_version=OPSET, **attributes
        )
        return output


def _tensor_code(dtype: Any) -> int:
    return int(import_optional("onnx.helper", "onnx").np_dtype_to_tensor_dtype(np.dtype(dtype)))


def _convert_transform(scope: Any, operator: Any, container: Any) -> None:
    """Convert `transform`: the product X Lᵀ in the precision of the input."""
    graph, dtype = _Graph(scope, container), _numpy_type(operator)
    x = graph.node("Cast", operator.inputs[0].full_name, to=_tensor_code(dtype))
    factor = graph.constant(operator.raw_operator.components_.T.astype(dtype))
    graph.node("MatMul", x, factor, into=operator.outputs[0].full_name)


def _convert_adapter(scope: Any, operator: Any, container: Any) -> None:
    """Convert the map of unit vectors to unit vectors, in the precision of the input.

    A zero vector becomes NaN, since a graph cannot raise an error.
    """
    model, graph, dtype = operator.raw_operator, _Graph(scope, container), _numpy_type(operator)
    output = operator.outputs[0].full_name

    def length(x: str, n_columns: int) -> str:
        ones = graph.constant(np.ones((n_columns, 1), dtype))
        return graph.node("Sqrt", graph.node("MatMul", graph.node("Mul", x, x), ones))

    x = graph.node("Cast", operator.inputs[0].full_name, to=_tensor_code(dtype))
    if model.normalize:
        x = graph.node("Div", x, length(x, model.n_features_in_))
    centred = graph.node("Sub", x, graph.constant(model.mean_.astype(dtype)))
    factor = graph.constant(model.components_.T.astype(dtype))
    if not model.normalize:
        graph.node("MatMul", centred, factor, into=output)
        return
    z = graph.node("MatMul", centred, factor)
    smallest = graph.constant(np.array([np.finfo(dtype).tiny], dtype))
    graph.node(
        "Div", z, graph.node("Max", length(z, len(model.components_)), smallest), into=output
    )


def _convert_clusters(scope: Any, operator: Any, container: Any) -> None:
    """Convert `predict` and `transform` of MetricKMeans, computed in float64 as in Python."""
    model, graph = operator.raw_operator, _Graph(scope, container)
    middle = model.cluster_centers_.mean(axis=0)
    centers = (model.cluster_centers_ - middle) @ model.components_.T
    x = graph.node("Cast", operator.inputs[0].full_name, to=_tensor_code(np.float64))
    z = graph.node(
        "MatMul",
        graph.node("Sub", x, graph.constant(middle)),
        graph.constant(model.components_.T),
    )
    # |z - c|² without |z|², which is the same for all centres.
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

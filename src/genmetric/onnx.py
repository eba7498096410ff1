"""ONNX export: converters for skl2onnx.

A learned metric is applied by one product with a matrix, so pipelines such as
``make_pipeline(StandardScaler(), GenerativeMetric(), KNeighborsClassifier())`` run in onnxruntime
as they do in scikit-learn:

.. code-block:: python

    import genmetric.onnx
    from skl2onnx import to_onnx

    genmetric.onnx.register()
    onnx_model = to_onnx(model, X[:1])
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from genmetric import cluster, kernels, learners, neighbors
from genmetric._text import import_optional
from genmetric._typing import AnyArray

__all__ = ["register"]

#: Estimators whose `transform` is a product with `components_`.
METRICS = (
    learners.GenerativeMetric,
    learners.GenerativeMetricCV,
    learners.GenerativeRegressionMetric,
    learners.GenerativeRegressionMetricCV,
    learners.LMNN,
    learners.MLKR,
)

#: Estimators that standard ONNX operators cannot express, and what to export instead.
REFUSED = {
    neighbors.EnergyClassifier: "its metric_estimator_ in a pipeline with KNeighborsClassifier",
    neighbors.LocalMetricClassifier: "a GenerativeMetric in a pipeline with KNeighborsClassifier",
    kernels.SimpleMKLClassifier: "a GenerativeMetric in a pipeline with KNeighborsClassifier",
    neighbors.KernelRegressor: "its metric_estimator_ in a pipeline with KNeighborsRegressor",
    neighbors.FaissNeighborsTransformer: "the steps before it, and search in the vector database",
}


def register() -> None:
    """Register the estimators of genmetric in skl2onnx; calling it again has no effect.

    After this call :func:`skl2onnx.to_onnx` converts metric learners such as
    :class:`~genmetric.GenerativeMetric` and :class:`~genmetric.LMNN`,
    :class:`~genmetric.MetricKMeans`, and pipelines of them with scikit-learn estimators. For
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
    converters = dict.fromkeys(METRICS, (_shape_of_transform, _convert_transform))
    converters[learners.EmbeddingAdapter] = (_shape_of_transform, _convert_adapter)
    converters[cluster.MetricKMeans] = (_shape_of_clusters, _convert_clusters)
    # skl2onnx computes shapes before it converts anything.
    converters |= dict.fromkeys(REFUSED, (_refuse, _convert_transform))
    for cls, functions in converters.items():
        skl2onnx.update_registered_converter(cls, f"Genmetric{cls.__name__}", *functions)


def _refuse(operator: Any) -> None:
    cls = type(operator.raw_operator)
    raise NotImplementedError(
        f"{cls.__name__} cannot be converted to ONNX. Export {REFUSED[cls]}, or use genmetric.save."
    )


def _float_type(operator: Any) -> tuple[Any, Any]:
    """Return the type of the output in skl2onnx and NumPy: float64 if the input is, or float32."""
    types = import_optional("skl2onnx.common.data_types", "onnx")
    if isinstance(operator.inputs[0].type, types.DoubleTensorType):
        return types.DoubleTensorType, np.float64
    return types.FloatTensorType, np.float32


def _check_features(operator: Any) -> Any:
    """Check the number of features; return the number of samples, which can be None."""
    model = operator.raw_operator
    check_is_fitted(model)
    n_rows, n_columns = operator.inputs[0].type.shape
    if n_columns not in (None, model.n_features_in_):
        raise ValueError(
            f"The input of the ONNX graph has {n_columns} columns, but {type(model).__name__} is "
            f"expecting {model.n_features_in_} features."
        )
    return n_rows


def _shape_of_transform(operator: Any) -> None:
    n_rows = _check_features(operator)
    shape = [n_rows, len(operator.raw_operator.components_)]
    operator.outputs[0].type = _float_type(operator)[0](shape)


def _shape_of_clusters(operator: Any) -> None:
    types = import_optional("skl2onnx.common.data_types", "onnx")
    n_rows = _check_features(operator)
    n_clusters = len(operator.raw_operator.cluster_centers_)
    operator.outputs[0].type = types.Int64TensorType([n_rows])
    operator.outputs[1].type = _float_type(operator)[0]([n_rows, n_clusters])


class _Graph:
    """Builder of an ONNX graph: operators on names of variables or constant arrays."""

    def __init__(self, scope: Any, operator: Any, container: Any) -> None:
        self._scope, self._container = scope, container
        self.input = operator.inputs[0].full_name
        self.outputs = [output.full_name for output in operator.outputs]

    def node(
        self, kind: str, *inputs: str | AnyArray, into: str | None = None, **attributes: Any
    ) -> str:
        """Add an operator and return the name of its output."""
        names = [value if isinstance(value, str) else self._constant(value) for value in inputs]
        output = into or str(self._scope.get_unique_variable_name("genmetric"))
        attributes["name"] = self._scope.get_unique_operator_name(f"genmetric_{kind}")
        # The operators have the same meaning in later versions.
        self._container.add_node(kind, names, [output], op_version=13, **attributes)
        return output

    def _constant(self, values: AnyArray) -> str:
        name = str(self._scope.get_unique_variable_name("genmetric"))
        code = _tensor_code(values.dtype)
        self._container.add_initializer(name, code, values.shape, values.ravel())
        return name

    def squared_length(self, x: str, n_columns: int, dtype: Any) -> str:
        """Sum the squares of each row."""
        return self.node("MatMul", self.node("Mul", x, x), np.ones((n_columns, 1), dtype))


def _tensor_code(dtype: Any) -> int:
    return int(import_optional("onnx.helper", "onnx").np_dtype_to_tensor_dtype(np.dtype(dtype)))


def _convert_transform(scope: Any, operator: Any, container: Any) -> None:
    """Convert `transform`: the product X Lᵀ in the precision of the input."""
    graph, dtype = _Graph(scope, operator, container), _float_type(operator)[1]
    x = graph.node("Cast", graph.input, to=_tensor_code(dtype))
    factor = operator.raw_operator.components_.T.astype(dtype)
    graph.node("MatMul", x, factor, into=graph.outputs[0])


def _convert_adapter(scope: Any, operator: Any, container: Any) -> None:
    """Convert the map of unit vectors to unit vectors, in the precision of the input.

    A zero vector becomes NaN, since a graph cannot raise an error.
    """
    model, dtype = operator.raw_operator, _float_type(operator)[1]
    graph = _Graph(scope, operator, container)

    def length(x: str, n_columns: int) -> str:
        return graph.node("Sqrt", graph.squared_length(x, n_columns, dtype))

    z = graph.node("Cast", graph.input, to=_tensor_code(dtype))
    if model.normalize:
        z = graph.node("Div", z, length(z, model.n_features_in_))
    z = graph.node("Sub", z, model.mean_.astype(dtype))
    product = None if model.normalize else graph.outputs[0]
    z = graph.node("MatMul", z, model.components_.T.astype(dtype), into=product)
    if model.normalize:
        smallest = np.array([np.finfo(dtype).tiny], dtype)
        divisor = graph.node("Max", length(z, len(model.components_)), smallest)
        graph.node("Div", z, divisor, into=graph.outputs[0])


def _convert_clusters(scope: Any, operator: Any, container: Any) -> None:
    """Convert `predict` and `transform` of MetricKMeans, computed in float64 as in Python."""
    model, graph = operator.raw_operator, _Graph(scope, operator, container)
    middle = model.cluster_centers_.mean(axis=0)
    centers = (model.cluster_centers_ - middle) @ model.components_.T
    x = graph.node("Cast", graph.input, to=_tensor_code(np.float64))
    z = graph.node("MatMul", graph.node("Sub", x, middle), model.components_.T)
    # |z - c|² without |z|², which is the same for all centres.
    products = graph.node("MatMul", z, -2 * centers.T)
    part = graph.node("Add", products, np.einsum("ij,ij->i", centers, centers))
    graph.node("ArgMin", part, into=graph.outputs[0], axis=1, keepdims=0)
    squared = graph.node("Add", part, graph.squared_length(z, centers.shape[1], np.float64))
    distances = graph.node("Sqrt", graph.node("Relu", squared))
    code = _tensor_code(_float_type(operator)[1])
    graph.node("Cast", distances, into=graph.outputs[1], to=code)

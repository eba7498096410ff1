"""Linear maps as layers of torch, which is imported only here and only when it is needed."""

from __future__ import annotations

from typing import Any

import numpy as np

from genmetric._optional import import_optional
from genmetric._parameters import check_parameter
from genmetric._typing import AnyArray

#: Smallest mean square of a vector that is divided by; zero vectors stay zero.
EPS = 1e-30


def linear_layer(weight: AnyArray, bias: AnyArray | None, dtype: str) -> Any:
    """Return a :class:`torch.nn.Linear` with the given weight and bias.

    Parameters
    ----------
    weight : ndarray of shape (n_components, n_features)
        The matrix of the map.
    bias : ndarray of shape (n_components,) or None
        The offset of the map; ``None`` makes a layer without bias.
    dtype : {"float32", "float64"}
        Type of the parameters.

    Returns
    -------
    torch.nn.Linear
        The layer, on the CPU.
    """
    check_parameter(dtype, "dtype", ["float32", "float64"])
    torch = import_optional("torch", "torch")
    n_components, n_features = weight.shape
    layer = torch.nn.Linear(
        n_features, n_components, bias=bias is not None, dtype=getattr(torch, dtype)
    )
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(np.array(weight, dtype=dtype)))
        if bias is not None:
            layer.bias.copy_(torch.from_numpy(np.array(bias, dtype=dtype)))
    return layer


def unit_vector_layers(weight: AnyArray, bias: AnyArray, dtype: str) -> Any:
    r"""Return layers that scale to unit length, apply a linear map and scale to unit length.

    :class:`torch.nn.RMSNorm` divides a vector by the root of its mean square, which is its length
    divided by :math:`\sqrt D`. The factor is part of the weights that follow, so that all layers
    are torch's own and can be saved, scripted and exported.

    Parameters
    ----------
    weight : ndarray of shape (n_components, n_features)
        The matrix of the map.
    bias : ndarray of shape (n_components,)
        The offset of the map.
    dtype : {"float32", "float64"}
        Type of the parameters.

    Returns
    -------
    torch.nn.Sequential
        Three layers, on the CPU.
    """
    n_components, n_features = weight.shape
    linear = linear_layer(weight / np.sqrt(n_features), bias, dtype)
    torch = import_optional("torch", "torch")
    kind = getattr(torch, dtype)
    before = torch.nn.RMSNorm(n_features, eps=EPS, elementwise_affine=False, dtype=kind)
    after = torch.nn.RMSNorm(n_components, eps=EPS, dtype=kind)
    with torch.no_grad():
        after.weight.fill_(1 / np.sqrt(n_components))
    after.weight.requires_grad_(False)
    return torch.nn.Sequential(before, linear, after)

"""The state of an estimator as a tree that JSON can hold, and a list of arrays.

One walk serves every estimator: an object is its class (one of :mod:`genmetric.files.classes`) and
the values of its attributes, as a pickle would have them, but nothing in the tree is ever called.

A JSON number, string, truth value, null or list stands for itself. Everything else is an object
with a key ``"$"`` that says what it is:

=============== ================================================================================
``"$"``         other keys
=============== ================================================================================
``object``      ``class``, ``state`` (values by attribute), ``id``
``same``        ``id`` of an object that came before
``array``       ``index`` in the list of arrays; ``axes`` where its memory runs in another order
``objects``     ``shape``, ``items``: an array of strings and other Python values
``masked``      ``data``, ``mask``, ``fill``: a masked array
``scalar``      ``dtype``, ``bytes`` in hexadecimal: a NumPy scalar
``dtype``       ``name``; ``type`` has the same for the class of such scalars
``tuple``       ``items``
``dict``        ``items``, a list of pairs
``slice``       ``items``: start, stop, step
``float``       ``value``: "nan", "inf" or "-inf"
``complex``     ``items``: real and imaginary part
``random``      ``key`` (index of an array), ``pos``, ``gauss``, ``id``; without ``key`` the
                generator of :mod:`numpy.random` itself
=============== ================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from math import prod
from typing import Any

import numpy as np

from genmetric._typing import AnyArray
from genmetric.files.archive import KINDS
from genmetric.files.classes import class_named, name_of

#: Attributes that are made anew from the others: see `genmetric.files.neighbors_index`.
DERIVED = {
    "sklearn.KNeighborsClassifier": ("_tree",),
    "sklearn.NearestNeighbors": ("_tree",),
}

ADVICE = (
    "A model file holds estimators of genmetric, some of scikit-learn (scalers, PCA, SimpleImputer, "
    "KNeighborsClassifier, LogisticRegression, Pipeline, ...), arrays, numbers and strings. For "
    "anything else use skops: skops.io.dump(model, path), and "
    "skops.io.load(path, trusted=genmetric.TRUSTED_TYPES + [...]) to read it."
)


class Encoder:
    """Turns values into a tree; the arrays come out beside it.

    Attributes
    ----------
    arrays : list of ndarray
        C-contiguous arrays, in the order of their numbers in the tree.
    """

    def __init__(self) -> None:
        self.arrays: list[AnyArray] = []
        self._places: dict[int, int] = {}  # number of an array by its identity
        self._ids: dict[int, int] = {}  # number of an object by its identity
        self._open: set[int] = set()  # objects that are being walked
        self._alive: list[Any] = []  # an identity is one while its object lives

    def encode(self, value: Any, where: str) -> Any:
        """The tree of a value; `where` is its name in errors."""
        if value is None or isinstance(value, bool):
            return value
        kind = type(value)
        if kind in (int, str):
            return value
        if kind is float:
            return value if math.isfinite(value) else {"$": "float", "value": str(value)}
        if kind is complex:
            return {"$": "complex", "items": self._items((value.real, value.imag), where)}
        if kind in (list, tuple, dict):
            return self._once(value, where, self._container)
        if kind is slice:
            items = self._items((value.start, value.stop, value.step), where)
            return {"$": "slice", "items": items}
        if isinstance(value, np.dtype):
            if value.kind not in KINDS + "O" or value.fields:
                self._refuse(value, where)
            return {"$": "dtype", "name": value.str}
        if isinstance(value, type) and issubclass(value, np.generic):
            dtype = np.dtype(value)
            if dtype.type is value and dtype.kind in KINDS:
                return {"$": "type", "name": dtype.str}
        if isinstance(value, np.generic) and value.dtype.kind in KINDS:
            return {"$": "scalar", "dtype": value.dtype.str, "bytes": value.tobytes().hex()}
        if kind in (np.ndarray, np.memmap):
            return self._array(value, where)
        if kind is np.ma.MaskedArray:
            parts = {"data": value.data, "mask": value.mask, "fill": value.fill_value}
            encoded = {name: self.encode(part, where) for name, part in parts.items()}
            return {"$": "masked", **encoded}
        if kind is np.random.RandomState or name_of(kind) is not None:
            if id(value) in self._ids:
                return {"$": "same", "id": self._ids[id(value)]}
            known = kind is np.random.RandomState
            node = self._once(value, where, self._random if known else self._object)
            node["id"] = self._ids[id(value)] = len(self._ids)
            self._alive.append(value)
            return node
        return self._refuse(value, where)

    def _refuse(self, value: Any, where: str) -> Any:
        cls = value if isinstance(value, type) else type(value)
        what = "the class" if isinstance(value, type) else "of type"
        raise TypeError(
            f"{where} is {what} {cls.__module__}.{cls.__qualname__}, which a model file cannot "
            f"hold. {ADVICE}"
        )

    def _once(self, value: Any, where: str, encode: Callable[[Any, str], Any]) -> Any:
        if id(value) in self._open:
            raise TypeError(f"{where} holds itself, which a model file cannot say.")
        self._open.add(id(value))
        try:
            return encode(value, where)
        finally:
            self._open.remove(id(value))

    def _items(self, values: Iterable[Any], where: str) -> list[Any]:
        return [self.encode(value, f"{where}[{i}]") for i, value in enumerate(values)]

    def _container(self, value: Any, where: str) -> Any:
        if isinstance(value, dict):
            pairs = [
                [self.encode(key, f"a key of {where}"), self.encode(item, f"{where}[{key!r}]")]
                for key, item in value.items()
            ]
            return {"$": "dict", "items": pairs}
        items = self._items(value, where)
        return items if isinstance(value, list) else {"$": "tuple", "items": items}

    def _array(self, value: AnyArray, where: str) -> Any:
        if value.dtype.kind == "O":
            items = self._items(value.ravel().tolist(), where)
            return {"$": "objects", "shape": list(value.shape), "items": items}
        if value.dtype.kind not in KINDS or value.dtype.fields:
            raise TypeError(f"{where} is an array of {value.dtype}. {ADVICE}")
        # Sums of products depend in their last bits on the order of the memory.
        axes = [int(axis) for axis in np.argsort([-abs(s) for s in value.strides], kind="stable")]
        if value.flags.c_contiguous:
            axes = list(range(value.ndim))
        node: dict[str, Any] = {"$": "array", "index": self._place(value, axes)}
        if axes != sorted(axes):
            node["axes"] = axes
        return node

    def _place(self, value: AnyArray, axes: list[int]) -> int:
        if id(value) not in self._places:
            self._places[id(value)] = len(self.arrays)
            self.arrays.append(np.asarray(value.transpose(axes), order="C"))
            self._alive.append(value)
        return self._places[id(value)]

    def _random(self, value: np.random.RandomState, where: str) -> dict[str, Any]:
        from sklearn.utils import check_random_state

        if value is check_random_state(None):
            return {"$": "random"}
        state: Any = value.get_state(legacy=False)
        if state["bit_generator"] != "MT19937":
            raise TypeError(
                f"{where} draws from {state['bit_generator']}. Give an int or "
                "numpy.random.RandomState(seed)."
            )
        return {
            "$": "random",
            "key": self._place(state["state"]["key"], [0]),
            "pos": int(state["state"]["pos"]),
            "gauss": self._items((int(state["has_gauss"]), float(state["gauss"])), where),
        }

    def _object(self, value: Any, where: str) -> dict[str, Any]:
        name = name_of(type(value))
        assert name is not None
        skip = DERIVED.get(name, ())
        state = {
            key: self.encode(item, f"{where}.{key}")
            for key, item in attributes(value).items()
            if key not in skip
        }
        return {"$": "object", "class": name, "state": state}


def attributes(value: Any) -> dict[str, Any]:
    """The attributes that make up an object, as a pickle would keep them."""
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, tuple):
        return value._asdict()  # type: ignore[attr-defined, no-any-return]
    if hasattr(value, "get_params"):
        return dict(value.__getstate__())
    return dict(vars(value))


class Decoder:
    """Turns a tree back into values.

    Parameters
    ----------
    array : callable
        Returns the array of a number.
    """

    def __init__(self, array: Callable[[int], AnyArray]) -> None:
        self._read = array
        self._arrays: dict[int, AnyArray] = {}
        self._objects: dict[int, Any] = {}

    def decode(self, node: Any) -> Any:
        """The value of a tree."""
        if isinstance(node, list):
            return self._items(node)
        if not isinstance(node, dict):
            return node
        decode = getattr(self, f"_decode_{node['$']}", None)
        if decode is None:
            raise ValueError(f"unknown kind of value {str(node['$'])[:40]!r}")
        return decode(node)

    def _items(self, nodes: list[Any]) -> list[Any]:
        return [self.decode(node) for node in nodes]

    def _decode_array(self, node: Any) -> AnyArray:
        index = node["index"]
        # Two uses of one array stay one array.
        if index not in self._arrays:
            array = self._read(index)
            axes = node.get("axes", range(array.ndim))
            self._arrays[index] = array.transpose(np.argsort(axes))
        return self._arrays[index]

    def _decode_objects(self, node: Any) -> AnyArray:
        items = self._items(node["items"])
        if prod(node["shape"]) != len(items):
            raise ValueError("an array of values does not have as many as its shape says")
        flat = np.empty(len(items), object)
        for i, item in enumerate(items):  # one by one: a list of lists would be taken for a table
            flat[i] = item
        return flat.reshape(node["shape"])

    def _decode_masked(self, node: Any) -> Any:
        data, mask, fill = (self.decode(node[name]) for name in ("data", "mask", "fill"))
        return np.ma.MaskedArray(data, mask=mask, fill_value=fill)

    def _decode_scalar(self, node: Any) -> Any:
        dtype = _plain_dtype(node["dtype"])
        raw = bytes.fromhex(node["bytes"])
        if len(raw) != dtype.itemsize:
            raise ValueError("a number has the wrong length")
        return np.frombuffer(raw, dtype)[0] if raw else dtype.type()

    def _decode_dtype(self, node: Any) -> Any:
        return np.dtype(object) if node["name"] == "|O" else _plain_dtype(node["name"])

    def _decode_type(self, node: Any) -> Any:
        return _plain_dtype(node["name"]).type

    def _decode_tuple(self, node: Any) -> Any:
        return tuple(self._items(node["items"]))

    def _decode_dict(self, node: Any) -> Any:
        return {self.decode(key): self.decode(item) for key, item in node["items"]}

    def _decode_slice(self, node: Any) -> Any:
        return slice(*self._items(node["items"]))

    def _decode_float(self, node: Any) -> float:
        return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[node["value"]]

    def _decode_complex(self, node: Any) -> complex:
        return complex(*self._items(node["items"]))

    def _decode_same(self, node: Any) -> Any:
        return self._objects[node["id"]]

    def _decode_random(self, node: Any) -> Any:
        from sklearn.utils import check_random_state

        if "key" not in node:
            random = check_random_state(None)
        else:
            # The generator does not check its position, and would read past its numbers.
            if not 0 <= node["pos"] <= 624:
                raise ValueError("a random state has an impossible position")
            has_gauss, gauss = self._items(node["gauss"])
            random = np.random.RandomState()
            key = self._read(node["key"])
            random.set_state(("MT19937", key, node["pos"], has_gauss, gauss))
        self._objects[node["id"]] = random
        return random

    def _decode_object(self, node: Any) -> Any:
        try:
            cls = class_named(node["class"])
        except KeyError:
            raise ValueError(
                f"it holds an object of the unknown class {str(node['class'])[:80]!r}"
            ) from None
        state = {key: self.decode(item) for key, item in node["state"].items()}
        for key in state:
            if not key.isidentifier() or key.startswith("__"):
                raise ValueError(f"{node['class']} has an attribute of the name {key[:40]!r}")
        made = restored(node["class"], cls, state)
        self._objects[node["id"]] = made
        return made


def _plain_dtype(name: Any) -> np.dtype[Any]:
    dtype = np.dtype(str(name))
    if dtype.kind not in KINDS or dtype.fields or dtype.hasobject:
        raise ValueError(f"the type {str(name)[:40]!r} is none that genmetric writes")
    return dtype


def restored(name: str, cls: type, state: dict[str, Any]) -> Any:
    """An object of a class with given attributes, made without a call of its constructor."""
    if issubclass(cls, tuple):
        return cls(**state)
    if is_dataclass(cls):
        expected = {field.name for field in fields(cls)}
        if set(state) != expected:
            raise ValueError(f"{name} has the attributes {sorted(state)}, not {sorted(expected)}")
        made: Any = object.__new__(cls)
        for key, value in state.items():
            object.__setattr__(made, key, value)
        return made
    made = object.__new__(cls)
    if hasattr(cls, "get_params"):
        made.__setstate__(state)  # scikit-learn's warns where the versions differ
    else:
        vars(made).update(state)
    if name in DERIVED:
        from genmetric.files.neighbors_index import rebuild_tree

        rebuild_tree(made)
    return made

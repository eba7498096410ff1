"""Values as a tree that JSON can represent, and a list of arrays.

A JSON number, string, boolean, null or list stands for itself. Every other value is a JSON object
whose key ``"$"`` is its kind:

=============== ================================================================================
``"$"``         other keys
=============== ================================================================================
``object``      ``class`` and ``parts`` (values by name; see :mod:`genmetric.files._registry`),
                ``id``
``same``        ``id`` of an object that came before
``array``       ``index`` in the list of arrays; ``axes`` if its memory has another order
``strings``     ``shape``, ``text`` and ``ends`` (indices of arrays): an array of Python strings
``objects``     ``shape``, ``items``: an array of other Python values
``masked``      ``data``, ``mask``, ``fill``: a masked array
``scalar``      ``dtype``, ``bytes`` in hexadecimal: a NumPy scalar
``dtype``       ``name`` of a NumPy type; ``type`` is the same for the class of its scalars
``tuple``       ``items``
``dict``        ``items``, a list of pairs
``slice``       ``items``: start, stop, step
``float``       ``value``: "nan", "inf" or "-inf"
``complex``     ``items``: real and imaginary part
``random``      ``key`` (index of an array), ``pos``, ``gauss``, ``id``; without ``key`` the
                global generator of :mod:`numpy.random`
=============== ================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from math import prod
from typing import Any, NoReturn

import numpy as np

from genmetric._typing import AnyArray
from genmetric.files._archive import KINDS, plain_dtype
from genmetric.files._probe import Budget
from genmetric.files._registry import SAVABLE, class_named, name_of

ADVICE = (
    "A model file holds estimators of genmetric, some of scikit-learn (scalers, PCA, SimpleImputer, "
    "encoders, KNeighborsClassifier, LogisticRegression, ColumnTransformer, Pipeline, ...), arrays, "
    "numbers and strings. For anything else use skops: skops.io.dump(model, path), and "
    "skops.io.load(path, trusted=genmetric.TRUSTED_TYPES + [...]) to read it."
)


class Encoder:
    """Encoder of values; arrays are collected separately.

    Attributes
    ----------
    arrays : list of ndarray
        C-contiguous arrays, in the order of their numbers in the tree.
    """

    def __init__(self) -> None:
        self.arrays: list[AnyArray] = []
        self._places: dict[int, int] = {}  # number of an array by its identity
        self._ids: dict[int, int] = {}  # number of an object by its identity
        self._open: set[int] = set()  # objects that are being encoded
        self._alive: list[Any] = []  # identities are unique only while the objects exist

    def encode(self, value: Any, where: str) -> Any:
        """Return the tree of a value; `where` is its name in error messages."""
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

    def _refuse(self, value: Any, where: str) -> NoReturn:
        cls = value if isinstance(value, type) else type(value)
        what = "the class" if isinstance(value, type) else "of type"
        raise TypeError(
            f"{where} is {what} {cls.__module__}.{cls.__qualname__}, which a model file cannot "
            f"hold. {ADVICE}"
        )

    def _once(self, value: Any, where: str, encode: Callable[[Any, str], Any]) -> Any:
        if id(value) in self._open:
            raise TypeError(
                f"{where} contains a reference cycle, which model files do not support."
            )
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
            return self._objects(value, where)
        if value.dtype.kind not in KINDS or value.dtype.fields:
            raise TypeError(f"{where} is an array of {value.dtype}. {ADVICE}")
        if value.dtype.itemsize == 0:
            # An array of empty strings; the smallest type that can be stored has one character.
            value = value.astype(f"{value.dtype.kind}1")
        # Sums of products depend in their last bits on the memory order.
        axes = [int(axis) for axis in np.argsort([-abs(s) for s in value.strides], kind="stable")]
        if value.flags.c_contiguous:
            axes = list(range(value.ndim))
        node: dict[str, Any] = {"$": "array", "index": self._place(value, axes)}
        if axes != sorted(axes):
            node["axes"] = axes
        return node

    def _objects(self, value: AnyArray, where: str) -> Any:
        items = value.ravel().tolist()
        if not items or any(type(item) is not str for item in items):
            shape = list(value.shape)
            return {"$": "objects", "shape": shape, "items": self._items(items, where)}
        texts = [item.encode("utf-8", "surrogatepass") for item in items]
        text = np.frombuffer(b"".join(texts), np.uint8)
        ends = np.cumsum([len(item) for item in texts], dtype=np.int64)
        places = {"text": self._place(text, [0]), "ends": self._place(ends, [0])}
        return {"$": "strings", "shape": list(value.shape), **places}

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
                f"{where} draws from {state['bit_generator']}. Use an int or "
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
        parts: dict[str, Any] = {}
        for key, part in SAVABLE[name].form.parts(value).items():
            if key in ("parameters", "fitted"):
                # Errors name attributes as they are written in Python.
                pairs = [[n, self.encode(item, f"{where}.{n}")] for n, item in part.items()]
                parts[key] = {"$": "dict", "items": pairs}
            else:
                parts[key] = self.encode(part, f"{where}.{key}")
        return {"$": "object", "class": name, "parts": parts}


class Decoder:
    """Decoder of a tree.

    Parameters
    ----------
    array : callable
        Returns the array of a number.
    budget : Budget
        Memory and work that decoding may use.
    """

    def __init__(self, array: Callable[[int], AnyArray], budget: Budget) -> None:
        self._read = array
        self._budget = budget
        self._arrays: dict[int, AnyArray] = {}
        self._objects: dict[int, Any] = {}

    def decode(self, node: Any) -> Any:
        """Return the value of a tree."""
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
        # Two uses of one array remain one array.
        if index not in self._arrays:
            array = self._read(index)
            axes = list(node.get("axes", range(array.ndim)))
            self._arrays[index] = array.transpose(np.argsort(axes)) if axes else array
        array = self._arrays[index]
        self._budget.use_work(array.nbytes)
        return array

    def _shape(self, node: Any, size: int) -> tuple[int, ...]:
        shape = tuple(node["shape"])
        if len(shape) > 16 or any(not isinstance(n, int) or n < 0 for n in shape):
            raise ValueError("an array has an invalid shape")
        if prod(shape) != size:
            raise ValueError("the number of elements of an array does not match its shape")
        self._budget.use_memory(8 * prod(max(1, n) for n in shape))
        return shape

    def _decode_strings(self, node: Any) -> AnyArray:
        text, ends = self._read(node["text"]), self._read(node["ends"])
        if text.dtype != np.uint8 or ends.dtype != np.int64 or ends.ndim != 1 or text.ndim != 1:
            raise ValueError("an array of strings has the wrong types")
        self._budget.use_memory(64 * len(ends) + text.nbytes)
        starts = np.concatenate([[0], ends])
        if starts[-1] != len(text) or np.any(starts[1:] < starts[:-1]):
            raise ValueError("the lengths of an array of strings do not match its text")
        flat = np.empty(len(ends), object)
        for i, (start, end) in enumerate(zip(starts, ends, strict=False)):
            flat[i] = text[start:end].tobytes().decode("utf-8", "surrogatepass")
        return flat.reshape(self._shape(node, len(ends)))

    def _decode_objects(self, node: Any) -> AnyArray:
        items = self._items(node["items"])
        flat = np.empty(len(items), object)
        for i, item in enumerate(items):  # numpy.array would turn a list of lists into a table
            flat[i] = item
        return flat.reshape(self._shape(node, len(items)))

    def _decode_masked(self, node: Any) -> Any:
        data, mask, fill = (self.decode(node[name]) for name in ("data", "mask", "fill"))
        self._budget.use_memory(2 * np.asarray(data).nbytes)
        return np.ma.MaskedArray(data, mask=mask, fill_value=fill)

    def _decode_scalar(self, node: Any) -> Any:
        name = node["dtype"]
        if name in ("<U0", "|S0", ">U0"):
            return np.dtype(name).type()
        dtype = plain_dtype(name)
        raw = bytes.fromhex(node["bytes"])
        if len(raw) != dtype.itemsize:
            raise ValueError("a number has the wrong length")
        return np.frombuffer(raw, dtype)[0]

    def _decode_dtype(self, node: Any) -> Any:
        return np.dtype(object) if node["name"] == "|O" else plain_dtype(node["name"])

    def _decode_type(self, node: Any) -> Any:
        # The type of strings of any length has size zero.
        name = node["name"]
        return np.dtype(name).type if name in ("<U0", "|S0", ">U0") else plain_dtype(name).type

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
            # set_state does not check the position and would read outside of the key.
            if not isinstance(node["pos"], int) or not 0 <= node["pos"] <= 624:
                raise ValueError("a random state has an impossible position")
            key = self._read(node["key"])
            if key.shape != (624,) or key.dtype != np.uint32:
                raise ValueError("a random state has an invalid key")
            has_gauss, gauss = self._items(node["gauss"])
            random = np.random.RandomState()
            random.set_state(("MT19937", key, node["pos"], int(has_gauss), float(gauss)))
        self._objects[node["id"]] = random
        return random

    def _decode_object(self, node: Any) -> Any:
        name = node["class"]
        if name not in SAVABLE:
            raise ValueError(f"it holds an object of the unknown class {str(name)[:80]!r}")
        parts = {key: self.decode(part) for key, part in node["parts"].items()}
        rebuilt = SAVABLE[name].form.rebuild(class_named(name), parts, self._budget)
        self._objects[node["id"]] = rebuilt
        return rebuilt

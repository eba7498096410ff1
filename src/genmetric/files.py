"""Model files, written by skops: fitted estimators as arrays and JSON, without code."""

from __future__ import annotations

import io
import json
import os
import secrets
import stat
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from copy import deepcopy
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from genmetric._text import import_optional, readable_bytes

__all__ = ["TRUSTED_TYPES", "ModelFileError", "load", "save"]

_TRUSTED = {
    "cluster": "MetricKMeans",
    "density.gaussian": "ClassGaussians",
    "density.low_rank": "LowRankGaussians",
    "density.models": "GaussianDensity GaussianMixtureModel GaussianModel JointDensity SeparateModels",
    "density.statistics": "ClassStatistics Coordinates",
    "kernels.classifier": "SimpleMKLClassifier",
    "kernels.metric_kernel": "MetricKernel",
    "kernels.regional": "RegionalKernels",
    "learners.embedding": "EmbeddingAdapter EmbeddingStatistics",
    "learners.generative": "GenerativeMetric",
    "learners.generative_cv": "GenerativeMetricCV",
    "learners.lmnn": "LMNN",
    "learners.mlkr": "MLKR",
    "learners.pairs": "PairClassifier PairModel",
    "learners.regression": "GenerativeRegressionMetric GenerativeRegressionMetricCV",
    "learners.streaming": "ClassStream Reservoir",
    "learners.weights": "GaussianMixtureWeights KernelDensityWeights",
    "neighbors.energy": "EnergyClassifier EnergyModel",
    "neighbors.kernel_regressor": "KernelRegressor",
    "neighbors.local": "LocalMetricClassifier",
    "tables.encoder": "TableEncoder",
}

#: Types of genmetric that a model file may contain, for ``skops.io.load(path, trusted=...)``. Other
#: types are those of scikit-learn and NumPy that skops trusts itself.
TRUSTED_TYPES = [
    "numpy.dtype",
    *(f"genmetric.{module}.{name}" for module, names in _TRUSTED.items() for name in names.split()),
]

#: Nodes of skops that a model may have. Sparse matrices are not among them, because SciPy does not
#: check their indices, nor are nodes that call functions of any kind.
_NODES = (
    "DictNode ListNode TupleNode SetNode JsonNode TypeNode SliceNode ObjectNode FunctionNode "
    "NdArrayNode MaskedArrayNode DTypeNode RandomStateNode LossNode"
)

#: The member of the archive with the metadata, next to those of skops.
_METADATA = "genmetric.json"

#: Bytes that one object of a description counts.
_OBJECT_BYTES = 2**14

#: Sets with more items, and dictionaries with more keys that are not strings, are refused, because
#: hashes of numbers can be made to collide.
_MOST_KEYS = 10_000


class ModelFileError(ValueError):
    """A file that is not a model file of genmetric, or is damaged, or has types not trusted."""


def save(
    estimator: Any,
    path: str | os.PathLike[str] | BinaryIO,
    *,
    metadata: dict[str, Any] | None = None,
) -> None:
    """Save an estimator, fitted or not, in a model file.

    The file is a skops archive of arrays and JSON. It contains no code, and :func:`load` runs none.
    It is written under a temporary name and renamed when complete: after an error an existing file
    is unchanged. Nearest-neighbour estimators of scikit-learn are saved with the brute search, so
    that a file holds no search trees, and pipelines without their `memory`.

    Parameters
    ----------
    estimator : estimator
        Estimator of genmetric or scikit-learn, or a pipeline of them. A metric fitted by
        `partial_fit` can be loaded and trained or merged further.
    path : str, path-like or binary file
        The file to write; no suffix is added. A file object, such as :class:`io.BytesIO`, gets the
        same bytes.
    metadata : dict, default=None
        Values that JSON can represent, for your own use.

    Raises
    ------
    TypeError
        If the estimator contains something that a model file cannot hold, such as a function.
    ModelFileError
        If :func:`load` would refuse the file, such as one with a very large set.

    Examples
    --------
    >>> import genmetric
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = genmetric.GenerativeMetric().fit(X, y)
    >>> path = getfixture("tmp_path") / "iris.skops"
    >>> genmetric.save(model, path)
    >>> bool((genmetric.load(path).transform(X) == model.transform(X)).all())
    True
    """
    sio = import_optional("skops.io", "files")
    content = io.BytesIO(sio.dumps(_portable(estimator)))
    untrusted = set(sio.get_untrusted_types(data=content.getvalue())) - set(TRUSTED_TYPES)
    if untrusted or isinstance(estimator, type):
        found = ", ".join(sorted(untrusted)) or "a class, not an instance of it"
        raise TypeError(
            f"A model file holds estimators of genmetric and scikit-learn; got {found}. Save the "
            "estimator without it."
        )
    facts = {"genmetric": version("genmetric"), "metadata": metadata or {}}
    with zipfile.ZipFile(content, "a") as archive:
        archive.writestr(_METADATA, json.dumps(facts))
    _check_archive(content, sys.maxsize)
    if hasattr(path, "write"):
        path.write(content.getvalue())
    else:
        with write_atomically(path) as file:
            file.write(content.getvalue())


def load(
    path: str | os.PathLike[str] | BinaryIO,
    *,
    return_metadata: bool = False,
    max_bytes: int = 2**31,
) -> Any:
    """Load the estimator of a model file.

    No code of the file runs and nothing is fitted: types that are not trusted are refused by name
    before anything is built. Files depend on the version of scikit-learn that wrote them. A file of
    2 GB may take several times as much memory: load large files only from people you trust.

    Parameters
    ----------
    path : str, path-like or binary file
        A file written by :func:`save`, or a file object that can seek.
    return_metadata : bool, default=False
        Whether to return the metadata that was saved too.
    max_bytes : int, default=2**31
        Limit of the sizes that the file declares and of what it describes. An array counts as often
        as the file refers to it, an object counts 16 KB, and a byte of the description 64 bytes.
        Raise it for larger models.

    Returns
    -------
    estimator : estimator
        It predicts and transforms as the saved one did. `n_jobs` is None, so a file does not
        decide how many processes start.
    metadata : dict
        Only if `return_metadata` is True.

    Raises
    ------
    ModelFileError
        If the file is damaged, too large, not a model file, or contains types that are not trusted.
    OSError
        If the file cannot be read.

    Examples
    --------
    >>> import genmetric
    >>> path = getfixture("tmp_path") / "metric.skops"
    >>> genmetric.save(genmetric.GenerativeMetric(shrinkage=0.2), path)
    >>> genmetric.load(path)
    GenerativeMetric(shrinkage=0.2)
    """
    sio = import_optional("skops.io", "files")
    given: Any = path
    is_open = hasattr(given, "read")
    name = "The file object" if is_open else os.fspath(given)
    with nullcontext(given) if is_open else Path(name).open("rb") as file:
        try:
            metadata = _check_archive(file, max_bytes)
            estimator = sio.load(file, trusted=TRUSTED_TYPES)
            _check_objects(estimator)
        except ModelFileError as error:
            raise ModelFileError(f"{name}: {error}") from error
        except Exception as error:  # whatever a damaged file makes skops, zipfile or NumPy raise
            text = " ".join(str(error).split())[:300] or type(error).__name__
            raise ModelFileError(
                f"{name} is not a model file of genmetric, or it is damaged: {text}"
            ) from error
    return (estimator, metadata) if return_metadata else estimator


def _check_archive(file: BinaryIO, max_bytes: int) -> dict[str, Any]:
    """Raise if an archive declares or describes more than it should; return its metadata."""
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        # Files that we write are not compressed, so they are as large as what they hold.
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise ModelFileError("compressed members are not supported. Save the model again.")
        sizes = {member.filename: member.file_size for member in members}
        total = max(sum(member.file_size for member in members), 64 * sizes["schema.json"])
        if total <= max_bytes:
            total = max(total, _described(json.loads(archive.read("schema.json")), sizes, {}))
        if total > max_bytes:
            raise ModelFileError(
                f"the model takes up to {readable_bytes(total)}, more than max_bytes="
                f"{readable_bytes(max_bytes)}. Pass a larger max_bytes if you trust the file."
            )
        return dict(json.loads(archive.read(_METADATA))["metadata"])


def _described(value: Any, sizes: dict[str, int], known: dict[Any, Any]) -> int:
    """Return the bytes of what a description of skops makes; raise on what a model does not need.

    skops builds one object per "__id__". A repeated one has to be written in full, as skops does:
    then a file is as large as what it makes, and no object contains itself.
    """
    if isinstance(value, list):
        return sum(_described(part, sizes, known) for part in value)
    if not isinstance(value, dict):
        return 0
    total = sum(_described(part, sizes, known) for part in value.values())
    if all(isinstance(value.get(mark, {}), dict) for mark in ("__loader__", "__id__")):
        return total  # a container of nodes
    total += _OBJECT_BYTES + sizes.get(value.get("file", ""), 0)
    facts = (value["__loader__"], value["__module__"], value["__class__"], total)
    if known.setdefault(value.get("__id__", object()), facts) != facts:
        raise ModelFileError("two different objects have the same number.")
    node, content = value["__loader__"], value.get("content", "")
    if node not in _NODES.split() or (node == "JsonNode" and content.strip()[:1] in ("[", "{")):
        raise ModelFileError(f"a model may not contain a {node} of skops like this one.")
    if node in ("SetNode", "DictNode") and len(content) > _MOST_KEYS:
        types = value.get("key_types", {"content": [{}]})["content"]
        if any(key.get("__class__") != "str" for key in types):
            raise ModelFileError(f"it has more than {_MOST_KEYS} keys that are not strings.")
    return total


def _objects(root: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield an object and what it contains, each once, with its attributes."""
    waiting, seen = [root], {id(root)}
    while waiting:
        found = waiting.pop()
        state = {} if isinstance(found, type) else getattr(found, "__dict__", {})
        yield found, state
        inside: Any = state.values()
        if isinstance(found, list | tuple | set):
            inside = found
        elif isinstance(found, dict):
            inside = found.values()
        elif isinstance(found, np.ndarray) and found.dtype == object:
            inside = found.ravel().tolist()
        for item in inside:
            if not isinstance(item, str | int | float | bool | None) and id(item) not in seen:
                seen.add(id(item))
                waiting.append(item)


def _check_objects(root: Any) -> None:
    """Raise on loaded objects that would run code or answer wrongly when they are used."""
    if not hasattr(root, "get_params") or isinstance(root, type):
        raise ModelFileError(f"expected an estimator; got {type(root).__name__}.")
    for found, state in _objects(root):
        kind = type(found)
        if isinstance(found, np.ndarray) and max(found.shape, default=0) > found.nbytes + 1000:
            raise ModelFileError(f"it has an array of shape {found.shape} without values.")
        for name, value in state.items():
            # What replaces a method or a part of scikit-learn's HTML is shown in a notebook.
            # joblib.Memory unpickles what its folder holds.
            if (
                hasattr(getattr(kind, name, None), "__get__")
                or not name.isidentifier()
                or "doc_link" in name
                or name.startswith(("_repr", "_sk_", "__"))
                or (name == "memory" and value is not None)
            ):
                raise ModelFileError(f"{kind.__name__} sets {name!r}, which a model may not do.")
        if "n_jobs" in state:
            state["n_jobs"] = None
        for name in ("components_", "metric_", "coef_", "_fit_X"):
            if "n_features_in_" in state and not _fits(name, state):
                raise ModelFileError(
                    f"{name} of {kind.__name__} does not fit its features or classes."
                )


def _fits(name: str, state: dict[str, Any]) -> bool:
    """Return whether an array of an estimator fits its features and its classes."""
    array, classes = state.get(name), state.get("classes_")
    if array is None:
        return True
    if array.shape[-1:] != (state["n_features_in_"],) or not np.isfinite(array).all():
        return False
    if name == "metric_":
        return np.allclose(array, array.T, atol=1e-8 * np.abs(array).max())
    if name == "coef_" and array.ndim == 2 and isinstance(classes, np.ndarray):
        return len(array) == (1 if len(classes) == 2 else len(classes))
    return True


def _portable(estimator: Any) -> Any:
    """Return a copy of an estimator without search trees and without `memory`."""
    estimator = deepcopy(estimator)
    for _, state in _objects(estimator):
        if state.get("memory") is not None:
            state["memory"] = None
        if state.get("_tree") is not None:
            state |= {"_tree": None, "_fit_method": "brute", "algorithm": "brute"}
    return estimator


@contextmanager
def write_atomically(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a new binary file that replaces `path` if the block succeeds.

    It is written under a temporary name in the same directory, flushed to disk and renamed. After
    an error the temporary file is removed and an existing file keeps its content. Permissions and
    group are those of the file that is replaced.
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name[:100]}-{secrets.token_hex(8)}.tmp")
    try:
        old = target.stat() if target.exists() else None
        if old is not None and not stat.S_ISREG(old.st_mode):
            raise OSError(f"{os.fspath(path)} is not a regular file. Choose another name.")
        with temporary.open("xb") as file:
            if old is not None:
                with suppress(OSError, AttributeError):
                    os.chown(temporary, -1, old.st_gid)
                temporary.chmod(stat.S_IMODE(old.st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except OSError as error:
        if error.errno is None:
            raise
        raise type(error)(error.errno, error.strerror, os.fspath(path)) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)

"""Datasets of the paper: scaling, random splits and their number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.preprocessing import minmax_scale

from genmetric._typing import AnyArray, IntArray
from genmetric.datasets import deskew, load_dataset
from genmetric.files import write_atomically

Parts = Mapping[str, tuple[AnyArray, AnyArray]]

#: Principal components in the cache of MNIST; smaller problems use the leading ones.
_MOST_COMPONENTS = 164


@dataclass(frozen=True)
class Problem:
    """One dataset under the protocol of the paper's experiments.

    Attributes
    ----------
    name, title : str
        Names on the command line and in tables.
    dataset : str
        Name for :func:`genmetric.datasets.load_dataset`.
    scale : bool
        Whether each feature is scaled to [-1, 1] on the whole dataset.
    n_components : int or None
        Number of principal components of deskewed images; None uses the features.
    sizes : (int, int) or None
        Number of training and validation samples, drawn at random; the test samples are the rest.
        ``None`` takes a fifth of each class, rounded up, for test, and as many for validation.
    n_test : int or None
        Number of samples at the end that are the test samples of every split.
    n_splits : int
        Number of splits in the paper.
    """

    name: str
    title: str = field(repr=False)
    dataset: str
    _: KW_ONLY
    scale: bool = True
    n_components: int | None = None
    sizes: tuple[int, int] | None = None
    n_test: int | None = None
    n_splits: int = field(default=30, repr=False)


def split_rows(y: AnyArray, problem: Problem, seed: int) -> list[IntArray]:
    """Draw the indices of the training, validation and test samples of a random split.

    Examples
    --------
    >>> from genmetric.datasets import load_wine
    >>> from genmetric.reproduction.problems import PROBLEMS, split_rows
    >>> y = load_wine().target
    >>> [len(part) for part in split_rows(y, PROBLEMS["wine"], 0)]
    [104, 37, 37]
    """
    rng = np.random.default_rng(seed)
    if problem.sizes is None:
        by_class = []
        for c in np.unique(y):
            rows = rng.permutation(np.flatnonzero(y == c))
            fifth = -(-len(rows) // 5)
            by_class.append(np.split(rows, [-2 * fifth, -fifth]))
        return [np.sort(np.concatenate(part)) for part in zip(*by_class, strict=True)]
    n_drawn = len(y) - (problem.n_test or 0)
    rows = np.r_[rng.permutation(n_drawn), n_drawn : len(y)]
    return np.split(rows, np.cumsum(problem.sizes))


def split_parts(X: AnyArray, y: AnyArray, problem: Problem, seed: int) -> Parts:
    """Return samples and classes of the parts "train", "val" and "test" of a split."""
    indices = split_rows(y, problem, seed)
    return {
        name: (np.asarray(X[rows]), y[rows])
        for name, rows in zip(("train", "val", "test"), indices, strict=True)
    }


@lru_cache(maxsize=4)
def load_problem(
    problem: Problem, data_dir: str | None = None, cache_dir: str | None = None
) -> tuple[AnyArray, AnyArray]:
    """Load all samples of a problem, scaled, and their classes 0, 1, ..."""
    if problem.n_components is not None:
        Z, y = _image_components(problem.dataset, data_dir, cache_dir)
        return Z[:, : problem.n_components], y
    X, y = load_dataset(problem.dataset, return_X_y=True, data_dir=data_dir)
    return (minmax_scale(X, (-1, 1)) if problem.scale else X), y


def _image_components(
    name: str, data_dir: str | None, cache_dir: str | None
) -> tuple[AnyArray, AnyArray]:
    """Return the leading principal components of deskewed images, from the cache if possible."""
    if cache_dir is not None:
        files = [Path(cache_dir) / f"{name}_pca{_MOST_COMPONENTS}_{part}.npy" for part in "Xy"]
        if not all(path.is_file() for path in files):
            Path(cache_dir).mkdir(parents=True, exist_ok=True)
            arrays = _image_components(name, data_dir, None)
            for path, array in zip(files, arrays, strict=True):
                with write_atomically(path) as file:
                    np.save(file, array, allow_pickle=False)
        X, y = (np.load(path, mmap_mode="r", allow_pickle=False) for path in files)
        return X, np.asarray(y)
    pixels, y = load_dataset(name, return_X_y=True, data_dir=data_dir)
    side = round(pixels.shape[1] ** 0.5)
    images = deskew(pixels.reshape(-1, side, side)).reshape(len(pixels), -1) / 255
    pca = PCA(_MOST_COMPONENTS, svd_solver="covariance_eigh")
    return pca.fit_transform(images).astype(np.float64), y


# The paper says 65000 training samples of MNIST, but with 15000 others there would be too many. Its
# standard errors are too small for test samples drawn at random: they are the standard ones.
_MNIST: dict[str, Any] = {
    "scale": False,
    "sizes": (55_000, 5_000),
    "n_test": 10_000,
    "n_splits": 5,
}
_LETTERS: dict[str, Any] = {"sizes": (12_000, 2_000), "n_splits": 10}

#: All problems by name.
PROBLEMS: dict[str, Problem] = {
    problem.name: problem
    for problem in (
        Problem("3-normal", "3-Normal", "three_normal"),
        Problem("2-normal", "2-Normal", "two_normal"),
        *(
            Problem(title.lower(), title, title.lower())
            for title in ("Wine", "Iris", "Heart", "Vehicle", "Ionosphere", "Image")
        ),
        Problem("german", "German", "german_ida"),
        *(
            Problem(f"mnist-{d}", f"MNIST-{d}", "mnist", n_components=d, **_MNIST)
            for d in (40, 60, 164)
        ),
        Problem("letters-scaled", "Letters-scaled", "letter", **_LETTERS),
        Problem("letters-original", "Letters-original", "letter", scale=False, **_LETTERS),
    )
}

#: The eight small datasets of the paper's main table, in its order.
SMALL = ("3-normal", "wine", "iris", "heart", "vehicle", "ionosphere", "image", "german")

#: The five columns of its table of large datasets.
LARGE = ("mnist-40", "mnist-60", "mnist-164", "letters-scaled", "letters-original")

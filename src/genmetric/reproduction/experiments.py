"""The experiments of the paper: datasets, methods with their grids, published values.

A new dataset is an entry of :data:`genmetric.reproduction.problems.PROBLEMS`, a new method an
object below; both then belong in the lists of an :class:`Experiment`.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import product
from typing import Any, NamedTuple

from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.svm import SVC

from genmetric.datasets import CATALOGUE
from genmetric.learners import LMNN, GenerativeMetric
from genmetric.reproduction.methods import (
    Clusters,
    Energy,
    Estimators,
    InMetric,
    KernelCombination,
    LocalVotes,
    Method,
    Seconds,
)
from genmetric.reproduction.problems import LARGE, SMALL, Problem


class Figure(NamedTuple):
    """A published mean and its standard error; NaN if none is published."""

    mean: float
    stderr: float = float("nan")


_PAPER = tomllib.loads(files("genmetric.reproduction").joinpath("paper.toml").read_text("utf-8"))

#: Most likely reasons of differences from the paper, by "dataset method", method or dataset.
REASONS: dict[str, str] = _PAPER["reasons"]


def published(table: str) -> dict[tuple[str, str], Figure]:
    """Return the values of a table of the paper, in %, Rand index or seconds."""
    lines = dict(_PAPER[table])
    names = lines.pop("datasets").split(", ")
    return {
        (name, method): Figure(*map(float, cell.split()))
        for method, line in lines.items()
        for name, cell in zip(names, line.split(","), strict=True)
    }


#: Incremented if the protocol changes in a way that the objects below do not show.
PROTOCOL_VERSION = 3


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One table of the paper.

    Attributes
    ----------
    name, title : str
        Names on the command line and on pages.
    problems : tuple of str
        Names of the datasets, in the order of the paper.
    methods : tuple of Method
        Methods in the order of the paper.
    figures : mapping of (problem, method) to Figure
        Published values.
    ranked : mapping of str to float
        Methods that are ranked, and their average ranks in the paper.
    n_splits : int or None
        Number of splits; ``None`` is that of each dataset.
    only : mapping of str to tuple of str
        Methods that run only on the named problems.
    quick : tuple of str
        The problems of a first look, in minutes.
    """

    name: str
    title: str
    problems: tuple[str, ...]
    methods: tuple[Method, ...]
    figures: Mapping[tuple[str, str], Figure] = field(default_factory=dict)
    ranked: Mapping[str, float] = field(default_factory=dict)
    n_splits: int | None = None
    only: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    quick: tuple[str, ...] = ("wine", "iris", "vehicle", "ionosphere", "3-normal")

    def methods_for(self, problem: str) -> tuple[Method, ...]:
        """Return the methods that run on a dataset."""
        return tuple(m for m in self.methods if problem in self.only.get(m.name, (problem,)))


def protocol(problem: Problem, method: Method) -> str:
    """Hash all that a score depends on except the code: data, splits and grids; twelve digits.

    A stored score is valid only for the hash it was computed with.
    """
    things = (PROTOCOL_VERSION, problem, CATALOGUE[problem.dataset].recipe, method)
    # scikit-learn wraps the lines of a long repr.
    text = "".join("|".join(map(repr, things)).split())
    return hashlib.sha256(text.encode()).hexdigest()[:12]


#: Settings of a metric and the metric of each.
Settings = tuple[tuple[Mapping[str, Any], Any], ...]

#: Weights of the local metric relative to the Euclidean one.
INTERPOLATIONS = tuple(i / 10 for i in range(1, 10))

#: Shrinkages to select from.
SHRINKAGES = (0.3, 0.1, 0.03)


def _generative(combination: str = "uniform", shrinkage: float | None = None) -> GenerativeMetric:
    """Return the metric of the paper, with explicit parameters because defaults may change."""
    return GenerativeMetric(
        combination, shrinkage=shrinkage, base="identity", normalization="determinant"
    )


def _lmnn(n_neighbors: int) -> LMNN:
    """Return the LMNN of the paper: from the Euclidean metric to the minimum of the objective."""
    return LMNN(n_neighbors, init="identity", early_stopping=False)


_UNI: Settings = (({}, _generative()),)
_RIDGE: Settings = (({}, _generative(shrinkage=0.001)),)
_SHRUNK: Settings = tuple(({"shrinkage": s}, _generative(shrinkage=s)) for s in SHRINKAGES)


def _main_methods(
    targets: tuple[int, ...], margins: tuple[float, ...], interpolations: tuple[float, ...]
) -> dict[str, Method]:
    """Return the methods of the main tables, three-term energies, and GLM (no interpolation)."""
    lmnn: Settings = tuple(({"targets": k}, _lmnn(k)) for k in targets)
    energy = Energy(margin_scales=margins)
    three = Energy(margin_scales=margins, energy="three-term")
    methods: list[Method] = [
        InMetric("euclidean", "Euclidean", "euclidean"),
        InMetric("lmnn", "LMNN", "lmnn", lmnn),
        LocalVotes("glm-int", "GLM^INT", "glm", interpolations),
        InMetric("uni", "M^UNI", "uni", _UNI),
        InMetric("lmnn-e", "LMNN_E", "lmnn", lmnn, energy),
        InMetric("uni-e", "M_E^UNI", "uni", _UNI, energy),
        InMetric("lmnn-e3", "LMNN_E, three-term", "lmnn", lmnn, three),
        InMetric("uni-e3", "M_E^UNI, three-term", "uni", _UNI, three),
        LocalVotes("glm", "GLM", "glm", (1.0,)),
    ]
    return {method.name: method for method in methods}


_SMALL = _main_methods((1, 3, 5), (0.1, 0.3, 1.0, 3.0), INTERPOLATIONS)
_LARGE = _main_methods((3,), (0.1, 0.3, 1.0), INTERPOLATIONS[:3])

_NCA = NeighborhoodComponentsAnalysis()
_SVM_GRID = tuple(
    {"C": 2.0**c, "gamma": 2.0**g} for c, g in product(range(-3, 12, 2), range(-8, 3, 2))
)

_OF_EIGHT = _SMALL | {
    "kde": InMetric("kde", "M^KDE", "kde", (({}, _generative("kde")),)),
    "gmm": InMetric("gmm", "M^GMM", "gmm", (({}, _generative("gmm")),)),
}

#: The simplest setting first: the metric closest to the Euclidean one.
_CLUSTER_GRID = tuple(
    sorted(product((0.5, 0.1, 0.01), (0.1, 0.3, 0.5, 0.7, 1.0)), key=lambda p: (p[1], -p[0]))
)

_EXPERIMENTS = (
    Experiment(
        name="small",
        title="Error on small datasets, in %",
        problems=SMALL,
        methods=(
            *_SMALL.values(),
            InMetric("nca", "NCA", "nca", (({}, _NCA),)),
            Estimators("lda", "LDA", "lda", LinearDiscriminantAnalysis()),
            Estimators("svm", "RBF-SVM", "svm", SVC(), _SVM_GRID),
        ),
        figures=published("small"),
        ranked=_PAPER["ranks_six"],
    ),
    Experiment(
        name="density",
        title="Error of density-weighted combinations, in %",
        problems=SMALL,
        methods=tuple(_OF_EIGHT[name] for name in _PAPER["ranks_eight"]),
        figures=published("small"),
        ranked=_PAPER["ranks_eight"],
    ),
    Experiment(
        name="large",
        title="Error on large datasets, in %",
        problems=LARGE,
        methods=(
            *_LARGE.values(),
            InMetric("uni-ridge", "M^UNI, ridge of 0.1 %", "ridge", _RIDGE),
            InMetric("uni-shrunk", "M^UNI, shrinkage tuned", "shrunk", _SHRUNK),
        ),
        figures=published("large"),
        # Slow on MNIST, and the paper has no values for them.
        only={
            "glm": ("letters-scaled", "letters-original"),
            "lmnn-e3": ("mnist-40", "letters-scaled", "letters-original"),
            "uni-e3": ("mnist-40", "letters-scaled", "letters-original"),
        },
        quick=("letters-scaled",),
    ),
    Experiment(
        name="nonlinear",
        title="Error of nonlinear combinations, in %",
        problems=tuple(name for name in (*SMALL, "2-normal") if name != "image"),
        methods=(
            KernelCombination("mkl-0", "baseline", "kernels", (0,)),
            KernelCombination("mkl-1", "P = 1", "kernels", (1,)),
            KernelCombination("mkl-5", "P = 5", "kernels", (5,)),
            KernelCombination("mkl-10", "P = 10", "kernels", (10,)),
            KernelCombination("mkl", "P by validation", "kernels", (1, 5, 10)),
            KernelCombination("mkl-1-lw", "P = 1, Ledoit-Wolf", "kernels-lw", (1,), "auto"),
            KernelCombination("mkl-5-lw", "P = 5, Ledoit-Wolf", "kernels-lw", (5,), "auto"),
            KernelCombination("mkl-1-half", "P = 1, halves", "kernels-half", (1,), None, 0.5),
            KernelCombination("mkl-1-lw-half", "P = 1, both", "kernels-lw-half", (1,), "auto", 0.5),
        ),
        figures=published("nonlinear"),
        quick=("wine", "iris"),
    ),
    Experiment(
        name="clustering",
        title="Rand index of clusters",
        problems=("3-normal", "iris", "wine", "heart", "vehicle", "ionosphere", "image", "german"),
        methods=(
            Clusters("k-means", "k-means + Euclidean", "clusters", ((0.1, 0.0),)),
            Clusters("k-means-uni", "k-means + M^UNI", "clusters", _CLUSTER_GRID),
            Clusters("k-means-uni-default", "the same, defaults", "clusters", ((0.1, 0.7),)),
        ),
        figures=published("clustering"),
        quick=("iris", "wine", "ionosphere"),
    ),
    Experiment(
        name="timing",
        title="Seconds of one fit",
        problems=(*SMALL, *LARGE),
        methods=(
            Seconds("time-lmnn", "LMNN", "timing", _lmnn(3)),
            Seconds("time-uni", "M^UNI", "timing", _generative()),
            Seconds("time-nca", "NCA", "timing", _NCA),
        ),
        figures=published("seconds"),
        n_splits=1,
        # Time and memory of NCA grow with the square of the number of samples.
        only={"time-nca": SMALL},
    ),
)

#: The experiments by name.
EXPERIMENTS: dict[str, Experiment] = {e.name: e for e in _EXPERIMENTS}

"""The experiments of the paper, declared: problems, methods with their grids, printed figures.

A new data set is a line in :data:`genmetric.study.problems.PROBLEMS`, a new method an object below;
both then belong in the lists of an :class:`Experiment`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from itertools import product
from typing import Any

from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.svm import SVC

from genmetric.datasets import CATALOGUE
from genmetric.lmnn import LMNN
from genmetric.metric import GenerativeMetric
from genmetric.study import paper
from genmetric.study.methods import (
    Clusters,
    Energy,
    Estimators,
    InMetric,
    KernelCombination,
    LocalVotes,
    Method,
    OneKernel,
    Seconds,
)
from genmetric.study.paper import Figure
from genmetric.study.problems import LARGE, SMALL, Problem

#: Raised when the protocol changes in a way that the objects below do not show.
PROTOCOL_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One table of the paper.

    Attributes
    ----------
    name, title : str
        What the command line and the pages call it.
    problems : tuple of str
        Names of the data sets, in the order of the paper.
    methods : tuple of Method
        In the order of the paper.
    figures : mapping of (problem, method) to Figure
        What the paper prints.
    ranked : mapping of str to tuple of str
        Methods to rank, by the title of the ranking.
    paper_ranks : mapping of str to mapping
        The paper's average ranks, by the same titles.
    n_splits : int or None
        Splits where the paper gives none of its own; ``None`` is what each problem has.
    only : mapping of str to tuple of str
        Methods that run on the named problems alone.
    quick : tuple of str
        The problems of a first look, in minutes.
    """

    name: str
    title: str
    problems: tuple[str, ...]
    methods: tuple[Method, ...]
    figures: Mapping[tuple[str, str], Figure] = field(default_factory=dict)
    ranked: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    paper_ranks: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    n_splits: int | None = None
    only: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    quick: tuple[str, ...] = ("wine", "iris", "vehicle", "ionosphere", "3-normal")

    def methods_for(self, problem: str) -> tuple[Method, ...]:
        """The methods that run on a problem."""
        return tuple(m for m in self.methods if problem in self.only.get(m.name, (problem,)))

    def splits_of(self, problem: Problem) -> int:
        """Splits of a problem in this experiment."""
        return problem.n_splits if self.n_splits is None else self.n_splits


#: What an object is called, or how often it is run, changes no score.
_NOT_HASHED = {"title", "family", "n_splits"}


def protocol(problem: Problem, method: Method) -> str:
    """Hash of all that a score depends on besides the code: the data, the splits, the grids.

    A stored score counts only for the hash it was made with.

    Parameters
    ----------
    problem : Problem
        A data set.
    method : Method
        A method with its grid.

    Returns
    -------
    str
        Twelve hexadecimal digits.
    """
    text = [str(PROTOCOL_VERSION)]
    for thing in (problem, method):
        text.append(type(thing).__name__)
        kept = [f.name for f in fields(thing) if f.name not in _NOT_HASHED]
        text += [f"{name}={getattr(thing, name)!r}" for name in kept]
    if (recipe := CATALOGUE[problem.dataset].recipe) is not None:
        text.append(repr(recipe))
    # scikit-learn breaks the lines of a long repr.
    return hashlib.sha256("".join("|".join(text).split()).encode()).hexdigest()[:12]


#: Settings of a metric, each with the metric.
Settings = tuple[tuple[Mapping[str, Any], Any], ...]

PLAIN = GenerativeMetric(shrinkage=None)


def _lmnn(*targets: int) -> Settings:
    # From the Euclidean metric, as the LMNN of the paper: our default starts from M^UNI.
    return tuple(({"targets": k}, LMNN(k, init="identity")) for k in targets)


def _shrunk(*shrinkages: float) -> Settings:
    return tuple(({"shrinkage": s}, GenerativeMetric(shrinkage=s)) for s in shrinkages)


#: Weights of the local metric against the Euclidean one.
INTERPOLATIONS = (0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def _main_methods(
    targets: tuple[int, ...], energy: Energy, interpolations: tuple[float, ...]
) -> dict[str, Method]:
    """The six methods of the paper's main tables and the local metric without interpolation."""
    uni: Settings = (({}, PLAIN),)
    lmnn = _lmnn(*targets)
    methods = (
        InMetric(name="euclidean", title="Euclidean", family="euclidean"),
        InMetric(name="lmnn", title="LMNN", family="lmnn", metrics=lmnn),
        LocalVotes(name="glm-int", title="GLM^INT", family="glm", interpolations=interpolations),
        LocalVotes(name="glm", title="GLM", family="glm", interpolations=(1.0,)),
        InMetric(name="uni", title="M^UNI", family="uni", metrics=uni),
        InMetric(name="lmnn-e", title="LMNN_E", family="lmnn", metrics=lmnn, decision=energy),
        InMetric(name="uni-e", title="M_E^UNI", family="uni", metrics=uni, decision=energy),
    )
    return {method.name: method for method in methods}


_SMALL = _main_methods((1, 3, 5), Energy(), INTERPOLATIONS)
_LARGE_ENERGY = Energy((1, 3, 5), (0.1, 0.3, 1.0))
_LARGE = _main_methods((3,), _LARGE_ENERGY, (0.01, 0.1, 0.3))

_KDE = InMetric(
    name="kde",
    title="M^KDE",
    family="kde",
    metrics=(({}, GenerativeMetric("kde", shrinkage=None)),),
)
_GMM = InMetric(
    name="gmm",
    title="M^GMM",
    family="gmm",
    metrics=(({}, GenerativeMetric("gmm", shrinkage=None)),),
)

#: What people would use instead.
_OTHERS: tuple[Method, ...] = (
    InMetric(
        name="nca",
        title="NCA",
        family="nca",
        metrics=(({}, NeighborhoodComponentsAnalysis()),),
        refit=False,
    ),
    Estimators(name="lda", title="LDA", family="lda", estimator=LinearDiscriminantAnalysis()),
    Estimators(
        name="svm",
        title="RBF-SVM",
        family="svm",
        estimator=SVC(),
        grid=tuple(
            {"C": C, "gamma": gamma}
            for C, gamma in product(
                [2.0**e for e in range(-3, 12, 2)], [2.0**e for e in range(-8, 3, 2)]
            )
        ),
    ),
)

#: Shrinkages to choose from where plain covariances do not fit the data.
SHRINKAGES = (0.9, 0.7, 0.5, 0.3, 0.1)

_TUNED: tuple[Method, ...] = (
    InMetric(
        name="uni-shrunk",
        title="M^UNI, shrinkage tuned",
        family="shrunk",
        metrics=_shrunk(*SHRINKAGES),
    ),
    InMetric(
        name="uni-shrunk-e",
        title="M_E^UNI, shrinkage tuned",
        family="shrunk",
        metrics=_shrunk(*SHRINKAGES),
        decision=_LARGE_ENERGY,
    ),
)

_SIX = ("euclidean", "lmnn", "glm-int", "uni", "lmnn-e", "uni-e")
_EIGHT = ("euclidean", "lmnn", "glm-int", "uni", "gmm", "kde", "lmnn-e", "uni-e")
_OF_EIGHT = {**_SMALL, "kde": _KDE, "gmm": _GMM}

#: Simplest first: the metric nearest to the Euclidean one.
_CLUSTER_GRID = tuple(
    sorted(product((0.5, 0.1, 0.01), (0.1, 0.3, 0.5, 0.7, 1.0)), key=lambda p: (p[1], -p[0]))
)


def _clusters(name: str, title: str, grid: Any, max_iter: int = 20) -> Clusters:
    return Clusters(name=name, title=title, family="clusters", grid=grid, max_iter=max_iter)


def _kernels(name: str, title: str, *regions: int) -> KernelCombination:
    return KernelCombination(name=name, title=title, family="kernels", regions=regions)


_EXPERIMENTS = (
    Experiment(
        name="small",
        title="Error on small sets, in per cent",
        problems=SMALL,
        methods=(*_SMALL.values(), *_OTHERS),
        figures=paper.SMALL,
        ranked={"six methods": _SIX},
        paper_ranks={"six methods": paper.RANKS_SIX},
    ),
    Experiment(
        name="density",
        title="Error of density-weighted combinations, in per cent",
        problems=SMALL,
        methods=tuple(_OF_EIGHT[name] for name in _EIGHT),
        figures=paper.SMALL,
        ranked={"eight methods": _EIGHT},
        paper_ranks={"eight methods": paper.RANKS_EIGHT},
    ),
    Experiment(
        name="large",
        title="Error on large sets, in per cent",
        problems=LARGE,
        methods=(*_LARGE.values(), *_TUNED),
        figures=paper.LARGE,
        # An eigendecomposition for every query of MNIST, and the paper has no such figure.
        only={"glm": ("letters-scaled", "letters-original")},
        quick=("letters-scaled",),
    ),
    Experiment(
        name="nonlinear",
        title="Error of nonlinear combinations, in per cent",
        problems=(
            "3-normal",
            "wine",
            "iris",
            "heart",
            "vehicle",
            "ionosphere",
            "german",
            "2-normal",
        ),
        methods=(
            _kernels("mkl-0", "baseline", 0),
            _kernels("mkl-1", "P = 1", 1),
            _kernels("mkl-5", "P = 5", 5),
            _kernels("mkl-10", "P = 10", 10),
            _kernels("mkl", "P by validation", 1, 5, 10),
            OneKernel(name="rbf", title="one RBF, Euclidean", family="kernels", n_regions=0),
            OneKernel(name="rbf-uni", title="one RBF, M^UNI", family="kernels", n_regions=1),
        ),
        figures=paper.NONLINEAR,
        quick=("wine", "iris"),
    ),
    Experiment(
        name="clustering",
        title="Rand index of clusters",
        problems=("3-normal", "iris", "wine", "heart", "vehicle", "ionosphere", "image", "german"),
        methods=(
            _clusters("k-means", "k-means + Euclidean", ((0.1, 0.0),)),
            _clusters("k-means-uni", "k-means + M^UNI", _CLUSTER_GRID),
            _clusters("k-means-uni-default", "the same, defaults", ((0.1, 0.7),)),
            _clusters("k-means-uni-1", "the same, tuned, one round", _CLUSTER_GRID, 1),
        ),
        figures=paper.CLUSTERING,
        quick=("iris", "wine", "ionosphere"),
    ),
    Experiment(
        name="timing",
        title="Seconds of one fit",
        problems=(*SMALL, *LARGE),
        methods=(
            Seconds(
                name="time-lmnn",
                title="LMNN",
                family="timing",
                estimator=LMNN(init="identity"),
            ),
            Seconds(name="time-uni", title="M^UNI", family="timing", estimator=PLAIN),
            Seconds(
                name="time-nca",
                title="NCA",
                family="timing",
                estimator=NeighborhoodComponentsAnalysis(),
            ),
        ),
        figures=paper.SECONDS,
        n_splits=1,
        # NCA takes memory and time with the square of the rows.
        only={"time-nca": SMALL},
    ),
)

#: The experiments that fill tables, by name.
EXPERIMENTS: dict[str, Experiment] = {e.name: e for e in _EXPERIMENTS}

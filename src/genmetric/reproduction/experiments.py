"""The experiments of the paper: datasets, methods with their grids, published values.

A new dataset is an entry of :data:`genmetric.reproduction.problems.PROBLEMS`, a new method an
object below; both then belong in the lists of an :class:`Experiment`.
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
from genmetric.learners import LMNN, GenerativeMetric
from genmetric.reproduction import paper
from genmetric.reproduction.methods import (
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
from genmetric.reproduction.paper import Figure
from genmetric.reproduction.problems import LARGE, SMALL, Problem

#: Incremented if the protocol changes in a way that the objects below do not show.
PROTOCOL_VERSION = 1


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
    ranked : mapping of str to tuple of str
        Methods of each ranking, by its title.
    paper_ranks : mapping of str to mapping
        Average ranks of the paper, by the same titles.
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
    ranked: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    paper_ranks: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    n_splits: int | None = None
    only: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    quick: tuple[str, ...] = ("wine", "iris", "vehicle", "ionosphere", "3-normal")

    def methods_for(self, problem: str) -> tuple[Method, ...]:
        """Return the methods that run on a dataset."""
        return tuple(m for m in self.methods if problem in self.only.get(m.name, (problem,)))


#: Titles, families and the number of splits do not change a score.
_NOT_HASHED = {"title", "family", "n_splits"}


def protocol(problem: Problem, method: Method) -> str:
    """Hash everything that a score depends on except the code: data, splits and grids.

    A stored score is valid only for the hash it was computed with.

    Parameters
    ----------
    problem : Problem
        A dataset.
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
    # scikit-learn wraps the lines of a long repr.
    joined = "".join("|".join(text).split())
    # Scores of before these parameters existed were computed with these values. A repr contains
    # them only if they are not the defaults.
    for given in _PAPER_TEXTS:
        joined = joined.replace(f"{given},", "").replace(f",{given}", "").replace(given, "")
    return hashlib.sha256(joined.encode()).hexdigest()[:12]


#: Parameters of the paper's metric. They are given explicitly because defaults may change.
_PAPER: Mapping[str, Any] = {"base": "identity", "normalization": "determinant"}
_PAPER_TEXTS = tuple(f"{name}={value!r}" for name, value in _PAPER.items())

#: Settings of a metric and the metric of each.
Settings = tuple[tuple[Mapping[str, Any], Any], ...]

PLAIN = GenerativeMetric(shrinkage=None, **_PAPER)


def _lmnn(*targets: int) -> Settings:
    # The LMNN of the paper starts from the Euclidean metric and minimises the objective.
    return tuple(({"targets": k}, LMNN(k, init="identity", early_stopping=False)) for k in targets)


def _shrunk(*shrinkages: float) -> Settings:
    return tuple(({"shrinkage": s}, GenerativeMetric(shrinkage=s, **_PAPER)) for s in shrinkages)


#: Weights of the local metric relative to the Euclidean one.
INTERPOLATIONS = (0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


#: Margins of the energy rows that were added to the paper's, in steps of about 1.5.
MARGINS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0)


def _energy_forms(targets: tuple[int, ...], neighbors: tuple[int, ...]) -> tuple[Method, ...]:
    """Both forms of the energy with the finer grid of margins; ties go to three targets."""
    metrics: tuple[tuple[str, str, str, Settings], ...] = (
        ("lmnn", "LMNN_E", "lmnn", _lmnn(*targets)),
        ("uni", "M_E^UNI", "uni", (({}, PLAIN),)),
    )
    return tuple(
        InMetric(
            name=f"{name}-{suffix}",
            title=f"{title}, {form}, finer margins",
            family=family,
            metrics=settings,
            decision=Energy(neighbors, MARGINS, energy=form),
        )
        for suffix, form in (("e1", "one-sided"), ("e3", "three-term"))
        for name, title, family, settings in metrics
    )


def _main_methods(
    targets: tuple[int, ...], energy: Energy, interpolations: tuple[float, ...]
) -> dict[str, Method]:
    """Return the six methods of the main tables and the local metric without interpolation."""
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
    metrics=(({}, GenerativeMetric("kde", shrinkage=None, **_PAPER)),),
)
_GMM = InMetric(
    name="gmm",
    title="M^GMM",
    family="gmm",
    metrics=(({}, GenerativeMetric("gmm", shrinkage=None, **_PAPER)),),
)

#: Common alternatives.
_OTHERS: tuple[Method, ...] = (
    InMetric(
        name="nca",
        title="NCA",
        family="nca",
        metrics=(({}, NeighborhoodComponentsAnalysis()),),
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

#: Shrinkages to select from.
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

#: The simplest setting first: the metric closest to the Euclidean one.
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
        title="Error on small datasets, in %",
        problems=SMALL,
        methods=(*_SMALL.values(), *_energy_forms((1, 3, 5), (3, 1, 5, 7, 9)), *_OTHERS),
        figures=paper.SMALL,
        ranked={"six methods": _SIX},
        paper_ranks={"six methods": paper.RANKS_SIX},
    ),
    Experiment(
        name="density",
        title="Error of density-weighted combinations, in %",
        problems=SMALL,
        methods=tuple(_OF_EIGHT[name] for name in _EIGHT),
        figures=paper.SMALL,
        ranked={"eight methods": _EIGHT},
        paper_ranks={"eight methods": paper.RANKS_EIGHT},
    ),
    Experiment(
        name="large",
        title="Error on large datasets, in %",
        problems=LARGE,
        methods=(*_LARGE.values(), *_energy_forms((3,), (3, 1, 5)), *_TUNED),
        figures=paper.LARGE,
        # MNIST would need an eigendecomposition per query, and the paper has no value for it.
        only={"glm": ("letters-scaled", "letters-original")},
        quick=("letters-scaled",),
    ),
    Experiment(
        name="nonlinear",
        title="Error of nonlinear combinations, in %",
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
                estimator=LMNN(init="identity", early_stopping=False),
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
        # Time and memory of NCA grow with the square of the number of samples.
        only={"time-nca": SMALL},
    ),
)

#: The experiments by name.
EXPERIMENTS: dict[str, Experiment] = {e.name: e for e in _EXPERIMENTS}

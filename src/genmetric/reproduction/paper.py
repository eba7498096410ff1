"""The values that the paper reports: Y. Shi, Y.-K. Noh, F. Sha and D. D. Lee (2011).

*Learning Discriminative Metrics via Generative Models and Kernel Learning*, arXiv:1109.3940. Each
value is a mean and its standard error, by problem and method. Times have no error.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Figure(NamedTuple):
    """A published mean and its standard error; NaN if none is published."""

    mean: float
    stderr: float = float("nan")


def _read(problems: Iterable[str], rows: str) -> dict[tuple[str, str], Figure]:
    """Read values by (problem, method): one line per method, "mean error" pairs with commas."""
    names = list(problems)
    figures = {}
    for line in rows.strip().splitlines():
        method, _, cells = line.strip().partition(":")
        for name, cell in zip(names, cells.split(","), strict=True):
            if cell.strip() != "-":
                figures[name, method.strip()] = Figure(*map(float, cell.split()))
    return figures


_SMALL = ("3-normal", "wine", "iris", "heart", "vehicle", "ionosphere", "image", "german")

#: Error in % on the small datasets; the supplement has the standard errors.
SMALL = _read(
    _SMALL,
    """
    euclidean: 8.17 0.33, 4.41 0.61, 5.11 0.69, 22.78 0.88, 31.29 0.54, 15.87 0.68, 2.68 0.13, 27.27 0.60
    lmnn: 4.70 0.30, 2.61 0.38, 4.78 0.71, 21.91 0.84, 21.97 0.47, 12.39 0.57, 2.14 0.12, 27.20 0.58
    glm-int: 3.83 0.18, 3.96 0.64, 3.67 0.54, 21.60 0.92, 25.32 0.65, 6.24 0.52, 2.89 0.15, 26.17 0.47
    uni: 3.44 0.25, 1.80 0.40, 3.33 0.48, 19.51 0.90, 17.47 0.30, 9.67 0.48, 2.47 0.13, 26.12 0.62
    gmm: 2.96 0.21, 2.97 0.51, 3.44 0.54, 19.69 0.93, 18.15 0.49, 9.77 0.49, 2.27 0.10, 25.87 0.68
    kde: 3.09 0.22, 2.07 0.46, 3.33 0.48, 18.95 0.90, 17.17 0.33, 9.01 0.49, 2.12 0.12, 26.10 0.66
    lmnn-e: 3.70 0.24, 2.43 0.44, 4.67 0.54, 20.56 0.80, 20.37 0.52, 11.97 0.66, 2.67 0.13, 26.88 0.55
    uni-e: 3.10 0.23, 2.52 0.52, 3.11 0.57, 19.26 0.76, 15.81 0.52, 10.80 0.71, 3.01 0.16, 25.15 0.51
    """,
)

#: Error in % on the large datasets; the supplement has the standard errors.
LARGE = _read(
    ("mnist-40", "mnist-60", "mnist-164", "letters-scaled", "letters-original"),
    """
    euclidean: 2.09 0.02, 2.02 0.02, 2.16 0.01, 5.05 0.07, 5.25 0.08
    lmnn: 1.99 0.03, 1.84 0.01, 1.82 0.03, 3.91 0.08, 3.81 0.13
    glm-int: 3.75 0.06, 3.55 0.05, 3.48 0.09, 5.55 0.08, 5.51 0.08
    uni: 1.93 0.03, 1.90 0.03, 4.30 0.04, 3.04 0.08, 2.96 0.09
    lmnn-e: 1.53 0.01, 1.43 0.01, 1.34 0.01, 2.98 0.06, 2.90 0.06
    uni-e: 1.40 0.01, 1.44 0.01, 3.13 0.03, 2.26 0.04, 2.28 0.06
    """,
)

#: Error in % of nonlinear combinations. 2-Normal is from a table that the source of the
#: paper contains and the published version does not.
NONLINEAR = _read(
    ("3-normal", "wine", "iris", "heart", "vehicle", "ionosphere", "german", "2-normal"),
    """
    mkl-0: 6.08 0.27, 2.16 0.40, 5.56 0.65, 18.09 0.71, 26.53 0.53, 6.90 0.43, 25.22 0.38, 3.17 0.22
    mkl-1: 3.36 0.26, 2.43 0.49, 3.33 0.60, 17.16 0.57, 15.56 0.45, 9.01 0.58, 24.38 0.44, 2.11 0.30
    mkl-5: 2.72 0.26, 4.14 0.56, 2.78 0.36, 19.26 0.82, 15.44 0.42, 10.47 0.65, 24.30 0.42, 1.92 0.35
    mkl-10: 2.31 0.24, 3.96 0.70, 2.89 0.47, 18.95 0.79, 15.58 0.47, 9.81 0.53, 24.25 0.40, 1.53 0.23
    """,
)

#: Rand index of clusters, from the supplement.
CLUSTERING = _read(
    ("3-normal", "iris", "wine", "heart", "vehicle", "ionosphere", "image", "german"),
    """
    k-means: 0.528 0.003, 0.878 0.009, 0.935 0.008, 0.654 0.008, 0.651 0.001, 0.565 0.007, 0.510 0.002, 0.500 0.0005
    k-means-uni: 0.545 0.008, 0.948 0.006, 0.930 0.008, 0.643 0.007, 0.657 0.002, 0.569 0.008, 0.567 0.006, 0.500 0.0005
    """,
)

#: Seconds of a fit with fixed parameters; those of large datasets are published in minutes.
SECONDS = _read(
    (*_SMALL, "mnist-40", "mnist-60", "mnist-164", "letters-scaled", "letters-original"),
    """
    time-lmnn: 195.3, 1.9, 3.5, 3.2, 126.6, 12.1, 160.7, 8.2, 2520, 3300, 12900, 840, 180
    time-uni: 0.3, 0.03, 0.04, 0.06, 0.5, 0.3, 0.8, 0.3, 240, 420, 2820, 60, 60
    """,
)

#: Average rank over the small datasets, of six methods and of eight.
SIX = ("euclidean", "lmnn", "glm-int", "uni", "lmnn-e", "uni-e")
EIGHT = ("euclidean", "lmnn", "glm-int", "uni", "gmm", "kde", "lmnn-e", "uni-e")
RANKS_SIX = dict(zip(SIX, (5.75, 4.25, 3.75, 1.88, 3.25, 2.13), strict=True))
RANKS_EIGHT = dict(zip(EIGHT, (7.75, 6.0, 5.5, 3.0, 3.5, 1.87, 5.13, 3.13), strict=True))

"""Density-weighted metrics: all iterations of "kde" against single passes over pairs of samples."""

import numpy as np
from measure import Table, gaussian_classes, progress, seconds, short
from threadpoolctl import threadpool_limits

from genmetric import GenerativeMetric

ROWS = 64


def bare_pass(z, rate):
    """Sum Gaussian kernels over all pairs of samples: a product, an exponential, a sum."""
    squares = np.einsum("ij,ij->i", z, z)
    sums = np.empty(len(z))
    for start in range(0, len(z), ROWS):
        rows = slice(start, start + ROWS)
        d2 = squares[rows, None] + squares - 2 * (z[rows] @ z.T)
        sums[rows] = np.exp(-rate * d2).sum(axis=1)
    return sums


def density_rounds():
    """Measure "kde" and "gmm" with all iterations, relative to "uniform" and to single passes."""
    table = Table(
        "Density-weighted metrics, one thread, 4 classes",
        ["samples", "features", "uniform, s", "gmm / uniform", "iterations of kde", "kde, s",
         "passes per iteration"],
    )  # fmt: skip
    for n_rows, n_features in [(500, 18), (2000, 18), (2000, 40), (5000, 18)]:
        progress(f"density weighting, {n_rows} samples, {n_features} features")
        X, y = gaussian_classes(4, n_features, n_rows)
        kde = GenerativeMetric("kde").fit(X, y)
        rate = 1 / kde.bandwidths_[-1] ** 2
        z = kde.transform(X - X.mean(axis=0))
        with threadpool_limits(1):
            uniform = seconds(lambda: GenerativeMetric().fit(X, y))  # noqa: B023
            gmm = seconds(lambda: GenerativeMetric("gmm", random_state=0).fit(X, y))  # noqa: B023
            # Alternately, so a busy machine slows both alike.
            spent, bare = np.min(
                [
                    (
                        seconds(lambda: kde.fit(X, y), repeats=1),  # noqa: B023
                        seconds(lambda: bare_pass(z, rate), repeats=3),  # noqa: B023
                    )
                    for _ in range(3)
                ],
                axis=0,
            )
        table.add(
            n_rows,
            n_features,
            short(uniform),
            short(gmm / uniform),
            kde.n_iter_,
            short(spent),
            short(spent / (kde.n_iter_ * bare)),
        )
    return str(table)


if __name__ == "__main__":
    density_rounds()

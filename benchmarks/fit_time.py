"""Time to fit a ``GenerativeMetric`` against the number of rows, features and classes.

Gaussian classes of unequal, anisotropic covariance; the best of a few fits, with one job.
"""

from time import perf_counter

import numpy as np

from genmetric import GenerativeMetric

SIZES = [  # rows, features, classes
    (1_000, 10, 2),
    (10_000, 10, 2),
    (1_000, 40, 2),
    (10_000, 40, 2),
    (10_000, 40, 10),
    (2_000, 160, 2),
    (2_000, 160, 10),
]


def gaussian_classes(n_samples, n_features, n_classes, seed=0):
    """Rows of Gaussian classes, each with a random mean and a random covariance."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_samples) % n_classes
    shapes = rng.normal(size=(n_classes, n_features, n_features)) / np.sqrt(n_features)
    means = rng.normal(size=(n_classes, n_features))
    noise = rng.normal(size=(n_samples, n_features))
    X = np.empty_like(noise)
    for c in range(n_classes):
        X[y == c] = means[c] + noise[y == c] @ shapes[c]
    return X, y


def fit_seconds(X, y, repeats=3):
    """Shortest of a few fits."""
    times = []
    for _ in range(repeats):
        start = perf_counter()
        GenerativeMetric(n_jobs=1).fit(X, y)
        times.append(perf_counter() - start)
    return min(times)


def main():
    print(f"{'rows':>8}{'features':>10}{'classes':>9}{'fit':>12}{'a row':>12}")
    for n_samples, n_features, n_classes in SIZES:
        seconds = fit_seconds(*gaussian_classes(n_samples, n_features, n_classes))
        print(
            f"{n_samples:>8}{n_features:>10}{n_classes:>9}"
            f"{seconds:>10.3f} s{1e6 * seconds / n_samples:>9.1f} us",
            flush=True,
        )


if __name__ == "__main__":
    main()

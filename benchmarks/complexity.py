"""Time and memory of every estimator as samples grow: ``python benchmarks/complexity.py``.

Prints the table of docs/dev/complexity.md: 20 features, three Gaussian classes, one thread. Seconds
are those of the processor, and memory is what a call allocates at most (tracemalloc), measured in
another call.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import time
import warnings

from measure import Table, gaussian_classes, peak_megabytes, short
from sklearn.base import clone

from genmetric import (
    LMNN,
    EnergyClassifier,
    GaussianMixtureModel,
    GenerativeMetric,
    GenerativeMetricCV,
    LocalMetricClassifier,
    MetricKMeans,
    RegionalKernels,
    SimpleMKLClassifier,
)

N_QUERIES = 2000

#: Name, estimator, numbers of samples, and whether it predicts.
ESTIMATORS = (
    ("`GenerativeMetric`", GenerativeMetric(), (20_000, 80_000), False),
    ('`GenerativeMetric("kde")`', GenerativeMetric("kde"), (20_000,), False),
    ('`GenerativeMetric("gmm")`', GenerativeMetric("gmm", random_state=0), (20_000,), False),
    (
        "`GenerativeMetric`, mixtures of two",
        GenerativeMetric(class_model=GaussianMixtureModel(2, random_state=0)),
        (20_000,),
        False,
    ),
    ("`GenerativeMetricCV`", GenerativeMetricCV(random_state=0), (20_000, 80_000), False),
    ("`LMNN`", LMNN(), (1000, 5000, 20_000), False),
    ("`LocalMetricClassifier`", LocalMetricClassifier(), (20_000, 80_000), True),
    ("`EnergyClassifier`", EnergyClassifier(), (20_000, 80_000), True),
    ("`MetricKMeans`, 2 starts", MetricKMeans(3, n_init=2, random_state=0), (20_000,), True),
    (
        "`SimpleMKLClassifier`, 30 kernels",
        SimpleMKLClassifier(RegionalKernels(2, random_state=0)),
        (500, 1000),
        True,
    ),
)


def measured(function):
    """Processor seconds and MB of a call, as text."""
    start = time.process_time()
    function()
    seconds = time.process_time() - start
    peak = peak_megabytes(function)
    return (
        "below 0.01" if seconds < 0.01 else short(seconds),
        "below 1" if peak < 1 else f"{peak:.0f}",
    )


def main():
    warnings.simplefilter("ignore")
    columns = ["estimator", "samples", "fit, s", "peak, MB"]
    table = Table("Measured", [*columns, f"predict {N_QUERIES} samples, s", "peak, MB"])
    queries = gaussian_classes(3, 20, N_QUERIES, seed=1)[0]
    for name, estimator, sizes, predicts in ESTIMATORS:
        for n_samples in sizes:
            X, y = gaussian_classes(3, 20, n_samples)
            model = clone(estimator).fit(X[:200], y[:200])  # imports what a fit needs
            cells = measured(lambda model=model, X=X, y=y: model.fit(X, y))
            used = measured(lambda model=model: model.predict(queries)) if predicts else ("", "")
            table.add(name, n_samples, *cells, *used)


if __name__ == "__main__":
    main()

"""Compare genmetric.metrics with pytorch-metric-learning's AccuracyCalculator.

Run it in an environment of its own that has genmetric[ann], torch and pytorch-metric-learning:
``python tests/contract/compare_retrieval.py``.
"""

import numpy as np
import torch
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

from genmetric.metrics import retrieval_scores

NAMES = {
    "precision_at_1": "recall@1",
    "r_precision": "r_precision",
    "mean_average_precision_at_r": "map_at_r",
}


def main() -> None:
    calculator = AccuracyCalculator(include=tuple(NAMES), k="max_bin_count")
    rng = np.random.default_rng(0)
    for case in range(20):
        n_classes, n_features = int(rng.integers(2, 40)), int(rng.integers(2, 60))
        y = rng.integers(n_classes, size=500)
        X = rng.normal(size=(500, n_features)) + rng.normal(size=(n_classes, n_features))[y]
        X = X.astype(np.float32)
        if case % 2:
            references, queries = slice(0, 350), slice(350, 500)
            ours = retrieval_scores(
                X[references], y[references], queries=X[queries], query_labels=y[queries], k=1
            )
            theirs = calculator.get_accuracy(
                *map(torch.from_numpy, (X[queries], y[queries], X[references], y[references]))
            )
        else:
            ours = retrieval_scores(X, y, k=1)
            theirs = calculator.get_accuracy(*map(torch.from_numpy, (X, y)))
        for name, own in NAMES.items():
            if abs(theirs[name] - ours[own]) > 1e-5:
                raise SystemExit(f"case {case}: {own} is {ours[own]}, {name} is {theirs[name]}")
    print("20 cases agree to 1e-5")


if __name__ == "__main__":
    main()

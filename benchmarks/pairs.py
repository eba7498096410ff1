"""Measure PairClassifier on many vectors: fit, and scoring a million pairs.

    python benchmarks/pairs.py                      # 100,000 vectors of 768 features, 50,000 pairs
    python benchmarks/pairs.py --vectors 10000

The vectors are simulated, float32. Seconds are CPU time of all threads; set OMP_NUM_THREADS=1
to compare machines. Memory is the peak of the whole process, with its vectors.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

from genmetric import PairClassifier


def simulated_vectors(n_vectors, n_features, rng):
    """Return float32 vectors, in pairs of neighbours, with a spectrum that falls."""
    X = rng.standard_normal((n_vectors, n_features), dtype=np.float32)
    X[1::2] = 0.6 * X[1::2] + X[::2]
    X *= np.linspace(1, 0.2, n_features, dtype=np.float32)
    return X


def main():
    """Fit, score and print CPU seconds and the peak of memory."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vectors", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=768)
    parser.add_argument("--scored", type=int, default=1_000_000, help="pairs to score")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    X = simulated_vectors(options.vectors, options.features, rng)
    pairs = np.arange(options.vectors).reshape(-1, 2)
    print(f"{len(X):,} vectors of {X.shape[1]} features, {len(pairs):,} pairs")

    start = time.process_time()
    model = PairClassifier(preprocessor=X, random_state=0).fit(pairs)
    print(f"fit: {time.process_time() - start:.1f} s ({model.best_params_})")

    candidates = rng.integers(len(X), size=(options.scored, 2))
    start = time.process_time()
    model.decision_function(candidates)
    print(f"{options.scored:,} scores: {time.process_time() - start:.1f} s")
    print(f"peak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GB")


if __name__ == "__main__":
    main()

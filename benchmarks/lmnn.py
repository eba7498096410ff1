"""Compare the LMNN of this package with metric-learn's: accuracy on few samples, time on many.

    python benchmarks/lmnn.py few --peer /path/to/python      # error rates, n < 10 n_features
    python benchmarks/lmnn.py speed --peer /path/to/python    # time and memory of one fit
    python benchmarks/lmnn.py speed --large                   # Letters 12000 and MNIST 60000
    python benchmarks/lmnn.py classes                         # many classes of embeddings

metric-learn 0.7 does not run on scikit-learn 1.8 or newer. ``--peer`` is the Python interpreter of
an environment with ``metric-learn "scikit-learn<1.8"``; its fits run in a subprocess on the same
arrays. Without it, only this package runs. MNIST is read from the data directory of ``--data`` or
the environment variable GENMETRIC_DATA. Fits use one BLAS thread, and seconds are those of the
processor, which do not depend on what else runs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from itertools import product
from pathlib import Path

import numpy as np
from few_samples import FEW_SAMPLES, embedding_classes, split
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import normalize

from genmetric import LMNN, GenerativeMetric
from genmetric.datasets import load_letter, load_mnist
from genmetric.geometry import symmetric_root
from genmetric.learners import lmnn_objective, target_neighbors
from genmetric.learners.lmnn import whitening

N_NEIGHBORS = 3

#: Methods of the study "few".
FEW_SAMPLES_METHODS = {
    "GenerativeMetric": GenerativeMetric(),
    "LMNN": LMNN(),
    "LMNN, plain objective": LMNN(early_stopping=False),
}

#: Fits in a process of its own: reads samples.npz and writes components.npy.
SCRIPT = """
import json, resource, sys, time
import numpy as np
from {package} import LMNN
data, options = np.load("samples.npz"), json.loads(sys.argv[1])
start = time.process_time()
metric = LMNN(**options).fit(data["X"], data["y"])
seconds = time.process_time() - start
np.save("components.npy", metric.components_)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([seconds, peak, int(metric.n_iter_)]))
"""
PACKAGES = {"genmetric": "genmetric.learners", "metric-learn": "metric_learn"}


def fit_in_process(python, package, X, y, options):
    """Return CPU seconds, peak memory in MB, iterations and components of one fit."""
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "samples.npz", X=X, y=y)
        script = SCRIPT.format(package=PACKAGES[package])
        done = subprocess.run(
            [python, "-W", "ignore", "-c", script, json.dumps(options)],
            cwd=folder,
            env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        seconds, peak, n_iter = json.loads(done.stdout)
        components = np.load(Path(folder) / "components.npy")
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return seconds, peak / unit, n_iter, components


def error_rate(L, X, y, X_test, y_test):
    """Return the error of 3 nearest neighbours in the space of L, in %."""
    center = X.mean(axis=0)
    knn = KNeighborsClassifier(N_NEIGHBORS).fit((X - center) @ L.T, y)
    return 100 * (1 - knn.score((X_test - center) @ L.T, y_test))


def compare_few_samples(arguments):
    """Print a table of error rates on datasets with fewer than 10 samples per feature.

    Splits are the outer loop, and each error is one line of the file of ``--store``, so an
    interrupted run continues where it stopped and can be tabulated at any time. The errors of a
    method whose code changed are computed again after its lines are removed.
    """
    names = arguments.sets.split(";") if arguments.sets else list(FEW_SAMPLES)
    store = Path(arguments.store) if arguments.store else None
    known = store.read_text().splitlines() if store and store.exists() else []
    scores = {(name, seed, method): error for name, seed, method, error in map(json.loads, known)}
    methods = ["Euclidean", *FEW_SAMPLES_METHODS, *(["metric-learn"] if arguments.peer else [])]
    end = time.monotonic() + 60 * arguments.minutes
    for seed, name, method in product(range(arguments.splits), names, methods):
        if (name, seed, method) in scores:
            continue
        if time.monotonic() > end:
            break
        error = scores[name, seed, method] = error_of_split(name, seed, method, arguments.peer)
        if store:
            with store.open("a") as file:
                file.write(json.dumps([name, seed, method, error]) + "\n")
    print_few_samples(names, methods, scores)


def error_of_split(name, seed, method, peer):
    """Return the error rate of a method on one random split."""
    X, y, X_test, y_test = split(name, seed)
    if method == "Euclidean":
        L = np.eye(X.shape[1])
    elif method == "metric-learn":
        options = {"n_neighbors": N_NEIGHBORS, "init": "identity"}
        L = fit_in_process(peer, "metric-learn", X, y, options)[-1]
    else:
        L = clone(FEW_SAMPLES_METHODS[method]).fit(X, y).components_
    return error_rate(L, X, y, X_test, y_test)


def print_few_samples(names, methods, scores):
    """Print means and standard errors over the splits that all methods have."""
    print("| set | samples | features | splits | " + " | ".join(methods) + " |")
    print("| --- " * (4 + len(methods)) + "|")
    for name in names:
        known = [{seed for n, seed, m in scores if (n, m) == (name, method)} for method in methods]
        seeds = sorted(set.intersection(*known))
        if len(seeds) < 2:
            continue
        columns = {m: np.array([scores[name, seed, m] for seed in seeds]) for m in methods}
        cells = [_mean_and_stderr(column) for column in columns.values()]
        X = split(name, 0)[0]
        print(f"| {name} | {len(X)} | {X.shape[1]} | {len(seeds)} | {' | '.join(cells)} |")
        if "metric-learn" in columns:
            difference = columns["LMNN"] - columns["metric-learn"]
            print(f"  LMNN - metric-learn: {_mean_and_stderr(difference, 2)}", file=sys.stderr)


def _mean_and_stderr(values, decimals=1):
    stderr = values.std(ddof=1) / np.sqrt(len(values))
    return f"{values.mean():.{decimals}f} ± {stderr:.{decimals}f}"


def compare_speed(arguments):
    """Print time, memory, objective and error of single fits."""
    rng = np.random.default_rng(0)
    X, y = load_letter(return_X_y=True)
    order = rng.permutation(len(X))
    # Letters has integer features and many ties between neighbours; a jitter resolves them.
    X, y = X[order] + rng.uniform(-5e-4, 5e-4, X.shape), y[order]
    test = slice(14_000, None)
    plain = {"n_neighbors": N_NEIGHBORS, "init": "identity"}
    ours = [("genmetric", sys.executable, o) for o in ({}, plain | {"early_stopping": False})]
    peer = []
    if arguments.peer:
        rates = (1e-7, 1e-6)
        peer = [("metric-learn", arguments.peer, plain | {"learn_rate": r}) for r in rates]
    train = slice(2000)
    print("Letters, 2000 samples")
    _print_fits([*ours, *peer], X[train], y[train], X[test], y[test])
    if arguments.large:
        train = slice(12_000)
        print("Letters, 12000 samples")
        _print_fits(ours, X[train], y[train], X[test], y[test])
        X, y = load_mnist(return_X_y=True, data_dir=arguments.data)
        X = np.asarray(X, np.float32) / 255
        X = PCA(40, random_state=0).fit(X[:60_000]).transform(X).astype(float)
        train, test = slice(60_000), slice(60_000, None)
        print("MNIST, 40 principal components, 60000 samples")
        _print_fits(ours, X[train], y[train], X[test], y[test])


def _print_fits(fits, X, y, X_test, y_test):
    x, codes = X - X.mean(axis=0), np.unique(y, return_inverse=True)[1]
    targets = target_neighbors(x, codes, N_NEIGHBORS)
    error = error_rate(np.eye(X.shape[1]), X, y, X_test, y_test)
    print(f"{'Euclidean':72}{error:>30.2f} %", flush=True)
    for package, python, options in fits:
        seconds, peak, n_iter, L = fit_in_process(python, package, X, y, options)
        value = lmnn_objective(L, x, codes, targets)[0]
        error = error_rate(L, X, y, X_test, y_test)
        name = f"{package} {options}"
        print(
            f"{name:72}{seconds:7.1f} s{peak:6.0f} MB{n_iter:5}{value:12.1f}{error:7.2f} %",
            flush=True,
        )


def compare_many_classes(arguments):
    """Print error, time and memory on simulated embeddings with many classes."""
    X, y, X_test, y_test = embedding_classes(arguments.classes, 480, 15, seed=0)
    n_samples, n_features = X.shape
    print(f"{arguments.classes} classes, {n_samples} training samples, {n_features} features")
    print("| map | seconds | MB | iterations | 1-NN error | with cosine |")
    print("| --- | --- | --- | --- | --- | --- |", flush=True)

    def print_row(name, L, cost="| | "):
        errors = []
        for unit_norm in (False, True):
            Z, Z_test = (normalize(z) if unit_norm else z for z in (X @ L.T, X_test @ L.T))
            errors.append(100 * (1 - KNeighborsClassifier(1).fit(Z, y).score(Z_test, y_test)))
        print(f"| {name} | {cost} | {errors[0]:.1f} | {errors[1]:.1f} |", flush=True)

    print_row("Euclidean", np.eye(n_features))
    lda = LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto").fit(X, y)
    print_row("LDA, shrinkage auto", lda.scalings_.T)
    print_row("within-class whitening", symmetric_root(whitening(X, y, np.ones(len(X)))))
    for options in (
        {"early_stopping": False, "max_iter": 35, "init": "lda"},
        {},
        {"n_components": 64},
    ):
        seconds, peak, n_iter, L = fit_in_process(sys.executable, "genmetric", X, y, options)
        print_row(f"LMNN {options}", L, f"{seconds:.0f} | {peak:.0f} | {n_iter}")


def main():
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", choices=["few", "speed", "classes"])
    parser.add_argument("--peer", help="Python interpreter of an environment with metric-learn")
    parser.add_argument("--splits", type=int, default=20, help="random splits of 'few'")
    parser.add_argument("--sets", help="datasets of 'few', separated by semicolons")
    parser.add_argument("--store", help="file of the results of 'few', one JSON line per error")
    parser.add_argument("--minutes", type=float, default=60, help="time limit of 'few'")
    parser.add_argument("--classes", type=int, default=600, help="classes of 'classes'")
    parser.add_argument("--large", action="store_true", help="Letters 12000 and MNIST in 'speed'")
    parser.add_argument("--data", help="data directory with MNIST")
    arguments = parser.parse_args()
    studies = {
        "few": compare_few_samples,
        "speed": compare_speed,
        "classes": compare_many_classes,
    }
    studies[arguments.study](arguments)


if __name__ == "__main__":
    main()

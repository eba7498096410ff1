"""``genmetric.lmnn.LMNN`` against metric-learn's LMNN, and alone on larger data.

metric-learn 0.7 does not run on scikit-learn 1.8 or newer, so the script makes it an environment
of its own in the user's cache folder, once, and fits it there on the same arrays. Both start from
the Euclidean metric with 3 targets and equal weights, so that they minimise the same function,
which is then evaluated for both by this package. Letters has whole-numbered features and many
ties between neighbours; a jitter of 0.001 decides them before either package does.

    python benchmarks/lmnn.py                     # Letters, 2000 rows, both packages
    python benchmarks/lmnn.py --large             # and Letters 12000, MNIST-PCA-40 with 60000
    python benchmarks/lmnn.py --large --only-ours

MNIST is read from the data directory of ``--data`` or the environment variable GENMETRIC_DATA.
Every fit runs in a process of its own, whose peak memory is given, with one BLAS thread: more make
metric-learn slower, and genmetric spreads its work over threads of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import numpy as np
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier

from genmetric.datasets import load_letter, load_mnist
from genmetric.lmnn import lmnn_objective, target_neighbors

REQUIREMENTS = ["metric-learn==0.7.0", "scikit-learn<1.8"]
BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
N_NEIGHBORS = 3

#: Fits in a process of its own; both scripts read rows.npz and write components.npy beside it.
OURS = """
import json, resource, sys, time
import numpy as np
from genmetric.lmnn import LMNN
data, options = np.load("rows.npz"), json.loads(sys.argv[1])
start = time.perf_counter()
metric = LMNN(**options).fit(data["X"], data["y"])
seconds = time.perf_counter() - start
np.save("components.npy", metric.components_)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([seconds, peak, metric.n_iter_]))
"""
THEIRS = OURS.replace("genmetric.lmnn", "metric_learn")


def metric_learn_python() -> Path:
    """The interpreter of an environment with metric-learn, made at the first call."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    home = cache / "genmetric" / "metric-learn-0.7.0"
    python = home / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not (home / "ready").exists():
        print(f"Installing {', '.join(REQUIREMENTS)} into {home} ...", flush=True)
        venv.create(home, clear=True, with_pip=True)
        pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        subprocess.run([*pip, *REQUIREMENTS], check=True)
        (home / "ready").touch()
    return python


def fit(python, script, X, y, options, repeats=1):
    """Shortest time, least peak memory in MB, iterations and components of a few fits."""
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "rows.npz", X=X, y=y)
        runs = []
        for _ in range(repeats):
            done = subprocess.run(
                [python, "-W", "ignore", "-c", script, json.dumps(options)],
                cwd=folder,
                env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
                check=True,
                stdout=subprocess.PIPE,
                text=True,
            )
            runs.append(json.loads(done.stdout))
        components = np.load(Path(folder) / "components.npy")
    seconds, peak, n_iter = (min(column) for column in zip(*runs, strict=True))
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return seconds, peak / unit, n_iter, components


def test_error(L, X, y, X_test, y_test):
    """Error of the 3 nearest neighbours in the space of L, in per cent."""
    center = X.mean(axis=0)
    knn = KNeighborsClassifier(N_NEIGHBORS).fit((X - center) @ L.T, y)
    return 100 * (1 - knn.score((X_test - center) @ L.T, y_test))


def compare(fits, X, y, X_test, y_test, *, evaluate):
    """One line for each fit: a name, an interpreter, a script, options, repeats."""
    x, codes = X - X.mean(axis=0), np.unique(y, return_inverse=True)[1]
    targets = target_neighbors(x, codes, N_NEIGHBORS)
    print(f"{'':40}{'fit':>10}{'peak':>10}{'iterations':>12}{'objective':>13}{'kNN error':>11}")
    error = test_error(np.eye(X.shape[1]), X, y, X_test, y_test)
    print(f"{'Euclidean':40}{'':45}{error:>9.2f} %", flush=True)
    for name, python, script, options, repeats in fits:
        seconds, peak, n_iter, L = fit(python, script, X, y, options, repeats)
        value = f"{lmnn_objective(L, x, codes, targets)[0]:.2f}" if evaluate(options) else ""
        error = test_error(L, X, y, X_test, y_test)
        print(
            f"{name:40}{seconds:>8.2f} s{peak:>7.0f} MB{n_iter:>12}{value:>13}{error:>9.2f} %",
            flush=True,
        )
    print()


def ours(init, n_jobs, repeats=3):
    options = {"n_neighbors": N_NEIGHBORS, "init": init, "n_jobs": n_jobs}
    return f"genmetric, init={init!r}, n_jobs={n_jobs}", sys.executable, OURS, options, repeats


def theirs(python, learn_rate):
    options = {"n_neighbors": N_NEIGHBORS, "init": "identity", "learn_rate": learn_rate}
    return f"metric-learn, learn_rate={learn_rate:g}", python, THEIRS, options, 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2000, help="training rows of the comparison")
    parser.add_argument("--large", action="store_true", help="also Letters 12000 and MNIST 60000")
    parser.add_argument("--only-ours", action="store_true", help="leave metric-learn out")
    parser.add_argument("--data", default=BESIDE if BESIDE.is_dir() else None, help="for MNIST")
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)

    X, y = load_letter(return_X_y=True)
    order = rng.permutation(len(X))
    X, y = X[order] + rng.uniform(-5e-4, 5e-4, X.shape), y[order]
    test = slice(14_000, None)
    print(f"Letters, {arguments.rows} rows, {X.shape[1]} features, {len(np.unique(y))} classes")
    fits = [ours("identity", 1), ours("identity", -1), ours("auto", 1)]
    if not arguments.only_ours:
        python = metric_learn_python()
        fits += [theirs(python, rate) for rate in (1e-7, 1e-6)]
    train = slice(arguments.rows)
    compare(fits, X[train], y[train], X[test], y[test], evaluate=lambda o: o["init"] == "identity")
    if arguments.large:
        print("Letters, 12000 rows")
        train = slice(12_000)
        fits = [ours("identity", -1, 1), ours("auto", -1, 1)]
        compare(fits, X[train], y[train], X[test], y[test], evaluate=lambda o: o["init"] != "auto")
        X, y = load_mnist(return_X_y=True, data_dir=arguments.data)
        X = np.asarray(X, np.float32) / 255
        X = PCA(40, random_state=0).fit(X[:60_000]).transform(X).astype(float)
        print("MNIST, 40 principal components, 60000 rows")
        train, test = slice(60_000), slice(60_000, None)
        compare(fits, X[train], y[train], X[test], y[test], evaluate=lambda o: o["init"] != "auto")


if __name__ == "__main__":
    main()

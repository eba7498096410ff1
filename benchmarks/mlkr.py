"""Compare the MLKR of this package with metric-learn's: time and leave-one-out error of one fit.

    python benchmarks/mlkr.py --peer /path/to/python

``--peer`` is the Python interpreter of an environment with ``metric-learn "scikit-learn<1.8"``,
because metric-learn 0.7 does not run on newer versions. Each fit runs in a subprocess on the same
standardised arrays with one BLAS thread. The leave-one-out error is computed by this package for
both, relative to the variance of y.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_diabetes, make_friedman1, make_friedman2
from sklearn.preprocessing import StandardScaler

from genmetric.metric import mlkr_objective

SCRIPT = """
import json, sys, time
import numpy as np
from {package} import MLKR
data = np.load("samples.npz")
start = time.perf_counter()
metric = MLKR().fit(data["X"], data["y"])
seconds = time.perf_counter() - start
np.save("components.npy", metric.components_)
print(json.dumps([seconds, int(metric.n_iter_)]))
"""

DATA = {
    "diabetes": lambda: load_diabetes(return_X_y=True),
    "friedman1, 500": lambda: make_friedman1(500, noise=1.0, random_state=0),
    "friedman1, 1500, 30 features": lambda: make_friedman1(1500, 30, noise=1.0, random_state=0),
    "friedman2, 1000": lambda: make_friedman2(1000, noise=100.0, random_state=0),
}


def fit(python, package, X, y):
    """Return seconds, iterations and components of one fit."""
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "samples.npz", X=X, y=y)
        done = subprocess.run(
            [python, "-W", "ignore", "-c", SCRIPT.format(package=package)],
            cwd=folder,
            env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        return *json.loads(done.stdout), np.load(Path(folder) / "components.npy")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", help="Python interpreter of an environment with metric-learn")
    arguments = parser.parse_args()
    fits = [("genmetric", sys.executable, "genmetric")]
    if arguments.peer:
        fits.append(("metric-learn", arguments.peer, "metric_learn"))
    print("| data | package | seconds | iterations | leave-one-out error / variance |")
    print("| --- | --- | --- | --- | --- |")
    for name, load in DATA.items():
        X, y = load()
        X = StandardScaler().fit_transform(X)
        y = (y - y.mean()) / y.std()
        for label, python, package in fits:
            seconds, n_iter, L = fit(python, package, X, y)
            error = mlkr_objective(L, X, y)[0] / len(y)
            print(f"| {name} | {label} | {seconds:.1f} | {n_iter} | {error:.4f} |", flush=True)


if __name__ == "__main__":
    main()

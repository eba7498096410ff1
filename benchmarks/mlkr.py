"""Compare the MLKR of this package with metric-learn's: time and leave-one-out error of one fit.

    python benchmarks/mlkr.py --peer /path/to/python --tables 'slump; concrete'

``--peer`` is the Python interpreter of an environment with ``metric-learn "scikit-learn<1.8"``,
because metric-learn 0.7 does not run on newer versions. Each fit runs in a subprocess on the same
standardised arrays with one BLAS thread, until convergence: without early stopping. Times are those
of the processor. The leave-one-out error is computed by this package for both, relative to the
variance of y.
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

from genmetric.datasets import load_dataset
from genmetric.learners import mlkr_objective

SCRIPT = """
import json, sys, time
import numpy as np
from {package} import MLKR
data = np.load("samples.npz")
start = time.process_time()
metric = MLKR({options}).fit(data["X"], data["y"])
seconds = time.process_time() - start
np.save("components.npy", metric.components_)
print(json.dumps([seconds, int(metric.n_iter_)]))
"""

DATA = {
    "slump": lambda: load_dataset("slump", return_X_y=True),
    "auto_mpg": lambda: load_dataset("auto_mpg", return_X_y=True),
    "real_estate": lambda: load_dataset("real_estate", return_X_y=True),
    "concrete": lambda: load_dataset("concrete", return_X_y=True),
    "diabetes": lambda: load_diabetes(return_X_y=True),
    "friedman1, 500": lambda: make_friedman1(500, noise=1.0, random_state=0),
    "friedman1, 1500, 30 features": lambda: make_friedman1(1500, 30, noise=1.0, random_state=0),
    "friedman2, 1000": lambda: make_friedman2(1000, noise=100.0, random_state=0),
}


def fit(python, package, options, X, y):
    """Return seconds, iterations and components of one fit."""
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "samples.npz", X=X, y=y)
        done = subprocess.run(
            [python, "-W", "ignore", "-c", SCRIPT.format(package=package, options=options)],
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
    parser.add_argument("--tables", default="; ".join(DATA), help="names, separated by ;")
    arguments = parser.parse_args()
    fits = [(sys.executable, "genmetric", "early_stopping=False")]
    if arguments.peer:
        fits.append((arguments.peer, "metric_learn", ""))
    print("| data | package | seconds | iterations | leave-one-out error / variance |")
    print("| --- | --- | --- | --- | --- |")
    for name in arguments.tables.split(";"):
        X, y = DATA[name.strip()]()
        X = StandardScaler().fit_transform(X)
        y = (y - y.mean()) / y.std()
        for python, package, options in fits:
            seconds, n_iter, L = fit(python, package, options, X, y)
            error = mlkr_objective(L, X, y)[0] / len(y)
            cells = [name.strip(), package, f"{seconds:.1f}", n_iter, f"{error:.5f}"]
            print("| " + " | ".join(map(str, cells)) + " |", flush=True)


if __name__ == "__main__":
    main()

"""Time of a fit against the numbers of samples and features, and its memory."""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from measure import Table, gaussian_classes, progress, seconds, short

from genmetric import GenerativeMetric


def slope(sizes, times):
    """Slope of log time against log size."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def with_features():
    """Time of the sum against D, with 4000 samples of two classes."""
    table = Table("Growth with D, two classes, 4000 samples", ["D", "seconds", "slope so far"])
    sizes, times = [], []
    for D in (160, 226, 320, 452, 640):
        progress(f"growth, D = {D}")
        X, y = gaussian_classes(2, D, 4000)
        sizes.append(D)
        times.append(seconds(lambda X=X, y=y: GenerativeMetric(n_jobs=1).fit(X, y), 2))
        table.add(D, short(times[-1]), f"{slope(sizes, times):.2f}" if len(sizes) > 1 else "")
    return table


def with_rows():
    """Time of a fit against N, with 20 features and two classes."""
    table = Table("Growth with N, two classes, D = 20", ["N", "seconds", "slope so far"])
    sizes, times = [], []
    for n in (10_000, 31_623, 100_000, 316_228, 1_000_000):
        progress(f"growth, N = {n}")
        X, y = gaussian_classes(2, 20, n)
        sizes.append(n)
        times.append(seconds(lambda X=X, y=y: GenerativeMetric(n_jobs=1).fit(X, y), 2))
        table.add(n, short(times[-1]), f"{slope(sizes, times):.2f}" if len(sizes) > 1 else "")
    return table


def memory():
    """Peak memory of one fit of a million samples above the input, in a separate process."""
    table = Table(
        "One million samples, D = 50",
        ["classes", "threads", "input MB", "peak above it, MB", "seconds"],
    )
    with tempfile.TemporaryDirectory() as folder:
        for n_classes in (2, 3):
            X, y = gaussian_classes(n_classes, 50, 1_000_000)
            np.save(f"{folder}/X.npy", X)
            np.save(f"{folder}/y.npy", y)
            for n_jobs in (1, 2):
                progress(f"memory, {n_classes} classes, {n_jobs} threads")
                words = [sys.executable, __file__, folder, str(n_jobs)]
                run = subprocess.run(words, capture_output=True, text=True, check=True)
                table.add(n_classes, n_jobs, *run.stdout.split())
    return table


def _fit_a_million(folder, n_jobs):
    # Loaded, not generated here: generating the samples takes more memory than the fit.
    X, y = np.load(f"{folder}/X.npy"), np.load(f"{folder}/y.npy")
    small = slice(0, 20_000)
    GenerativeMetric().fit(X[small], y[small])  # imports and first calls
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts from here (Linux)
    before = _status("VmRSS")
    took = seconds(lambda: GenerativeMetric(n_jobs=n_jobs).fit(X, y), 1)
    print(f"{X.nbytes / 1e6:.0f} {_status('VmHWM') - before:.0f} {took:.1f}")


def _status(name):
    """A size of this process, in MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) / 1e3
    raise KeyError(name)


if __name__ == "__main__":
    _fit_a_million(sys.argv[1], int(sys.argv[2]))

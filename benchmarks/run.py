"""Run the benchmarks and write docs/results/speed.csv: ``python benchmarks/run.py [name ...]``."""

import platform
import sys

import crossover
import density_rounds
import growth
import many_classes
import measure
import numpy as np
import peers
import scipy
import sklearn
import solvers

BENCHMARKS = {
    "two_classes": solvers.two_classes,
    "ten_classes": solvers.ten_classes,
    "third_classes": solvers.third_classes,
    "crossover": crossover.crossover,
    "features": growth.with_features,
    "rows": growth.with_rows,
    "memory": growth.memory,
    "density_rounds": density_rounds.density_rounds,
    "many_classes": many_classes.many_classes,
    "class_growth": many_classes.class_growth,
    "class_streams": many_classes.class_streams,
    "peers": peers.peers,
}
TABLES = measure.REPOSITORY / "docs" / "results" / "speed.csv"


def main(names):
    unknown = set(names) - set(BENCHMARKS)
    if unknown:
        sys.exit(f"No benchmark {', '.join(sorted(unknown))}. There are: {', '.join(BENCHMARKS)}.")
    tables = [BENCHMARKS[name]() for name in names or BENCHMARKS]
    if names:
        return  # a part of the tables does not replace the file
    versions = (
        f"Python {platform.python_version()}, NumPy {np.__version__}, SciPy {scipy.__version__}, "
        f"scikit-learn {sklearn.__version__}, {platform.machine()}, two cores."
    )
    print(versions)
    measure.write_csv(TABLES, "\n".join(str(table) for table in tables))


if __name__ == "__main__":
    main(sys.argv[1:])

"""The paper's table of nonlinear combinations: kernels of regional metrics by SimpleMKL.

``python benchmarks/nonlinear.py [SPLITS [SET ...]]`` runs the Euclidean baseline and 1, 5 and 10
regions under the paper's protocol, C and the number of regions by validation error, beside a single
Gaussian kernel; class covariances are plain maximum likelihood, as in the paper. Every split is kept
in a file as it ends, so that an interrupted run goes on where it stopped, and
docs/results/nonlinear.md is written from that file.
"""

import json
import sys
from pathlib import Path
from time import perf_counter

import measure
import numpy as np
from sklearn.preprocessing import minmax_scale
from sklearn.svm import SVC

from genmetric.datasets import load_dataset
from genmetric.kernels import RegionalKernels, SimpleMKLClassifier

C_GRID = 2.0 ** np.arange(-3, 12)
REGIONS = (0, 1, 5, 10)

# Table sup-Nonlinear: error in per cent, and its standard error.
PAPER = {
    "wine": ((2.16, 0.40), (2.43, 0.49), (4.14, 0.56), (3.96, 0.70)),
    "iris": ((5.56, 0.65), (3.33, 0.60), (2.78, 0.36), (2.89, 0.47)),
    "heart": ((18.09, 0.71), (17.16, 0.57), (19.26, 0.82), (18.95, 0.79)),
    "vehicle": ((26.53, 0.53), (15.56, 0.45), (15.44, 0.42), (15.58, 0.47)),
    "ionosphere": ((6.90, 0.43), (9.01, 0.58), (10.47, 0.65), (9.81, 0.53)),
    "german": ((25.22, 0.38), (24.38, 0.44), (24.30, 0.42), (24.25, 0.40)),
}
STORE = measure.REPOSITORY / "docs" / "results" / "nonlinear.jsonl"
PAGE = STORE.with_suffix(".md")


def parts(n, seed):
    """Training, validation and test rows, 60/20/20, the first two rounded down."""
    rows = np.random.default_rng(seed).permutation(n)
    return np.split(rows, [int(0.6 * n), int(0.6 * n) + int(0.2 * n)])


def by_validation(candidates, y_val, y_test):
    """Validation and test error, in per cent, of the first candidate of least validation error."""
    best = None
    for predict_val, predict_test in candidates:
        error = 100 * float(np.mean(predict_val() != y_val))
        if best is None or error < best[0]:
            best = error, 100 * float(np.mean(predict_test() != y_test))
    return best


def mkl_candidates(stacks, y):
    """One machine for each C, the weights of one the start of the next."""
    model = SimpleMKLClassifier("precomputed", warm_start=True)
    for C in C_GRID:
        model.set_params(C=C).fit(stacks[0], y)
        yield lambda: model.predict(stacks[1]), lambda: model.predict(stacks[2])


def single_candidates(stacks, y):
    """One machine for each C and each single kernel."""
    for C in C_GRID:
        for K, K_val, K_test in zip(*stacks, strict=True):
            model = SVC(C=C, kernel="precomputed").fit(K, y)
            yield lambda m=model, K=K_val: m.predict(K), lambda m=model, K=K_test: m.predict(K)


def one_split(name, X, y, seed):
    """Validation and test errors of all methods on one split."""
    train, val, test = parts(len(X), seed)
    found, start = {}, perf_counter()
    for n_regions in REGIONS:
        kernels = RegionalKernels(n_regions, shrinkage=None, random_state=seed)
        kernels.fit(X[train], y[train])
        stacks = [kernels.gram(X[rows], X[train]) for rows in (train, val, test)]
        found[f"mkl{n_regions}"] = by_validation(mkl_candidates(stacks, y[train]), y[val], y[test])
        if n_regions < 2:
            found[f"one{n_regions}"] = by_validation(
                single_candidates(stacks, y[train]), y[val], y[test]
            )
    # The honest column: the number of regions by validation error, ties to the fewest.
    chosen = min((found[f"mkl{p}"] for p in REGIONS[1:]), key=lambda errors: errors[0])
    found["chosen"] = chosen
    return {"set": name, "seed": seed, "seconds": perf_counter() - start, "errors": found}


def run(names, n_splits):
    """Run the splits that are not in the store yet."""
    done = {(r["set"], r["seed"]) for r in read()}
    for name in names:
        try:
            X, y = load_dataset(name, return_X_y=True, **data_dir())
        except Exception as error:  # a missing set is named, and the rest still runs
            measure.progress(f"{name} left out: {error}")
            continue
        X = minmax_scale(X, (-1, 1))
        for seed in range(n_splits):
            if (name, seed) not in done:
                record = one_split(name, X, y, seed)
                measure.progress(f"{name} {seed}: {record['seconds']:.1f} s")
                with STORE.open("a") as store:
                    store.write(json.dumps(record) + "\n")


def data_dir():
    """The directory of sets that do not come with the package, where it is beside the repository."""
    beside = Path(measure.REPOSITORY.parent) / "shared" / "data"
    return {"data_dir": beside} if beside.is_dir() else {}


def read():
    """The splits in the store."""
    return [json.loads(line) for line in STORE.read_text().splitlines()] if STORE.exists() else []


def tables():
    """Our errors beside the paper's."""
    records = read()
    ours = measure.Table(
        "Error in per cent, mean ± standard error; the paper's in brackets",
        [
            "set",
            "splits",
            "baseline",
            *(f"P = {p}" for p in REGIONS[1:]),
            "best P on test",
            "P by validation",
            "one RBF, Euclidean",
            "one RBF, M^UNI",
        ],
    )
    for name, paper in PAPER.items():
        rows = [r["errors"] for r in records if r["set"] == name]
        if not rows:
            continue

        def cell(method, rows=rows):
            errors = [r[method][1] for r in rows]
            return f"{np.mean(errors):.2f} ± {np.std(errors, ddof=1) / len(errors) ** 0.5:.2f}"

        cells = [
            f"{cell(f'mkl{p}')} ({value:.2f} ± {spread:.2f})"
            for p, (value, spread) in zip(REGIONS, paper, strict=True)
        ]
        best = min(REGIONS[1:], key=lambda p: np.mean([r[f"mkl{p}"][1] for r in rows]))
        best_paper = min(value for value, _ in paper[1:])
        ours.add(
            name,
            len(rows),
            *cells,
            f"{cell(f'mkl{best}')} ({best_paper:.2f})",
            cell("chosen"),
            cell("one0"),
            cell("one1"),
        )
    return ours


def main(arguments):
    n_splits = int(arguments[0]) if arguments else 30
    STORE.parent.mkdir(exist_ok=True)
    run(arguments[1:] or list(PAPER), n_splits)
    table = str(tables())
    if PAGE.exists():
        head = PAGE.read_text().split("<!-- tables -->")[0]
        PAGE.write_text(f"{head}<!-- tables -->\n\n{table}")


if __name__ == "__main__":
    main(sys.argv[1:])

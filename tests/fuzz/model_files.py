"""Mutated model files with correct checksums: nothing crashes, hangs or raises other errors.

Each mutation changes the tree or the arrays of a valid file, writes a file with correct checksums,
loads it, and calls the prediction methods. Loading either succeeds or raises ModelFileError; a
prediction either succeeds or raises ValueError (NotFittedError and NotImplementedError included).

    python tests/fuzz/model_files.py --count 2000 --seed 0

prints one line per unexpected error and returns their number as exit code (at most 100). The parent
process runs the mutations in a child, so that a crash or a hang is reported with its mutation.
"""

import argparse
import copy
import io
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from pathlib import Path

import numpy as np

#: Seconds after which a mutation counts as a hang. The files have at most 100 KB.
TIME_LIMIT = 20
METHODS = ("transform", "predict", "predict_proba", "decision_function", "kneighbors", "gram")
SCALARS = (
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        2,
        7,
        624,
        10**6,
        2**31,
        2**63,
        10**30,
        -(10**9),
        0.5,
        1e300,
        -0.0,
    ),
    *("", "a", "auto", "passthrough", "drop", "euclidean", "precomputed", "kd_tree", "x" * 300),
    *([], {}, [0], [[]], {"$": "float", "value": "nan"}, {"$": "float", "value": "inf"}),
    *({"$": "array", "index": 0}, {"$": "array", "index": 1}, {"$": "same", "id": 0}),
)


def models():
    """Valid models with the data that they take."""
    import pandas as pd
    from sklearn.compose import ColumnTransformer
    from sklearn.datasets import load_iris
    from sklearn.decomposition import PCA
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors
    from sklearn.pipeline import Pipeline, make_pipeline
    from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, OrdinalEncoder, StandardScaler

    import genmetric as gm
    from genmetric.tables import make_preprocessor, plan_columns

    X, y = load_iris(return_X_y=True)
    X, names = X[::3], np.array(["setosa", "versicolor", "virginica"])[y[::3]]
    frame = pd.DataFrame(X.copy(), columns=["a", "b", "c", "d"])  # pandas 2 shares the memory
    frame["town"] = np.where(X[:, 0] > 5.8, "Aix", "Bonn")
    frame["owner"] = np.where(X[:, 1] > 3, "yes", "no")
    frame["since"] = pd.date_range("2020-01-01", periods=len(X)).astype(str)
    frame.loc[::5, "b"] = np.nan
    columns = ColumnTransformer(
        [
            (
                "numbers",
                make_pipeline(SimpleImputer(add_indicator=True), MinMaxScaler()),
                ["a", "b"],
            ),
            ("town", OneHotEncoder(handle_unknown="ignore"), ["town"]),
            ("owner", OrdinalEncoder(), ["owner"]),
        ],
        remainder="drop",
    )

    def steps(first, last):
        names = ("columns", "scale", "metric", "neighbors")
        return Pipeline(
            list(zip(names, (first, StandardScaler(), gm.GenerativeMetric(), last), strict=True))
        )

    planned = make_preprocessor(plan_columns(frame))
    yield steps(planned, KNeighborsClassifier(3)).fit(frame, names), frame
    yield steps(columns, KNeighborsClassifier(3, algorithm="brute")).fit(frame, names), frame
    for model in (
        make_pipeline(StandardScaler(), gm.GenerativeMetric("kde"), KNeighborsClassifier()),
        make_pipeline(PCA(3), LinearDiscriminantAnalysis()),
        make_pipeline(gm.LMNN(max_iter=2), LogisticRegression()),
        make_pipeline(gm.GenerativeMetric(n_components=2), NearestNeighbors()),
        gm.GenerativeMetric(class_model=gm.GaussianMixtureModel(random_state=0)),
        gm.LocalMetricClassifier(),
        gm.EnergyClassifier(gm.GenerativeMetric()),
        gm.MetricKMeans(3, random_state=0),
        gm.SimpleMKLClassifier(gm.RegionalKernels(2, scales=[1.0], random_state=0)),
        gm.GenerativeMetric(random_state=0).partial_fit,
    ):
        if callable(model):
            yield model(X, names), X
        else:
            yield model.fit(X, names), X


def unpack(path):
    """Return the header and the arrays of a file."""
    with zipfile.ZipFile(path) as archive:
        header = json.loads(archive.read("genmetric.json"))
        arrays = [np.load(io.BytesIO(archive.read(e["name"]))) for e in header["arrays"]]
    return header, arrays


def places(node, found=None):
    """Return every container of a tree with its keys."""
    found = [] if found is None else found
    if isinstance(node, dict | list):
        for key in list(node) if isinstance(node, dict) else range(len(node)):
            found.append((node, key))
            places(node[key], found)
    return found


def mutate_tree(state, rng):
    """Change one place of the tree."""
    container, key = rng.choice(places(state))
    change = rng.randrange(8)
    if change == 0:
        container[key] = copy.deepcopy(rng.choice(SCALARS))
    elif change == 1 and isinstance(container, dict):
        del container[key]
    elif change == 2 and isinstance(container, dict):
        container[rng.choice(["$", "class", "parts", "items", "x_", "_x", "__class__"])] = 1
    elif change == 3:
        other, place = rng.choice(places(state))
        container[key] = copy.deepcopy(other[place])
    elif change == 4 and isinstance(container, list):
        container.append(copy.deepcopy(container[key]))
    elif change == 5 and isinstance(container, list):
        del container[key]
    elif change == 6 and isinstance(container[key], int):
        container[key] += rng.choice([-1, 1, 2, 100])
    elif change == 7 and isinstance(container, list):
        rng.shuffle(container)
    else:
        container[key] = copy.deepcopy(rng.choice(SCALARS))


def mutate_array(arrays, rng):
    """Change shape, type or values of one array."""
    i = rng.randrange(len(arrays))
    array = arrays[i]
    change = rng.randrange(9)
    if change == 0:
        array = array[: len(array) // 2] if array.ndim else array
    elif change == 1:
        array = np.ascontiguousarray(array.T)
    elif change == 2:
        array = array.ravel()
    elif change == 3:
        array = array[None]
    elif change == 4 and array.dtype.kind in "biuf":
        array = array.astype(rng.choice(["f4", "i8", "u1", "i2", "b", "c16", "U5"]))
    elif change == 5 and array.size and array.dtype.kind in "iuf":
        array = array.copy()
        array.flat[rng.randrange(array.size)] = 10**4 if array.dtype.itemsize > 1 else 200
    elif change == 6 and array.size and array.dtype.kind == "f":
        array = array.copy()
        array.flat[rng.randrange(array.size)] = rng.choice([np.nan, np.inf, -np.inf, 1e300, 0.0])
    elif change == 7:
        array = np.zeros((0, *array.shape[1:]), array.dtype)
    else:
        array = np.concatenate([array, array]) if array.ndim else array
    arrays[i] = np.ascontiguousarray(array)


def mutants(count, seed, folder):
    """Yield a description and a file for each mutation, with the data to predict."""
    from genmetric import save
    from genmetric.files._archive import write_archive

    originals = []
    for i, (model, X) in enumerate(models()):
        path = folder / f"{i}.gm"
        save(model, path)
        originals.append((type(model).__name__, *unpack(path), X))
    for number in range(count):
        rng = random.Random(f"{seed} {number}")
        name, header, arrays, X = originals[number % len(originals)]
        header, arrays = copy.deepcopy(header), list(arrays)
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            if rng.random() < 0.7:
                mutate_tree(header["state"], rng)
            else:
                mutate_array(arrays, rng)
        del header["arrays"]
        path = folder / "mutant.gm"
        write_archive(path, header, arrays)
        yield f"{name} {number}", path, X


def attempt(path, X):
    """Load a file and predict with it; return "refused", "loaded" or "raised"."""
    from genmetric import load
    from genmetric.files import ModelFileError

    try:
        model = load(path)
    except ModelFileError:
        return "refused"
    outcome = "loaded"
    for name in METHODS:
        try:
            method = getattr(model, name, None)
            if method is not None:
                method(X)
        except (ValueError, NotImplementedError):
            outcome = "raised"
    return outcome


def run(count, seed):
    """Try mutations in this process; return the number of unexpected errors."""
    outcomes = {"refused": 0, "loaded": 0, "raised": 0, "failed": 0}
    start, slowest = time.perf_counter(), 0.0
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    with tempfile.TemporaryDirectory() as folder:
        for name, path, X in mutants(count, seed, Path(folder)):
            print(f"# {name}", file=sys.stderr, flush=True)
            if hasattr(signal, "alarm"):
                signal.alarm(TIME_LIMIT)
            began = time.perf_counter()
            try:
                outcomes[attempt(path, X)] += 1
            except Exception:
                outcomes["failed"] += 1
                print(f"{name}: {traceback.format_exc()}")
            slowest = max(slowest, time.perf_counter() - began)
            if hasattr(signal, "alarm"):
                signal.alarm(0)
    seconds = time.perf_counter() - start
    print(f"{count} mutations, seed {seed}: {outcomes}, {seconds:.0f} s, slowest {slowest:.2f} s")
    return outcomes["failed"]


def main():
    """Run the mutations in a child process and report crashes and hangs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return min(100, run(options.count, options.seed))
    command = [sys.executable, *sys.argv, "--child"]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode < 0 or done.returncode > 100:
        last = [line for line in done.stderr.splitlines() if line.startswith("# ")][-1:]
        print(f"crashed or hung with code {done.returncode} at mutation {last}")
        return 101
    if done.returncode:
        print("\n".join(x for x in done.stderr.splitlines() if not x.startswith("# "))[-3000:])
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())

"""Compare ways to tell whether two vectors are of the same entity, by the number of known pairs.

    python benchmarks/pairs_study.py --store docs/results/pairs.csv         # all sets, three splits
    python benchmarks/pairs_study.py --sets records,simulated --splits 2
    python benchmarks/pairs_study.py --store docs/results/pairs.csv --page  # table and figure only

Every method learns from the same pairs of the same entity; where it needs pairs of different
entities, they are drawn at random among the vectors of these pairs. Test entities are not in any
training pair. ``sections`` and ``images`` read their files from ``--data`` or the environment
variable GENMETRIC_DATA; ``docstrings`` needs sentence-transformers and the model all-MiniLM-L6-v2
(``--model`` names a copy of it), and keeps its vectors in the same directory. Sets without their
file are left out. Scores that are in the store are not computed again.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import inspect
import os
import pkgutil
import re
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
from records import people, typed_again
from scipy.ndimage import affine_transform, convolve
from scipy.special import expit
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, normalize

from genmetric import EmbeddingAdapter, PairClassifier
from genmetric.datasets import load_mnist
from genmetric.metrics import expected_calibration_error, miss_rate_at

#: Known pairs; entities that pairs are taken from, and entities of the test.
N_PAIRS, N_TRAIN, N_TEST = (100, 300, 1000, 3000), 3000, 1000

# Datasets: vectors, and the entity of each


def records(_):
    """Vectorize simulated names and addresses, typed badly twice, as character n-grams."""
    rng = np.random.default_rng(0)
    persons = people(N_TRAIN + N_TEST, rng)
    texts = [typed_again(person, 8, rng) for person in persons + persons]
    ngrams = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 3), sublinear_tf=True)
    X = make_pipeline(ngrams, TruncatedSVD(100, random_state=0)).fit_transform(texts)
    return X, np.tile(np.arange(len(persons)), 2)


def docstrings(options):
    """Embed the first and the middle passage of docstrings by a sentence model, 384 features."""
    file = options.data / "docstrings.npz"
    if not file.exists():
        from sentence_transformers import SentenceTransformer

        passages = [passage for pair in _passages() for passage in pair]
        X = SentenceTransformer(options.model).encode(passages).astype(np.float32)
        np.savez(file, X=X)
    X = np.load(file, allow_pickle=False)["X"]
    return X, np.repeat(np.arange(len(X) // 2), 2)


#: Packages whose docstrings are used.
PACKAGES = (
    "numpy scipy sklearn pandas matplotlib dask networkx hypothesis pyarrow polars joblib argparse "
    "asyncio collections concurrent ctypes decimal email http importlib logging multiprocessing "
    "pathlib statistics tkinter typing unittest urllib xml"
)


def _passages():
    """Return two passages of each long docstring of scientific packages and Python's own."""
    texts = {}
    for package in PACKAGES.split():
        root = importlib.import_module(package)
        places = getattr(root, "__path__", [])
        found = pkgutil.walk_packages(places, f"{package}.", onerror=lambda _: None)
        hidden = re.compile(r"\.tests?\b|conftest|\._|__main__|f2py")
        for name in [package, *(m.name for m in found if not hidden.search(m.name))]:
            try:
                members = vars(importlib.import_module(name))
            except Exception:  # a module that needs what is not installed
                continue
            for key, value in list(members.items()):
                text = inspect.getdoc(value) if callable(value) else None
                if text and len(text) >= 300 and not key.startswith("_"):
                    texts.setdefault(key.lower(), text)
    plain = [
        re.sub(r"\s+", " ", re.sub(r">>>.*|\.\. \w+::.*|-{3,}", "", t)) for t in texts.values()
    ]
    pairs = [(t[:300], t[len(t) // 2 :][:400]) for t in plain if len(t) > 500]
    counts = Counter(passage for pair in pairs for passage in pair)
    return [pair for pair in pairs if counts[pair[0]] == counts[pair[1]] == 1]


def images(options):
    """Distort images of MNIST twice: an entity is an image, the vectors are random filters."""
    rng = np.random.default_rng(0)
    digits, _ = load_mnist(return_X_y=True, data_dir=options.data)
    chosen = rng.choice(len(digits), N_TRAIN + N_TEST, replace=False)
    twice = np.repeat(np.asarray(digits[chosen], np.float32).reshape(-1, 28, 28) / 255, 2, axis=0)
    distorted = np.stack([_distorted(image, rng) for image in twice])
    filters = rng.normal(size=(32, 5, 5)).astype(np.float32)
    features = []
    for one in filters - filters.mean(axis=(1, 2), keepdims=True):
        response = np.maximum(convolve(distorted, one[None], mode="constant"), 0)[:, 2:26, 2:26]
        features.append(response.reshape(-1, 3, 8, 3, 8).mean(axis=(2, 4)).reshape(-1, 9))
    return np.concatenate(features, axis=1), np.repeat(np.arange(len(chosen)), 2)


def _distorted(image, rng):
    """Rotate, scale, shear and shift an image a little, and add noise."""
    angle, shear = rng.normal(0, 0.2, size=2)
    rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    matrix = rotation @ np.array([[1, shear], [0, 1]]) * rng.uniform(0.85, 1.15)
    center = np.array([13.5, 13.5])
    moved = affine_transform(image, matrix, center - matrix @ center + rng.normal(0, 1.5, size=2))
    return moved + rng.normal(0, 0.1, size=image.shape).astype(np.float32)


def simulated(_):
    """Draw from the two-covariance model, but with heavy tails: Student's t, 5 degrees."""
    rng = np.random.default_rng(0)
    n_features, n_entities = 128, N_TRAIN + N_TEST
    groups = np.repeat(np.arange(n_entities), 2)
    rotation = np.linalg.qr(rng.normal(size=(n_features, n_features)))[0]
    means = rng.normal(size=(n_entities, n_features)) * np.linspace(1, 0.1, n_features)
    noise = (
        rng.normal(size=(2 * n_entities, n_features)) @ rotation * np.linspace(0.2, 1.2, n_features)
    )
    tails = np.sqrt(rng.chisquare(5, size=(2 * n_entities, 1)) / 5)
    return (means[groups] + noise @ rotation.T / tails + 0.3).astype(np.float32), groups


def sections(options):
    """Load embeddings of package descriptions: an entity is one of only 45 sections."""
    file = np.load(options.data / "embeddings_sections.npz", allow_pickle=False)
    return file["X"], file["y"].astype(int)


SETS = {f.__name__: f for f in (records, docstrings, images, simulated, sections)}

# Methods: fit on pairs of the same entity and on others, return log-odds of test pairs


def _scaled(train_scores, n_same, test_scores):
    """Platt scaling with equal weight of both kinds of pairs."""
    labels = np.arange(len(train_scores)) < n_same
    model = LogisticRegression(class_weight="balanced", C=1e6)
    model.fit(train_scores[:, None], labels)
    return model.decision_function(test_scores[:, None])


def _cosine(pairs):
    a, b = normalize(pairs[:, 0]), normalize(pairs[:, 1])
    return np.einsum("ij,ij->i", a, b)


def cosine(same, different, test, _seed):
    """Cosine similarity of the vectors themselves."""
    return _scaled(_cosine(np.concatenate([same, different])), len(same), _cosine(test))


def kissme(same, different, test, _seed):
    """Difference of the inverse covariances of differences, in at most 64 components."""
    pca = PCA(min(64, same.shape[2], len(same)), random_state=0)
    pca.fit(normalize(same.reshape(-1, same.shape[2])))

    def differences(pairs):
        return pca.transform(normalize(pairs[:, 0])) - pca.transform(normalize(pairs[:, 1]))

    def inverse(pairs):
        e = differences(pairs)
        scatter = e.T @ e / len(e)
        return np.linalg.inv(
            scatter + 1e-6 * np.trace(scatter) / len(scatter) * np.eye(len(scatter))
        )

    M = inverse(same) - inverse(different)

    def scores(pairs):
        e = differences(pairs)
        return -np.einsum("ij,jk,ik->i", e, M, e, optimize=True)

    return _scaled(scores(np.concatenate([same, different])), len(same), scores(test))


def logistic(same, different, test, _seed):
    """Logistic regression on |a-b| and a*b of unit vectors; the penalty by cross-validation."""

    def features(pairs):
        a, b = normalize(pairs[:, 0]), normalize(pairs[:, 1])
        return np.concatenate([np.abs(a - b), a * b], axis=1)

    model = LogisticRegressionCV(
        Cs=np.logspace(-5, -1, 5),
        cv=3,
        class_weight="balanced",
        scoring="neg_log_loss",
        l1_ratios=(0,),
        use_legacy_attributes=False,
        max_iter=200,
    )
    model = make_pipeline(StandardScaler(), model)
    model.fit(features(np.concatenate([same, different])), np.arange(4 * len(same)) < len(same))
    return np.concatenate([model.decision_function(features(p)) for p in np.array_split(test, 20)])


def adapter(same, different, test, seed):
    """Cosine similarity after EmbeddingAdapter, with each pair as a class."""
    fitted = EmbeddingAdapter(search_classes="new", random_state=seed)
    n_features = same.shape[2]
    fitted.fit(same.reshape(-1, n_features), np.repeat(np.arange(len(same)), 2))

    def scores(pairs):
        return 1 - fitted.pair_distance(pairs) ** 2 / 2

    return _scaled(scores(np.concatenate([same, different])), len(same), scores(test))


def pair_classifier(same, _different, test, seed):
    """PairClassifier, from the pairs of the same entity only."""
    return PairClassifier(random_state=seed).fit(same).decision_function(test)


METHODS = {
    "cosine, Platt scaling": cosine,
    "KISSME": kissme,
    "logistic regression": logistic,
    "EmbeddingAdapter, cosine": adapter,
    "PairClassifier": pair_classifier,
}

# The study


def _same_pairs(groups, entities, rng):
    """Return one random pair of each entity, or many of each if entities are few."""
    repeated = np.resize(entities, max(len(entities), N_TEST))
    own = {entity: np.flatnonzero(groups == entity) for entity in entities}
    return np.array([rng.choice(own[entity], 2, replace=False) for entity in repeated])


def _different_pairs(rows, groups, n_pairs, rng):
    """Return random pairs of vectors of two entities."""
    pairs = rng.choice(rows, size=(2 * n_pairs, 2))
    return pairs[groups[pairs[:, 0]] != groups[pairs[:, 1]]][:n_pairs]


def split_scores(X, groups, n_pairs, method, seed):
    """Return the miss rate at 1 % false matches, the AUC and the calibration error of a split."""
    rng = np.random.default_rng(seed)
    entities = rng.permutation(groups.max() + 1)
    n_test = min(N_TEST, len(entities) // 3)
    test_same = _same_pairs(groups, entities[:n_test], rng)
    test_different = _different_pairs(test_same.ravel(), groups, 50_000, rng)
    train = entities[n_test : n_test + N_TRAIN]
    same = np.concatenate([_same_pairs(groups, train, rng) for _ in range(3)])[:n_pairs]
    different = _different_pairs(same.ravel(), groups, 3 * len(same), rng)
    test = np.concatenate([test_same, test_different])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = METHODS[method](X[same], X[different], X[test], seed)
    y = np.repeat([1, -1], [len(test_same), len(test_different)])
    half = slice(0, 2 * len(test_same))  # as many different pairs as same ones
    error = expected_calibration_error(y[half], expit(scores[half]))
    return miss_rate_at(y, scores), roc_auc_score(y, scores), error


def run(options, rows):
    """Compute the scores that are not stored."""
    done = {(row["set"], row["method"], int(row["n_pairs"]), int(row["split"])) for row in rows}
    found = {}
    for name in options.sets:
        try:
            found[name] = SETS[name](options)
        except (ImportError, OSError) as error:
            print(f"{name} is left out: {error}")
    for seed in range(options.splits):
        for name, (X, groups) in found.items():
            for n_pairs in N_PAIRS:
                for method in METHODS:
                    if (name, method, n_pairs, seed) in done:
                        continue
                    scores = split_scores(X, groups, n_pairs, method, seed)
                    print(name, n_pairs, seed, method, *(f"{s:.3f}" for s in scores), flush=True)
                    values = (name, method, n_pairs, seed, *(f"{s:.5f}" for s in scores))
                    rows.append(dict(zip(COLUMNS, values, strict=True)))
                    if options.store:
                        _write(options.store, rows)


COLUMNS = ("set", "method", "n_pairs", "split", "miss_rate", "auc", "calibration_error")


def _write(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def table(rows):
    """Return a Markdown table: miss rates by number of pairs, AUC and calibration at 300."""
    columns = [f"{n:,} pairs" for n in N_PAIRS]
    lines = [
        f"| set | method | {' | '.join(columns)} | AUC | calibration |",
        f"| --- | --- | {' | '.join(['---:'] * (len(columns) + 2))} |",
    ]
    for name in dict.fromkeys(row["set"] for row in rows):
        for method in METHODS:
            cells = [_mean(rows, name, method, n, "miss_rate", 100, 1) for n in N_PAIRS]
            cells.append(_mean(rows, name, method, 300, "auc", 1, 3))
            cells.append(_mean(rows, name, method, 300, "calibration_error", 1, 3))
            lines.append(f"| {name} | {method} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _values(rows, name, method, n_pairs, column):
    return np.array(
        [
            float(row[column])
            for row in rows
            if (row["set"], row["method"], int(row["n_pairs"])) == (name, method, n_pairs)
        ]
    )


def _mean(rows, name, method, n_pairs, column, factor, digits):
    values = factor * _values(rows, name, method, n_pairs, column)
    text = f"{values.mean():.{digits}f}"
    if digits == 1 and len(values) > 1:
        text += f" ± {values.std(ddof=1) / np.sqrt(len(values)):.1f}"
    return text


def figure(rows, path):
    """Draw miss rates by the number of pairs, one panel per set."""
    import matplotlib.pyplot as plt

    from genmetric.plot.palette import COLORS, MARKERS

    plt.rcParams["svg.hashsalt"] = "pairs"
    names = list(dict.fromkeys(row["set"] for row in rows))
    fig, axes = plt.subplots(
        1, len(names), figsize=(2.3 * len(names) + 0.6, 3.2), layout="constrained", squeeze=False
    )
    for ax, name in zip(axes[0], names, strict=True):
        for method, color, marker in zip(METHODS, COLORS[::-1][2:], MARKERS, strict=False):
            means = [100 * _values(rows, name, method, n, "miss_rate").mean() for n in N_PAIRS]
            ax.plot(N_PAIRS, means, color=color, marker=marker, markersize=4, label=method)
        ax.set_xscale("log")
        ax.set_xticks(N_PAIRS, [f"{n:,}" for n in N_PAIRS], fontsize=8)
        ax.minorticks_off()
        ax.set_ylim(0)
        ax.set_title(name, fontsize=10)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0, 0].set_ylabel("misses at 1 % false matches (%)")
    fig.supxlabel("known pairs", fontsize=10)
    place = {"loc": "outside upper center", "ncols": 3, "fontsize": 9, "frameon": False}
    fig.legend(*axes[0, 0].get_legend_handles_labels(), **place)
    fig.savefig(path, metadata={"Date": None})


def main():
    """Run the study, print the table and draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=lambda s: s.split(","), default=list(SETS))
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--store", type=Path, help="CSV file of scores, continued if it exists")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("GENMETRIC_DATA", "data")))
    parser.add_argument("--model", default="all-MiniLM-L6-v2", help="name or directory")
    parser.add_argument("--page", action="store_true", help="table and figure of stored scores")
    options = parser.parse_args()
    rows = []
    if options.store and options.store.exists():
        with options.store.open(newline="") as file:
            rows = list(csv.DictReader(file))
    if not options.page:
        run(options, rows)
    print(table(rows))
    if options.store:
        figure(rows, options.store.with_suffix(".svg"))


if __name__ == "__main__":
    main()

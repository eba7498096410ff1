"""Compare rules that select a metric of GenerativeMetricCV, on splits that no table uses.

    python benchmarks/selection.py --splits 4 --store selection.jsonl

For every dataset of robustness.py, training fraction and split, all candidates of a large grid are
scored on left-out samples, and fitted on all training samples. Each rule then selects a candidate
and a number of neighbours, and its error on the test samples is one number of the store, which a
later run continues. Prints the mean error, the geometric mean and the average rank of the rules.
"""

import argparse
import json
import time
import warnings
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
from genmetric._search import nearest_neighbors
from genmetric._votes import N_NEIGHBORS, other_neighbors, vote_errors
from genmetric.learners._candidates import make_candidates, weights_at_best
from genmetric.learners._scoring import SelectionSamples
from genmetric.learners._specification import FitSpecification
from genmetric.learners._splits import Splitter
from robustness import FRACTIONS, SETS, load, splits
from scipy.stats import rankdata
from sklearn.preprocessing import StandardScaler

from genmetric import GenerativeMetric
from genmetric._parallel import one_blas_thread

#: Seed of the first split. The splits of robustness.py have seed 0, those of tuning.py 100 to 109.
FIRST_SEED = 5000

#: All shrinkages and interpolations of the grids below.
SHRINKAGES, INTERPOLATIONS = ("auto", 0.5, 0.05), (0.0, 0.5, 1.0)

#: Shrinkages, interpolations and whether there is a reduction to the dimensions of LDA.
GRIDS = {
    "default grid": (("auto", 0.5, 0.05), (0.0, 1.0), True),
    "with interpolation 0.5": (("auto", 0.5, 0.05), (0.0, 0.5, 1.0), True),
    "without shrinkage 0.05": (("auto", 0.5), (0.0, 1.0), True),
    "without shrinkage 0.5": (("auto", 0.05), (0.0, 1.0), True),
    "without reduction": (("auto", 0.5, 0.05), (0.0, 1.0), False),
    "interpolation 0.5, no shrinkage 0.05": (("auto", 0.5), (0.0, 0.5, 1.0), True),
    "pooled base only": (("auto",), (1.0,), False),
}

#: Grid, score over the numbers of neighbours, standard errors within which candidates are equally
#: good, and scores that select the number of neighbours.
RULES = {
    "GenerativeMetricCV": ("default grid", "at best", 1.0, "both"),
    "best candidate": ("default grid", "at best", 0.0, "both"),
    "1.5 standard errors": ("default grid", "at best", 1.5, "both"),
    "2 standard errors": ("default grid", "at best", 2.0, "both"),
    "mean over all k": ("default grid", "mean", 1.0, "both"),
    "k by leave-one-out": ("default grid", "at best", 1.0, "loo"),
    "k by left-out samples": ("default grid", "at best", 1.0, "left-out"),
    "with interpolation 0.5": ("with interpolation 0.5", "at best", 1.0, "both"),
    "without shrinkage 0.05": ("without shrinkage 0.05", "at best", 1.0, "both"),
    "without shrinkage 0.5": ("without shrinkage 0.5", "at best", 1.0, "both"),
    "without reduction": ("without reduction", "at best", 1.0, "both"),
    "previous rule and grid": ("interpolation 0.5, no shrinkage 0.05", "mean", 1.0, "loo"),
    'GenerativeMetric(base="pooled")': ("pooled base only", "at best", 0.0, "loo"),
}


class Scores:
    """Scores of all candidates on one split."""

    def __init__(self, X, y, X_test, y_test, seed):
        template = GenerativeMetric(random_state=seed)
        spec = FitSpecification.of(template.get_params(deep=False))
        data = SelectionSamples.of(template, spec, X, y, None)
        n_classes, n_features = len(data.classes), X.shape[1]
        reduced = min(n_classes - 1, n_features)
        dimensions = [None, reduced] if reduced < n_features else [None]
        bases = ("identity", "pooled")
        grid = (["trace"], SHRINKAGES, INTERPOLATIONS, dimensions)
        self.candidates = make_candidates(bases, *grid)
        self.numbers = np.array([k for k in N_NEIGHBORS if k < len(X)])
        rng = np.random.RandomState(seed)
        sizes = (2000, 20_000)  # those of GenerativeMetricCV
        splitter = Splitter(data.x, data.codes, n_classes, data.frame, None, *sizes, rng, None)
        with one_blas_thread():
            found = [[] for _ in self.candidates]
            for split in splitter.folds(5):
                for c, maps in enumerate(data.candidate_maps(split, self.candidates)):
                    found[c].append(data.vote_accuracy(split, *maps, self.numbers))
            self.left_out = np.array([np.concatenate(parts) for parts in found])
            self._final(data, splitter, X_test, np.searchsorted(data.classes, y_test))

    def _final(self, data, splitter, X_test, codes):
        """Leave-one-out and test accuracy of the candidates fitted on all training samples."""
        n_samples, n_classes = len(data.x), len(data.classes)
        split = replace(splitter, max_queries=n_samples).in_sample()[0]
        rows = np.arange(n_samples)
        test = np.arange(n_samples, n_samples + len(X_test))
        both = replace(data, x=np.concatenate([data.x, X_test]))
        split = replace(split, queries=test, references=rows)
        largest = int(self.numbers.max())
        self.loo, self.test = [], []
        for queries, references in both.candidate_maps(split, self.candidates):
            labels = data.codes[other_neighbors(references, rows, rows, largest)]
            self.loo.append(1 - vote_errors(labels, data.codes, n_classes, self.numbers))
            labels = data.codes[nearest_neighbors(references, largest, queries=queries).indices]
            self.test.append(1 - vote_errors(labels, codes, n_classes, self.numbers))

    def error(self, grid, score, n_stderr, numbers):
        """Test error of the candidate and the number of neighbours that a rule selects."""
        shrinkages, interpolations, reduction = GRIDS[grid]
        kept = [
            c
            for c, found in enumerate(self.candidates)
            if found.interpolation in interpolations
            and (found.interpolation == 0 or found.shrinkage in shrinkages)
            and (found.n_components is None or reduction)
            and (grid != "pooled base only" or found.base == "pooled")
        ]
        right = self.left_out[kept]
        n_samples, n_numbers = right.shape[1:]
        weights = np.full((len(kept), n_numbers), 1 / n_numbers)
        if score == "at best":
            weights = weights_at_best(right.mean(axis=1))
        each = np.einsum("cnk,ck->cn", right, weights)
        means = np.round(each.mean(axis=1), 12)
        best = means.argmax()
        stderr = (each[best] - each).std(axis=1, ddof=1) / np.sqrt(n_samples)
        close = np.flatnonzero(means >= means[best] - n_stderr * stderr - 1e-12)
        chosen = min(close, key=lambda c: (self.candidates[kept[c]].preference, -means[c]))
        left_out, loo = right[chosen].mean(axis=0), self.loo[kept[chosen]]
        by_number = {"both": left_out + loo, "loo": loo, "left-out": left_out}[numbers]
        return float(1 - self.test[kept[chosen]][np.round(by_number, 12).argmax()])


def standardised_split(X, y, fraction, seed):
    """Training and test samples, standardised on the training samples."""
    train, test = next(splits(X, y, fraction, 1, seed))
    scaler = StandardScaler().fit(X[train])
    return scaler.transform(X[train]), y[train], scaler.transform(X[test]), y[test]


def run(store, n_splits, sets, minutes):
    """Add the errors of all rules to the store, split by split."""
    done = {(r["set"], r["fraction"], r["split"]) for r in records(store)}
    start = time.monotonic()
    data = {name: found for name in sets if (found := load(name)) is not None}
    for split in range(n_splits):
        for name, found in data.items():
            X, y = np.asarray(found[0], float), np.asarray(found[1])
            for fraction in FRACTIONS:
                if (name, fraction, split) in done:
                    continue
                if time.monotonic() - start > 60 * minutes:
                    return
                parts = standardised_split(X, y, fraction, FIRST_SEED + split)
                scores = Scores(*parts, split)
                record = {"set": name, "fraction": fraction, "split": split}
                record["errors"] = {rule: scores.error(*RULES[rule]) for rule in RULES}
                with store.open("a") as stream:
                    stream.write(json.dumps(record) + "\n")


def records(store):
    return [json.loads(line) for line in store.read_text().splitlines()] if store.exists() else []


def print_table(store):
    """Print mean error, geometric mean and average rank of each rule, per training fraction."""
    errors = defaultdict(list)
    for record in records(store):
        errors[record["set"], record["fraction"]].append(list(record["errors"].values()))
    columns = []
    for fraction in FRACTIONS:
        means = np.array([np.mean(e, axis=0) for (_, f), e in errors.items() if f == fraction])
        ranks = np.mean([rankdata(np.round(row, 7)) for row in means], axis=0)
        # A fifth of a per cent is added because of errors of zero.
        geometric = np.exp(np.log(means + 0.002).mean(axis=0))
        columns += [100 * means.mean(axis=0), 100 * geometric, ranks]
    titles = [f"{t}, {100 * f:.0f} %" for f in FRACTIONS for t in ("mean", "geometric", "rank")]
    print("| rule | " + " | ".join(titles) + " | mean |")
    print("| --- " * (len(titles) + 2) + "|")
    overall = np.mean(columns[::3], axis=0)
    for j, rule in enumerate(RULES):
        cells = [f"{column[j]:.2f}" for column in (*columns, overall)]
        print(f"| {rule} | " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=4)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--store", type=Path, default=Path("selection.jsonl"))
    parser.add_argument("--minutes", type=float, default=60)
    arguments = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run(arguments.store, arguments.splits, arguments.sets.split(","), arguments.minutes)
    print_table(arguments.store)


if __name__ == "__main__":
    main()

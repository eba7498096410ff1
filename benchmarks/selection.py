"""Compare rules that turn the scores of the candidates of GenerativeMetricCV into one metric.

    python benchmarks/selection.py --splits 4 --store selection.jsonl

For every dataset of robustness.py, training fraction and split, all candidates are scored by
GenerativeMetricCV and fitted on all training samples. Each rule then averages or selects metrics
and selects a number of neighbours, and its error on the test samples is one number of the store,
which a later run continues. Prints the mean error and the average rank of the rules.
"""

import argparse
import json
import warnings
from pathlib import Path

import numpy as np
from robustness import FRACTIONS, SETS, load, splits
from scipy.stats import rankdata
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from genmetric import GenerativeMetric, GenerativeMetricCV
from genmetric.neighbors import select_n_neighbors

#: Standard errors of the best score at which the weight of a candidate is 1/e, which candidates
#: count, and the scores that select the number of neighbours.
RULES = {
    "GenerativeMetricCV": (0.5, "all", "both"),
    "weights of 1/4 standard error": (0.25, "all", "both"),
    "weights of 1 standard error": (1.0, "all", "both"),
    "weights of 2 standard errors": (2.0, "all", "both"),
    "without reduced dimensions": (0.5, "whole", "both"),
    "the best candidate": (1e-9, "best", "both"),
    "k by leave-one-out": (0.5, "all", "loo"),
    "k by held-out samples": (0.5, "all", "held-out"),
}


def errors(X, y, train, test, seed):
    """Return the error rate of every rule on the test samples."""
    scaler = StandardScaler().fit(X[train])
    A, B = scaler.transform(X[train]), scaler.transform(X[test])
    results = GenerativeMetricCV(random_state=seed).fit(A, y[train]).cv_results_
    covariance = np.cov(A.T, bias=True)
    metrics = []
    for params in results["params"]:
        metric = GenerativeMetric(**params).fit(A, y[train]).metric_
        metrics.append(metric / np.trace(metric @ covariance))
    k = [int(name[12:]) for name in results if name.startswith("test_score_k")]
    by_number = np.array([results[f"test_score_k{number}"] for number in k])
    found = {}
    for rule, (width, kept, scores) in RULES.items():
        means = results["mean_test_score"].copy()
        if kept == "whole":
            means[[p["n_components"] is not None for p in results["params"]]] = -np.inf
        if kept == "best":
            means[np.arange(len(means)) != means.argmax()] = -np.inf
        rate = (means.max() * len(A) + 1) / (len(A) + 2)
        error = np.sqrt(rate * (1 - rate) / len(A))
        weights = np.exp((means - means.max()) / (width * error))
        weights /= weights.sum()
        values, axes = np.linalg.eigh(np.tensordot(weights, metrics, 1))
        factor = axes * np.sqrt(np.maximum(values, 0))
        left_out, loo = by_number @ weights, -select_n_neighbors(A @ factor, y[train], k).errors
        total = {"both": left_out + loo, "loo": loo, "held-out": left_out}[scores]
        model = KNeighborsClassifier(k[int(np.round(total, 12).argmax())])
        predicted = model.fit(A @ factor, y[train]).predict(B @ factor)
        found[rule] = float(np.mean(predicted != y[test]))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", type=Path, default=Path("selection.jsonl"))
    parser.add_argument("--splits", type=int, default=4)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    store = arguments.store
    records = [json.loads(line) for line in store.open()] if store.exists() else []
    done = {(r["set"], r["fraction"], r["split"]) for r in records}
    data = {name: load(name) for name in SETS}
    with store.open("a") as stream:
        for split in range(arguments.splits):
            for name in (name for name in SETS if data[name] is not None):
                X, y = np.asarray(data[name][0], float), np.asarray(data[name][1])
                for fraction in FRACTIONS:
                    if (name, fraction, split) in done:
                        continue
                    train, test = list(splits(X, y, fraction, 20))[split]
                    record = {"set": name, "fraction": fraction, "split": split}
                    record["errors"] = errors(X, y, train, test, split)
                    records.append(record)
                    stream.write(json.dumps(record) + "\n")
                    stream.flush()
    print("| rule | " + " | ".join(f"error, {100 * f:.0f} % | rank" for f in FRACTIONS) + " |")
    columns = []
    for fraction in FRACTIONS:
        means = [
            [
                np.mean([r["errors"][rule] for r in records if (r["set"], r["fraction"]) == key])
                for rule in RULES
            ]
            for key in {(r["set"], r["fraction"]) for r in records if r["fraction"] == fraction}
        ]
        ranks = [rankdata(np.round(row, 12)) for row in means]
        columns += [100 * np.mean(means, axis=0), np.mean(ranks, axis=0)]
    for j, rule in enumerate(RULES):
        cells = (f"{column[j]:.2f}" for column in columns)
        print(f"| {rule} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()

"""
Nearest neighbours before and after a learned metric
====================================================

The cross-validated error of 5 nearest neighbours on the data sets that come with the package:
Euclidean distance on standardised features, and the same after ``GenerativeMetric``, whose metric
is found in closed form.
"""

from time import perf_counter

from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from genmetric import GenerativeMetric
from genmetric.datasets import load_dataset

DATASETS = (
    "iris",
    "wine",
    "vehicle",
    "ionosphere",
    "german",
    "segment",
    "breast_cancer",
    "letter",
)
FOLDS = StratifiedKFold(5, shuffle=True, random_state=0)


def error(*steps, X, y):
    """Cross-validated error, in per cent, of 5 nearest neighbours after the steps."""
    model = make_pipeline(StandardScaler(), *steps, KNeighborsClassifier(n_neighbors=5))
    return 100 * (1 - cross_val_score(model, X, y, cv=FOLDS).mean())


def main():
    print("Error of 5 nearest neighbours, 5-fold cross-validation\n")
    print(
        f"{'data set':<14}{'rows':>6}{'features':>10}{'classes':>9}"
        f"{'Euclidean':>12}{'learned':>10}{'fit time':>12}"
    )
    print("-" * 73)
    for name in DATASETS:
        data = load_dataset(name)
        X, y = data.data, data.target
        before = error(X=X, y=y)
        after = error(GenerativeMetric(), X=X, y=y)

        Z = StandardScaler().fit_transform(X)
        start = perf_counter()
        GenerativeMetric().fit(Z, y)
        seconds = perf_counter() - start
        print(
            f"{name:<14}{X.shape[0]:>6}{X.shape[1]:>10}{len(data.target_names):>9}"
            f"{before:>10.1f} %{after:>8.1f} %{1000 * seconds:>9.0f} ms",
            flush=True,
        )


if __name__ == "__main__":
    main()

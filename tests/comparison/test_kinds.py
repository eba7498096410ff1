"""The verdict on each kind of table that people have."""

import numpy as np
import pytest

from genmetric import compare_metrics

pd = pytest.importorskip("pandas")
from genmetric.tables import TableEncoder, split_target  # noqa: E402

METHODS = {
    "classification": ["majority", "standardized", "generative"],
    "regression": ["mean", "standardized", "regression"],
}

#: In most tables one column tells the classes apart: a plain distance is enough, with a warning.
TELLS_ALL = ("standardized", "the single column ")
NOTHING = ("", "")

#: Recommended method and first warning of the others, and their number of rows.
VERDICTS = {
    "thousands_points": NOTHING,  # the option turns the only column to noise
    "sentinels": NOTHING,
    "date_target": NOTHING,
    "prices_as_target": NOTHING,
    "coded_classes": NOTHING,
    "rare_class": NOTHING,
    "more_columns_than_rows": NOTHING,
    "call_log": ("standardized", "23 of 60 rows are copies"),
    # Two rows of 24 are of the other class: a column may separate them by chance.
    "unusual_missing_words": ("standardized", "the error rate of Euclidean distance"),
    "repeated_subjects": ("", "each value of the column 'subject' belongs to one class"),
    "sensor_log": ("standardized", "rows that follow each other in the table are alike"),
}
N_ROWS = {"sensor_log": 480, "unusual_missing_words": 24}


def compared(kind):
    """Compare a few methods on a table of the kind."""
    frame = kind.read(kind.data(N_ROWS.get(kind.name, max(kind.n_rows, 60))))
    numbers = {name: kind.options[name] for name in ("thousands",) if name in kind.options}
    numbers["na_values"] = [kind.options["na_values"]] if "na_values" in kind.options else []
    as_number = [kind.options["as_number"]] if "as_number" in kind.options else []
    X, y, target = split_target(frame, kind.target, **numbers)
    words = {"methods": METHODS[target.task], "n_splits": 3, "n_repeats": 1}
    columns = TableEncoder(as_number=as_number, **numbers)
    return compare_metrics(X, y, task=target.task, columns=columns, **words)


def test_the_verdict(table_kind):
    found = compared(table_kind)
    recommended, warning = VERDICTS.get(table_kind.name, TELLS_ALL)
    assert found.recommended == recommended
    assert bool(found.warnings) == bool(warning)
    assert found.warnings == [] or found.warnings[0].startswith(warning)
    start = "Keep Euclidean distance, standardized" if recommended else "No metric is recommended"
    assert found.advice.startswith(start)
    balanced = "balanced_error" if table_kind.name == "rare_class" else "error"
    assert found.scoring.key == ("r2" if found.task == "regression" else balanced)


def test_every_exception_is_a_kind():
    from table_kinds import KINDS

    assert {*VERDICTS, *N_ROWS} <= {kind.name for kind in KINDS}


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_difference_of_columns_is_found_by_the_metric(task):
    """Two columns share a large part; what is predicted is their difference."""
    rng = np.random.default_rng(0)
    shared, difference = rng.normal(size=(2, 150))
    frame = pd.DataFrame(rng.normal(size=(150, 4)), columns=list("abcd"))
    frame["income"] = 1000 * (10 * shared + difference)
    frame["costs"] = 1000 * (10 * shared - difference)
    gain = 500 + 200 * difference
    frame["result"] = np.where(gain > 500, "gain", "loss") if task == "classification" else gain
    learned = "generative-cv" if task == "classification" else "regression-cv"
    words = {"methods": [METHODS[task][0], "standardized", learned], "n_splits": 3, "n_repeats": 1}
    found = compare_metrics(frame, target="result", **words)
    assert (found.task, found.recommended) == (task, learned)
    assert found.p_value < 0.05
    if task == "classification":
        assert "of 100 more are right than with Euclidean distance" in found.advice
    else:
        old, new = found["standardized"].typical_error, found[learned].typical_error
        assert new < 0.7 * old
        assert f"off by less than {new:.4g}, instead of {old:.4g} with Euclid" in found.advice
        assert f"{new:.4g}" in str(found)

"""The recipes of the page "Any engine", with small batches, on local clusters of Ray and Spark.

``nox -s engines`` installs both engines; Spark needs a Java runtime.
"""

import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from genmetric import GenerativeMetric
from genmetric.datasets import load_vehicle

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "engines.md"
N_PARTS = 4

# The engines warn about their own dependencies.
pytestmark = pytest.mark.filterwarnings("default")


def recipe(heading):
    """Return the functions of the page, and the code under a heading."""
    text = PAGE.read_text("utf-8")
    shared = re.search(r"```python\n(.*?)```", text, re.DOTALL).group(1)
    return shared, re.search(rf"\n## {heading}\n.*?```py\n(.*?)```", text, re.DOTALL).group(1)


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Write files of different lengths, the first without one class, into the folder "rows"."""
    pd = pytest.importorskip("pandas")
    X, y = load_vehicle(return_X_y=True)
    order = np.argsort(y != 2, kind="stable")[::-1]  # the samples of class 2 come last
    X, y = X[order], np.array(["bus", "opel", "saab", "van"])[y[order]]
    folder = tmp_path_factory.mktemp("engines")
    (folder / "rows").mkdir()
    for number, part in enumerate(np.split(np.arange(len(X)), [100, 300, 700])):
        frame = pd.DataFrame(X[part], columns=[f"x{j}" for j in range(18)])
        frame.assign(kind=y[part]).to_parquet(folder / "rows" / f"{number}.parquet")
    before = Path.cwd()
    os.chdir(folder)
    yield X, y
    os.chdir(before)


def check(heading, rows):
    """Run a recipe; compare the metric with those of all samples, in memory and in batches."""
    names = {"__name__": "recipe"}
    shared, own = recipe(heading)
    own = own.replace("batch_size=100_000", "batch_size=250")
    exec(shared, names)
    merge, seen = names["merge_parts"], []

    def counted(parts):
        seen.extend(parts)
        return merge(seen)

    names["merge_parts"] = counted
    exec(own, names)
    assert len(seen) >= N_PARTS
    assert {type(part) for part in seen} == {bytes}
    X, y = rows
    metric, whole = names["metric"], GenerativeMetric().fit(X, y)
    parts = np.array_split(np.arange(len(X)), 3)
    batches = GenerativeMetric().fit_batches(lambda: ((X[part], y[part]) for part in parts))
    assert metric.classes_.tolist() == ["bus", "opel", "saab", "van"]
    for other in (whole, batches):
        np.testing.assert_allclose(metric.means_, other.means_, rtol=1e-9)
        np.testing.assert_allclose(metric.covariances_, other.covariances_, rtol=1e-7, atol=1e-9)
        difference = np.linalg.norm(metric.metric_ - other.metric_)
        assert difference <= 1e-9 * np.linalg.norm(other.metric_)


def test_ray(rows):
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        check("Ray", rows)
    finally:
        ray.shutdown()


def test_spark(rows, monkeypatch):
    sql = pytest.importorskip("pyspark.sql")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    builder = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    # Files are not joined: one partition each.
    spark = builder.config("spark.sql.files.openCostInBytes", "1g").getOrCreate()
    try:
        check("Spark", rows)
    finally:
        spark.stop()

"""Tables and models that the tests of the commands share."""

from typing import NamedTuple

import numpy as np
import pytest

pytest.importorskip("click")
pytest.importorskip("pyarrow")


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def genmetric(capfdbinary, monkeypatch):
    """Run the command in this process, on a wide terminal."""
    from genmetric.cli import main

    monkeypatch.setenv("COLUMNS", "500")

    def genmetric(*words):
        capfdbinary.readouterr()
        code = main([str(word) for word in words])
        out, err = capfdbinary.readouterr()
        return Outcome(code, out.decode(), err.decode())

    return genmetric


@pytest.fixture(scope="session")
def wine(tmp_path_factory):
    """Wine as a CSV file with names of rows and of classes."""
    from sklearn.datasets import load_wine

    data = load_wine()
    path = tmp_path_factory.mktemp("wine") / "wine.csv"
    lines = [",".join(["name", *data.feature_names, "cultivar"])]
    for i, (row, label) in enumerate(zip(data.data, data.target, strict=True)):
        lines.append(",".join([f"w{i}", *map(repr, row.tolist()), f"class {label}"]))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="session")
def model(wine, tmp_path_factory):
    """A model of wine, by the generative metric."""
    from genmetric.cli import main

    path = tmp_path_factory.mktemp("model") / "wine.gm"
    words = ["fit", wine, "--target", "cultivar", "--id", "name", "--method", "uniform", "-q"]
    assert main([str(word) for word in [*words, "-o", path]]) == 0
    return path


@pytest.fixture(scope="session")
def numbers(tmp_path_factory):
    """A table whose target is a number."""
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("numbers") / "numbers.csv"
    rows = [f"{a},{b},{c},{50 + 7 * a + 0.1 * b:.3f}" for a, b, c in rng.normal(size=(60, 3))]
    path.write_text("\n".join(["a,b,c,y", *rows]) + "\n")
    return path


@pytest.fixture
def two_classes(tmp_path):
    """A larger CSV file: two classes apart in one of three features, and a category."""

    def two_classes(n=2000, name="two.csv", seed=0):
        rng = np.random.default_rng(seed)
        y = rng.integers(0, 2, n)
        X = rng.normal(size=(n, 3)) * [1, 5, 5] + np.outer(y, [3, 0, 0])
        path = tmp_path / name
        rows = (
            f"{a!r},{b!r},{c!r},{'pqr'[i % 3]},{'no' if k else 'yes'}"
            for i, ((a, b, c), k) in enumerate(zip(X.tolist(), y, strict=True))
        )
        path.write_text("a,b,c,d,y\n" + "\n".join(rows) + "\n")
        return path

    return two_classes

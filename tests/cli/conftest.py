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
def genmetric(capfdbinary):
    """Run the command in this process."""
    from genmetric.cli import main

    def genmetric(*words):
        capfdbinary.readouterr()
        code = main([str(word) for word in words])
        out, err = capfdbinary.readouterr()
        return Outcome(code, out.decode(), err.decode())

    return genmetric


@pytest.fixture
def register(monkeypatch):
    """Add a method to the registry, and to the keys and texts that the commands have."""
    from genmetric._method_texts import METHOD_TEXTS, MethodText
    from genmetric.cli._choices import KeyChoice
    from genmetric.cli._compare import compare
    from genmetric.cli._fit import fit
    from genmetric.comparison import METHODS

    def register(method):
        monkeypatch.setitem(METHODS, method.key, method)
        text = MethodText(method.label, method.description, method.distance)
        monkeypatch.setitem(METHOD_TEXTS, method.key, text)
        for param in (*compare.params, *fit.params):
            if isinstance(param.type, KeyChoice) and param.name in ("method", "methods"):
                monkeypatch.setattr(param.type, "keys", (*param.type.keys, method.key))

    return register


@pytest.fixture(scope="session")
def wine(tmp_path_factory):
    """Wine as a CSV file with names of rows and of classes."""
    from sklearn.datasets import load_wine

    data = load_wine()
    path = tmp_path_factory.mktemp("wine") / "wine.csv"
    names = ["name", *data.feature_names, "cultivar"]
    lines = [",".join(names)]
    for i, (row, label) in enumerate(zip(data.data, data.target, strict=True)):
        lines.append(",".join([f"w{i}", *map(repr, row.tolist()), f"class {label}"]))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="session")
def model(wine, tmp_path_factory):
    """A model of wine, by M^UNI."""
    from genmetric.cli import main

    path = tmp_path_factory.mktemp("model") / "wine.gm"
    words = ["fit", wine, "--target", "cultivar", "--id", "name", "--method", "uniform", "-q"]
    assert main([str(word) for word in [*words, "-o", path]]) == 0
    return path


@pytest.fixture
def two_classes(tmp_path):
    """A larger CSV file: two classes apart in one of three features."""

    def two_classes(n=2000, name="two.csv", seed=0):
        rng = np.random.default_rng(seed)
        y = rng.integers(0, 2, n)
        X = rng.normal(size=(n, 3)) * [1, 5, 5]
        X[:, 0] += 3 * y
        path = tmp_path / name
        rows = (
            f"{a!r},{b!r},{c!r},{'no' if k else 'yes'}"
            for (a, b, c), k in zip(X.tolist(), y, strict=True)
        )
        path.write_text("a,b,c,y\n" + "\n".join(rows) + "\n")
        return path

    return two_classes

"""Nearest rows of a file, and the features that drove them."""

import csv
import io

import numpy as np
import pytest

import genmetric as package


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def naive_neighbors(loaded, X, Q, k, exclude=False):
    """By the definition, one pair after the other, in the units of the metric."""
    scale, metric = loaded["scale"], loaded["metric"].metric_
    found = []
    for i, q in enumerate(Q):
        pairs = []
        for j, x in enumerate(X):
            if exclude and i == j:
                continue
            d = (x - q) / scale.scale_
            pairs.append((float(np.sqrt(d @ metric @ d)), j, d * (metric @ d)))
        found.append(sorted(pairs, key=lambda pair: pair[:2])[:k])
    return found


def features(path):
    with path.open() as file:
        listed = list(csv.DictReader(file))
    names = [n for n in listed[0] if n not in ("name", "cultivar")]
    return names, np.array([[float(row[n]) for n in names] for row in listed])


def test_against_the_definition(genmetric, wine, model, tmp_path):
    names, X = features(wine)
    queries = tmp_path / "q.csv"
    lines = wine.read_text().splitlines()
    queries.write_text("\n".join([lines[0], *lines[3:9]]) + "\n")
    done = genmetric("neighbors", model, wine, queries, "-k", 4, "--contributions", "--top", 2)
    assert (done.code, done.err) == (0, "")
    found = rows_of(done.out)
    assert len(found) == 6 * 4
    expected = naive_neighbors(package.load(model), X, X[2:8], 4)
    for i in range(6):
        for rank in range(4):
            row = found[4 * i + rank]
            distance, j, parts = expected[i][rank]
            assert row["query"] == f"w{i + 2}"
            assert row["rank"] == str(rank + 1)
            assert row["neighbor"] == f"w{j}"
            assert float(row["distance"]) == pytest.approx(distance, rel=5.1e-4, abs=1e-9)
            given = np.array([float(row[f"contribution_{name}"]) for name in names])
            np.testing.assert_allclose(given, parts, atol=1e-9)
            assert given.sum() == pytest.approx(distance**2, abs=1e-9)
            if distance == 0:
                assert row["top_features"] == "equal"
            else:
                top = int(np.argmax(np.abs(parts)))
                share = 100 * parts[top] / distance**2
                assert row["top_features"].startswith(f"{names[top]} {share:.0f}%")
                assert row["top_features"].count(";") == 1


def test_a_row_is_not_its_own_neighbour(genmetric, wine, model):
    _, X = features(wine)
    found = rows_of(genmetric("neighbors", model, wine, wine, "-k", 3).out)
    expected = naive_neighbors(package.load(model), X, X, 3, exclude=True)
    assert [row["neighbor"] for row in found] == [f"w{j}" for e in expected for _, j, _ in e]
    assert all(row["query"] != row["neighbor"] for row in found)


def test_references_in_batches(genmetric, wine, model, monkeypatch):
    def found():
        rows = rows_of(genmetric("neighbors", model, wine, wine, "-k", 3).out)
        # Products of other shapes round otherwise.
        return [{**row, "distance": round(float(row["distance"]), 9)} for row in rows]

    whole = found()
    monkeypatch.setattr("genmetric.tables._blocks.BLOCK_BYTES", 4000)
    monkeypatch.setattr("genmetric.cli._neighbors.QUERY_BYTES", 20_000)
    assert found() == whole
    monkeypatch.setattr("genmetric.cli._neighbors.KEPT_BYTES", 100)
    assert found() == whole


def test_rows_without_names_are_numbered_from_one(genmetric, model, wine, tmp_path):
    path = tmp_path / "t.csv"
    lines = [line.partition(",")[2] for line in wine.read_text().splitlines()]
    path.write_text("\n".join(lines[:6]) + "\n")
    found = rows_of(genmetric("neighbors", model, path, path, "-k", 9).out)
    # With fewer rows than neighbours there are as many as there are.
    assert len(found) == 5 * 4
    assert {row["query"] for row in found} == set("12345")
    assert sorted(row["neighbor"] for row in found[:4]) == list("2345")


def test_single_row_has_no_neighbours(genmetric, model, wine, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("\n".join(wine.read_text().splitlines()[:2]) + "\n")
    done = genmetric("neighbors", model, path, path, "-o", tmp_path / "out.csv")
    assert done.code == 2
    assert "REFERENCE has no other row" in done.err
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize("method", ["energy", "lda", "standardised"])
def test_other_models_with_one_metric(genmetric, wine, tmp_path, method):
    model = tmp_path / "m.gm"
    words = ["fit", wine, "-t", "cultivar", "--id", "name", "-m", method, "-q", "-o", model]
    assert genmetric(*words).code == 0
    done = genmetric("neighbors", model, wine, wine, "-k", 1)
    assert done.code == 0
    assert done.out.count("\n") == 179


def test_queries_from_the_standard_input(genmetric, model, wine, monkeypatch):
    class Input:
        buffer = io.BytesIO(wine.read_bytes())

    monkeypatch.setattr("sys.stdin", Input)
    piped = genmetric("neighbors", model, wine, "-", "-k", 1)
    assert piped.code == 0, piped.err
    assert {row["distance"] for row in rows_of(piped.out)} == {"0"}

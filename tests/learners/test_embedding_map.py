"""The samples that the default map of embeddings is computed from."""

import numpy as np
import pytest

from genmetric.density._two_covariance import PooledMoments
from genmetric.learners._embedding_map import EmbeddingMoments, EmbeddingStream, fit_default_map

OPTIONS = {"n_components": None, "normalize": True, "n_jobs": None}


def batches(rng, n=90, n_features=5):
    y = rng.permutation(np.arange(n) % 6)
    X = rng.normal(size=(6, n_features))[y] + 0.3 * rng.normal(size=(n, n_features))
    return X, np.array(list("abcdef"))[y]


def test_a_stream_has_the_moments_of_all_samples(rng):
    X, y = batches(rng)
    stream = EmbeddingStream.start(X, y, None, np.random.RandomState(0))
    # The classes "e" and "f" are only in the last batch.
    late = np.isin(y, ["e", "f"])
    order = np.r_[np.flatnonzero(~late), np.flatnonzero(late)]
    for part in np.split(order, [20, 60]):
        before, stream = stream, stream.add(X[part], y[part])
    assert before.reservoir.n_seen == 60
    found, classes = stream.collected(), np.unique(y)
    expected = PooledMoments.of(X, np.searchsorted(classes, y), 6)
    np.testing.assert_array_equal(found.classes, classes)
    np.testing.assert_array_equal(found.moments.count, expected.count)
    np.testing.assert_allclose(found.moments.mean, expected.mean, atol=1e-12)
    np.testing.assert_array_equal(found.samples, X[order])
    np.testing.assert_array_equal(classes[found.codes], y[order])
    whole = EmbeddingMoments(classes, expected, found.samples, found.codes)
    maps = [
        fit_default_map(data, "any", rng=np.random.RandomState(0), **OPTIONS)[0]
        for data in (found, whole)
    ]
    np.testing.assert_allclose(maps[0], maps[1], atol=1e-9)


def test_one_class_has_the_identity(rng):
    X, y = batches(rng)
    stream = EmbeddingStream.start(X, y, ["a", "b", *"cdef"], np.random.RandomState(0))
    data = stream.add(X[y == "a"], y[y == "a"]).collected()
    L, selection = fit_default_map(data, "any", rng=np.random.RandomState(0), **OPTIONS)
    np.testing.assert_array_equal(L, np.eye(5))
    assert selection.scores == {}


def test_classes_that_were_not_named(rng):
    X, y = batches(rng)
    with pytest.raises(ValueError, match="Name all classes, or none of them"):
        EmbeddingStream.start(X, y, ["a", "b"], np.random.RandomState(0))

"""Selection of the samples that figures show, and the order of features in heat maps."""

import numpy as np

from genmetric.plot._metric import clustered_order
from genmetric.plot._samples import draw_samples


def test_coupled_features_are_adjacent():
    M = np.eye(6)
    for i, j in ((0, 4), (1, 5), (2, 3)):
        M[i, j] = M[j, i] = -0.9
    order = list(clustered_order(M))
    assert sorted(order) == list(range(6))
    for i, j in ((0, 4), (1, 5), (2, 3)):
        assert abs(order.index(i) - order.index(j)) == 1
    assert list(clustered_order(np.eye(2))) == [0, 1]


def test_samples_are_drawn_with_a_seed():
    assert list(draw_samples(5, 9, 0)) == [0, 1, 2, 3, 4]
    assert list(draw_samples(100, 10, 3)) == list(draw_samples(100, 10, 3))
    assert len(set(draw_samples(100, 10, 3))) == 10

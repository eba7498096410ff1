"""Figures on no screen, closed after each test."""

import matplotlib as mpl
import numpy as np
import pytest


@pytest.fixture(autouse=True)
def plt():
    """pyplot without a screen; its figures are closed afterwards."""
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    yield plt
    plt.close("all")


@pytest.fixture
def rows(rng):
    """Three classes that differ in two of five features, in units far apart."""
    y = np.repeat(["a", "b", "c"], 40)
    X = rng.normal(size=(120, 5))
    X[:, 0] += 2.0 * (y == "b")
    X[:, 1] += 2.0 * (y == "c")
    return X * np.array([1.0, 100.0, 0.01, 1.0, 5.0]), y

"""Samples for tests of inspection."""

import numpy as np
import pytest


@pytest.fixture
def samples():
    """Samples of three classes with correlated features of different scales."""
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = rng.normal(size=(90, 5)) @ rng.normal(size=(5, 5)) + y[:, None] * rng.normal(size=5)
    return X * [1.0, 3.0, 0.2, 1.0, 5.0], y

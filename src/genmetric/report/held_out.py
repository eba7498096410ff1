"""Rows kept apart from a metric, to show what it does to rows that it has not seen."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_array, check_random_state

from genmetric._quiet import quiet
from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric.plot.learned import class_codes, draw, transformer_of

#: Rows that pictures of rows are made from, at most.
MAX_ROWS = 20_000
#: Rows kept apart to show what the metric does to rows that it has not seen.
HELD_OUT = 1000
#: Features up to which the metric is fitted anew without them, unless asked.
MAX_REFIT_FEATURES = 300


class HeldOut(NamedTuple):
    """Rows apart from those that a metric was fitted on, for pictures of rows.

    Attributes
    ----------
    metric : object
        The metric, fitted.
    x, y : ndarray of shape (n_apart, n_features) and (n_apart,)
        Rows kept apart and their labels.
    numbers : ndarray of shape (n_apart,)
        Their positions in the table.
    x_fit, y_fit : ndarray of shape (n_others, n_features) and (n_others,)
        The others, which are neighbours to be found.
    unseen : bool
        Whether the metric was fitted without the rows kept apart.
    """

    metric: Any
    x: FloatArray
    y: AnyArray
    numbers: IntArray
    x_fit: FloatArray
    y_fit: AnyArray
    unseen: bool

    @property
    def description(self) -> str:
        """Which rows are shown under which metric, in a sentence."""
        text = f"{len(self.x):,} rows kept apart, "
        if self.unseen:
            return text + f"under the metric fitted on {len(self.x_fit):,} others."
        return text + "which the metric has seen in its fit: new rows would do somewhat worse."


def hold_out(metric: Any, x: FloatArray, y: AnyArray, seed: int, refit: bool) -> HeldOut:
    """Keep rows of each class apart and, with `refit`, fit the metric anew without them.

    Parameters
    ----------
    metric : object
        The fitted metric, or a pipeline with one in it.
    x : ndarray of shape (n_samples, n_features)
        The rows, of which at most :data:`MAX_ROWS` are drawn.
    y : ndarray of shape (n_samples,)
        Their labels.
    seed : int
        Draws rows.
    refit : bool
        Whether to fit a clone of the metric on the others.

    Returns
    -------
    HeldOut
        The two parts and the metric; the one given where a clone cannot be fitted on fewer rows.
    """
    rng = check_random_state(seed)
    some = draw(len(x), MAX_ROWS, seed)
    codes = class_codes(y[some], None)[0]
    counts = np.bincount(codes)
    share = min(0.3, HELD_OUT / len(some))
    apart = np.zeros(len(some), bool)
    for code, count in enumerate(counts):
        members = np.flatnonzero(codes == code)
        # Two rows of a class stay, or it would have no density.
        n_apart = min(int(np.ceil(share * count)), max(0, int(count) - 2))
        apart[rng.choice(members, n_apart, replace=False)] = True
    held, rest = some[apart], some[~apart]
    fitted = metric
    if refit:
        # Such as a metric with given weights of rows, which fits its own rows only.
        # Whatever there is to say was said when the metric itself was fitted.
        with suppress(ValueError, TypeError), quiet(Warning):
            fitted = clone(transformer_of(metric)).fit(x[rest], y[rest])
    return HeldOut(fitted, x[held], y[held], held, x[rest], y[rest], fitted is not metric)


def fill_missing(X: Any) -> tuple[FloatArray, int]:
    """Rows as floats, missing values at the mean of their feature, and how many there were."""
    x = np.array(check_array(X, dtype=np.float64, ensure_all_finite="allow-nan"))
    gaps = np.isnan(x)
    if gaps.any():
        known = np.maximum((~gaps).sum(axis=0), 1)
        mean = np.where(gaps, 0.0, x).sum(axis=0) / known
        x = np.where(gaps, mean, x)
    return x, int(gaps.sum())

"""Left-out samples, which show what a metric does to samples it was not fitted on."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.utils import check_array, check_random_state

from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric._warnings import suppress_warnings
from genmetric.inspection import metric_transformer
from genmetric.plot._samples import class_codes, draw_samples

#: Maximum number of samples that figures of samples are made from.
MAX_SAMPLES = 20_000
#: Number of samples left out.
N_HELD_OUT = 1000
#: Number of features up to which the metric is fitted again without them by default.
MAX_REFIT_FEATURES = 300


class HeldOut(NamedTuple):
    """Samples left out of the fit of a metric.

    Attributes
    ----------
    metric : object
        The fitted metric.
    x, y : ndarray of shape (n_held_out, n_features) and (n_held_out,)
        Samples left out and their labels.
    numbers : ndarray of shape (n_held_out,)
        Positions of these samples in the table.
    x_fit, y_fit : ndarray of shape (n_others, n_features) and (n_others,)
        The other samples, among which neighbours are searched.
    unseen : bool
        Whether the metric was fitted without the samples left out.
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
        """Description of the samples and the metric in a sentence."""
        if self.unseen:
            return (
                f"{len(self.x):,} left-out samples, under the same kind of metric fitted on "
                f"{len(self.x_fit):,} others."
            )
        return (
            f"{len(self.x):,} samples that the metric was fitted on: new samples would give "
            "slightly worse results."
        )


def hold_out(metric: Any, x: FloatArray, y: AnyArray, seed: int, refit: bool) -> HeldOut:
    """Leave samples of each class out and, with `refit`, fit the metric without them.

    Parameters
    ----------
    metric : object
        The fitted metric, or a pipeline that contains one.
    x : ndarray of shape (n_samples, n_features)
        Samples, of which at most :data:`MAX_SAMPLES` are drawn.
    y : ndarray of shape (n_samples,)
        Labels.
    seed : int
        Seed of the samples drawn.
    refit : bool
        Whether to fit a clone of the metric on the other samples.

    Returns
    -------
    HeldOut
        Both parts and the metric; the given metric if a clone cannot be fitted on fewer samples.
    """
    rng = check_random_state(seed)
    drawn = draw_samples(len(x), MAX_SAMPLES, seed)
    codes = class_codes(y[drawn], None)[0]
    counts = np.bincount(codes)
    share = min(0.3, N_HELD_OUT / len(drawn))
    left_out = np.zeros(len(drawn), bool)
    for code, count in enumerate(counts):
        members = np.flatnonzero(codes == code)
        # Two samples of a class are kept, or it would have no density.
        n_left_out = min(int(np.ceil(share * count)), max(0, int(count) - 2))
        left_out[rng.choice(members, n_left_out, replace=False)] = True
    held, rest = drawn[left_out], drawn[~left_out]
    fitted = metric
    if refit:
        # A metric with given sample weights cannot be fitted on other samples. Warnings were
        # emitted when the metric itself was fitted.
        with suppress(ValueError, TypeError), suppress_warnings(Warning):
            fitted = clone(metric_transformer(metric)).fit(x[rest], y[rest])
    return HeldOut(fitted, x[held], y[held], held, x[rest], y[rest], fitted is not metric)


def fill_missing(X: Any) -> tuple[FloatArray, int]:
    """Return samples with missing values replaced by feature means, and their number."""
    x = check_array(X, dtype=np.float64, ensure_all_finite="allow-nan")
    n_missing = int(np.isnan(x).sum())
    return SimpleImputer(keep_empty_features=True).fit_transform(x), n_missing

"""Selection, standardisation and class names of the samples that figures show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from genmetric._typing import AnyArray, ArrayLike, FloatArray, IntArray
from genmetric.inspection import linear_map, map_samples
from genmetric.inspection._linear_map import feature_scales
from genmetric.inspection._transformer import finite_samples


def features_and_images(estimator: Any, X: Any) -> tuple[FloatArray, FloatArray]:
    """Return samples as numeric features and in the space of the metric of an estimator.

    Parameters
    ----------
    estimator : object
        A fitted estimator; if it encodes a table, the features are the encoded columns.
    X : array-like of shape (n_samples, n_features)
        Samples, in the form the estimator was fitted on.

    Returns
    -------
    features : ndarray of shape (n_samples, n_features)
        Features that the metric applies to.
    images : ndarray of shape (n_samples, n_components)
        Samples whose Euclidean distances are those of the metric.
    """
    try:
        into = linear_map(estimator, X)
    except TypeError:
        return finite_samples(X), map_samples(estimator, X)
    features = into.prepare(X)
    return features, into.map_features(features)


def standardize(reference: FloatArray, *others: FloatArray) -> list[FloatArray]:
    """Scale samples so that each feature of the reference has mean zero and variance one.

    Parameters
    ----------
    reference : ndarray of shape (n_samples, n_features)
        Samples that set mean and scale.
    *others : ndarray of shape (n_others, n_features)
        Samples that are scaled in the same way.

    Returns
    -------
    list of ndarray
        The reference and the others, scaled.
    """
    mean, scale = reference.mean(axis=0), feature_scales(reference)
    scale[scale == 0] = 1.0
    return [(samples - mean) / scale for samples in (reference, *others)]


def draw_samples(n_samples: int, max_samples: int | None, random_state: Any) -> IntArray:
    """Return the positions of all samples, or of a random subset, in ascending order.

    Parameters
    ----------
    n_samples : int
        Number of samples.
    max_samples : int or None
        Size of the subset if there are more samples; None keeps all.
    random_state : int, RandomState instance or None
        Determines the subset.

    Returns
    -------
    ndarray of shape (n_shown,)
        Positions.
    """
    if max_samples is None or n_samples <= max_samples:
        return np.arange(n_samples)
    rng = check_random_state(random_state)
    return np.sort(rng.choice(n_samples, max_samples, replace=False)).astype(np.intp)


def class_codes(y: ArrayLike, names: Sequence[Any] | None) -> tuple[IntArray, tuple[str, ...]]:
    """Return the class number of each sample, in sorted order of the labels, and class names.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Labels.
    names : sequence or None
        Names to show, in sorted order of the labels; the labels themselves by default.

    Returns
    -------
    codes : ndarray of shape (n_samples,)
        Class numbers from 0.
    names : tuple of str
        One name per class.
    """
    labels: AnyArray
    labels, codes = np.unique(np.asarray(y), return_inverse=True)
    if names is None:
        names = [str(value) for value in labels]
    if len(names) != len(labels):
        raise ValueError(f"class_names has {len(names)} names for {len(labels)} classes.")
    return codes.astype(np.intp), tuple(str(name) for name in names)

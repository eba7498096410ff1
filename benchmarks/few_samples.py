"""Data sets with few training samples per feature, generated or part of a package."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_classification
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from genmetric.datasets import load_german, load_ionosphere, load_segment, load_vehicle


def smooth_curves(seed, amplitude=0.8, *, fixed_frequencies=True):
    """Generate 15 classes of 24 curves at 90 points.

    A class is the sum of 4 random sinusoids, multiplied by 1 ± 0.2 for each curve. Six random
    sinusoids of amplitude 0.35/j and noise of 0.01 are added to each curve.
    """
    rng = np.random.default_rng(1000 + seed)
    t = np.linspace(0, 1, 90)

    def sinusoid(frequency):
        return np.sin(2 * np.pi * frequency * t + rng.uniform(0, 2 * np.pi))

    X = []
    for _ in range(15):
        mean = amplitude * sum(rng.normal() / j * sinusoid(j) for j in range(1, 5))
        for _ in range(24):
            curve = mean * (1 + 0.2 * rng.normal())
            for j in range(1, 7):
                curve = curve + 0.35 / j * sinusoid(j if fixed_frequencies else rng.uniform(1, 6))
            X.append(curve + 0.01 * rng.normal(size=90))
    return np.array(X), np.repeat(np.arange(15), 24)


def waveform(seed, n_samples=1200, n_noise=19):
    """Generate Breiman's waveforms: 3 classes, 21 features and 19 features of noise."""
    rng = np.random.default_rng(2000 + seed)
    t = np.arange(1, 22)
    bumps = np.array([np.maximum(6 - np.abs(t - center), 0) for center in (7, 15, 11)])
    y = rng.integers(3, size=n_samples)
    u = rng.uniform(size=(n_samples, 1))
    first, second = np.array([0, 0, 1])[y], np.array([1, 2, 2])[y]
    X = u * bumps[first] + (1 - u) * bumps[second] + rng.normal(size=(n_samples, 21))
    return np.hstack([X, rng.normal(size=(n_samples, n_noise))]), y


def redundant(seed):
    """Generate 4 classes with 60 features, 10 of them informative and 20 redundant."""
    return make_classification(
        1000, 60, n_informative=10, n_redundant=20, n_classes=4, random_state=seed
    )


#: Data as a function of the seed, and the number of training samples.
FEW_SAMPLES = {
    "curves": (smooth_curves, 216),
    "curves, random frequencies": (
        lambda seed: smooth_curves(seed, 0.6, fixed_frequencies=False),
        216,
    ),
    "waveform": (waveform, 250),
    "redundant": (redundant, 300),
    "digits": (lambda _: load_digits(return_X_y=True), 300),
    "breast cancer": (lambda _: load_breast_cancer(return_X_y=True), 120),
    "wine": (lambda _: load_wine(return_X_y=True), 90),
    "ionosphere": (lambda _: load_ionosphere(return_X_y=True), 200),
    "vehicle": (lambda _: load_vehicle(return_X_y=True), 150),
    "segment": (lambda _: load_segment(return_X_y=True), 150),
    "german": (lambda _: load_german(return_X_y=True), 200),
}


def split(name, seed):
    """Return standardised training and test samples of one random split."""
    load, n_train = FEW_SAMPLES[name]
    X, y = load(seed)
    y = np.unique(y, return_inverse=True)[1]
    X, X_test, y, y_test = train_test_split(X, y, train_size=n_train, stratify=y, random_state=seed)
    scaler = StandardScaler().fit(X)
    return scaler.transform(X), y, scaler.transform(X_test), y_test


def embedding_classes(n_classes, n_features, n_samples, seed):
    """Simulate float32 embeddings of unit norm: classes in a subspace, correlated variation.

    Class means vary in 64 directions. Samples vary about them with standard deviations that fall
    along random directions, most of which the class means share.
    """
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(n_features, n_features)))[0]
    between = np.zeros(n_features)
    between[:64] = 0.6 * np.arange(1, 65) ** -0.3
    within = 1.2 * np.arange(1, n_features + 1) ** -0.5
    means = rng.normal(size=(n_classes, n_features)) * between
    y = np.repeat(np.arange(n_classes), n_samples + 5)
    X = (means[y] + rng.normal(size=(len(y), n_features)) * within) @ basis.T
    X = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)
    test = np.tile(np.arange(n_samples + 5) >= n_samples, n_classes)
    return X[~test], y[~test], X[test], y[test]

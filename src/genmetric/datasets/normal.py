"""Generated datasets: Gaussian classes of different covariances with a known Bayes error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import expm

from genmetric._typing import AnyArray, FloatArray


@dataclass(frozen=True, kw_only=True)
class NormalClasses:
    """Generator of Gaussian classes; uses the stable streams of NumPy's ``RandomState``.

    The class means differ in the first `n_signal` of the directions of a common random basis,
    where the standard deviations are about one; in the other directions they are about
    `elongation`, so these dominate the Euclidean distance. Each class has its own standard
    deviations and a basis turned a little away from the common one.

    Attributes
    ----------
    n_classes, n_per_class, n_features : int
        Number of classes, of samples per class and of features.
    n_signal : int
        Number of directions in which the means differ.
    separation : float
        Root mean square distance of the means from their centre.
    elongation : float
        Standard deviation in the other directions.
    variety : float
        Standard deviation of the logarithms of the standard deviations among classes.
    turn : float
        Size of the rotation of the basis of each class.
    seed : int
        Random seed of the parameters; the samples use ``seed + 1``.

    Examples
    --------
    >>> from genmetric.datasets import CATALOGUE
    >>> recipe = CATALOGUE["three_normal"].recipe
    >>> X, y = recipe.draw(n_per_class=10, seed=1)
    >>> X.shape
    (30, 10)
    """

    n_classes: int
    n_per_class: int
    n_features: int
    n_signal: int
    separation: float
    elongation: float
    variety: float
    turn: float
    seed: int

    def parameters(self) -> tuple[FloatArray, FloatArray]:
        """Compute the means and the Cholesky factors of the covariances.

        Returns
        -------
        means : ndarray of shape (n_classes, n_features)
            Class means.
        factors : ndarray of shape (n_classes, n_features, n_features)
            Lower triangular; the covariance of class c is ``factors[c] @ factors[c].T``.
        """
        d, q = self.n_features, self.n_signal
        rng = np.random.RandomState(self.seed)
        basis = np.linalg.qr(rng.normal(size=(d, d)))[0]
        places = rng.normal(size=(self.n_classes, q))
        places -= places.mean(axis=0)
        places *= self.separation / np.sqrt((places**2).sum(axis=1).mean())
        typical = np.r_[np.ones(q), np.full(d - q, self.elongation)]
        means, factors = [], []
        for place in places:
            spreads = typical * np.exp(self.variety * rng.normal(size=d))
            A = rng.normal(size=(d, d))
            turned = basis @ expm(self.turn * (A - A.T) / np.sqrt(2 * d)) * spreads
            means.append(basis @ np.r_[place, np.zeros(d - q)])
            factors.append(np.linalg.cholesky(turned @ turned.T))
        return np.array(means), np.array(factors)

    def draw(
        self, n_per_class: int | None = None, seed: int | None = None
    ) -> tuple[AnyArray, AnyArray]:
        """Draw samples and their classes, ordered by class.

        Parameters
        ----------
        n_per_class : int, default=None
            Number of samples per class; ``None`` uses the attribute.
        seed : int, default=None
            Random seed of the samples; ``None`` returns the dataset.

        Returns
        -------
        X : ndarray of shape (n_classes * n_per_class, n_features)
            Samples.
        y : ndarray of shape (n_classes * n_per_class,)
            Classes 0, 1, ...
        """
        n = self.n_per_class if n_per_class is None else n_per_class
        rng = np.random.RandomState(self.seed + 1 if seed is None else seed)
        means, factors = self.parameters()
        X = np.concatenate(
            [
                mean + rng.standard_normal((n, self.n_features)) @ factor.T
                for mean, factor in zip(means, factors, strict=True)
            ]
        )
        return X, np.repeat(np.arange(self.n_classes), n)

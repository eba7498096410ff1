"""The paper's formulas as plain loops with explicit densities.

Slow and obvious on purpose. They hold where densities and their products are float64 numbers.
Tests get this module from the fixture `naive`.
"""

import numpy as np


def moments(X, y, shrinkage=None):
    """Means and maximum-likelihood covariances of the classes, shrunk by a number or not."""
    means, covariances = [], []
    for c in np.unique(y):
        rows = X[y == c]
        mean = sum(rows) / len(rows)
        S = sum(np.outer(x - mean, x - mean) for x in rows) / len(rows)
        if shrinkage is not None:
            D = len(mean)
            S = (1 - shrinkage) * S + shrinkage * (np.trace(S) / D) * np.eye(D)
        means.append(mean)
        covariances.append(S)
    return np.array(means), np.array(covariances)


def density(x, mean, S):
    """Density of a Gaussian."""
    e = x - mean
    return np.exp(-0.5 * e @ np.linalg.solve(S, e)) / np.sqrt(np.linalg.det(2 * np.pi * S))


def hessian(x, mean, S):
    """Second derivatives of the density of a Gaussian (equation 17)."""
    P = np.linalg.inv(S)
    v = P @ (x - mean)
    return density(x, mean, S) * (np.outer(v, v) - P)


def weights(p):
    """What multiplies the Hessian over the density of each class in Phi, from densities."""
    w = []
    for c in range(len(p)):
        others = [q for k, q in enumerate(p) if k != c]
        w.append(p[c] * (sum(q**2 for q in others) - p[c] * sum(others)))
    return np.array(w)


def phi(x, means, covariances, priors=None):
    """Phi of equation (16) at one point; priors multiply the densities."""
    priors = np.ones(len(means)) if priors is None else priors
    classes = list(zip(means, covariances, priors, strict=True))
    p = [prior * density(x, mean, S) for mean, S, prior in classes]
    total = np.zeros((len(x), len(x)))
    for c, (mean, S, prior) in enumerate(classes):
        squares = sum(p[k] ** 2 for k in range(len(p)) if k != c)
        plain = sum(p[k] for k in range(len(p)) if k != c)
        total += prior * hessian(x, mean, S) * (squares - p[c] * plain)
    return total


def local_metric(Phi):
    """The metric of equation (8), of determinant one, for a Phi without zero eigenvalues."""
    eigenvalues, U = np.linalg.eigh(Phi / np.abs(Phi).max())
    n_positive, n_negative = sum(eigenvalues > 0), sum(eigenvalues < 0)
    m = [n_positive * e if e > 0 else -n_negative * e for e in eigenvalues]
    M = U @ np.diag(m) @ U.T
    return M / np.linalg.det(M) ** (1 / len(m))


def local_metrics(X, means, covariances, priors=None):
    """The local metric of each row."""
    return np.array([local_metric(phi(x, means, covariances, priors)) for x in X])


def uniform_metric(X, y, shrinkage=None, priors=None):
    """The uniform combination of equation (11)."""
    means, covariances = moments(X, y, shrinkage)
    return sum(local_metrics(X, means, covariances, priors)) / len(X)


def bias_integrand(x, means, covariances, metric):
    """The integrand of equation (5) for two classes of equal priors under a metric."""
    (p1, p2), (H1, H2) = zip(
        *((density(x, m, S), hessian(x, m, S)) for m, S in zip(means, covariances, strict=True)),
        strict=True,
    )
    Phi = H1 / p1 - H2 / p2
    return p1 * p2 * (p2 - p1) / (p1 + p2) ** 2 * np.trace(np.linalg.inv(metric) @ Phi)


def gradient_error(model, X, step=1e-5):
    """Largest error of a model's gradient against central differences, relative to the largest."""
    exact = model.gradient(X)
    numeric = [
        (model.log_density(X + e) - model.log_density(X - e)) / (2 * step)
        for e in step * np.eye(X.shape[1])
    ]
    return np.abs(exact - np.transpose(numeric)).max() / np.abs(exact).max()


def curvature_error(model, X, step=1e-5):
    """The same for its curvature: differences of the gradient g, plus g gᵀ."""
    exact, g = model.curvature(X), model.gradient(X)
    numeric = g[:, :, None] * g[:, None, :]
    for j, e in enumerate(step * np.eye(X.shape[1])):
        numeric[:, j] += (model.gradient(X + e) - model.gradient(X - e)) / (2 * step)
    return np.abs(exact - numeric).max() / np.abs(exact).max()


def statistics(X, codes, n_classes, weights):
    """Count, mean, scatter, third and fourth moments of the classes, row by row."""
    D = X.shape[1]
    count, mean, fourth = np.zeros(n_classes), np.zeros((n_classes, D)), np.zeros(n_classes)
    scatter, third = np.zeros((n_classes, D, D)), np.zeros((n_classes, D))
    for c in range(n_classes):
        rows = [(x, w) for x, k, w in zip(X, codes, weights, strict=True) if k == c and w > 0]
        count[c] = sum(w for _, w in rows)
        if rows:
            mean[c] = sum(w * x for x, w in rows) / count[c]
        for x, w in rows:
            e = x - mean[c]
            scatter[c] += w * np.outer(e, e)
            third[c] += w * (e @ e) * e
            fourth[c] += w * (e @ e) ** 2
    return count, mean, scatter, third, fourth

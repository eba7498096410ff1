"""Densities of single classes as estimators: one Gaussian, a mixture, or a model of the user's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import logsumexp, softmax
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from genmetric._typing import AnyArray, ArrayLike, FloatArray, IntArray
from genmetric._validation import (
    HasMethods,
    Interval,
    ParameterRules,
    cast_finite,
    check_parameters,
    check_weights,
    refuse_lazy,
    rows_by_class,
)
from genmetric.density.gaussian import (
    SHRINKAGE_RULES,
    ClassGaussians,
    Gaussians,
    covariance_terms,
    fit_class_gaussians,
    fit_weighted,
)
from genmetric.density.low_rank import LowRankGaussians
from genmetric.density.statistics import ClassStatistics, Coordinates, class_statistics


@dataclass(frozen=True)
class GaussianDensity:
    r"""A density made of Gaussians: :math:`p = \sum_k \pi_k \mathcal N_k`.

    With responsibilities :math:`r_k(x)` and :math:`v_k = P_k (x - \mu_k)`, the gradient of the
    log-density is :math:`-\sum_k r_k v_k` and the curvature :math:`\nabla\nabla p / p` is
    :math:`\sum_k r_k (v_k v_k^T - P_k)`.

    Attributes
    ----------
    gaussians : ClassGaussians
        The components.
    log_weights : ndarray of shape (n_components,)
        Logarithms of the mixing weights.
    """

    gaussians: ClassGaussians
    log_weights: FloatArray

    def log_joint(self, X: FloatArray) -> FloatArray:
        """Return the logarithm of each weighted component, shape (n_samples, n_components)."""
        return self.gaussians.log_density(X) + self.log_weights

    @np.errstate(under="ignore")
    def log_density(self, X: FloatArray) -> FloatArray:
        """Return the log-density, shape (n_samples,)."""
        return np.asarray(logsumexp(self.log_joint(X), axis=1))

    @np.errstate(under="ignore")
    def gradient(self, X: FloatArray) -> FloatArray:
        """Return the gradient of the log-density, shape (n_samples, n_features)."""
        responsibility = softmax(self.log_joint(X), axis=1)
        return np.asarray(np.einsum("nk,nkj->nj", responsibility, self.gaussians.gradient(X)))

    @np.errstate(under="ignore")
    def curvature(self, X: FloatArray) -> FloatArray:
        """Return the Hessian of the density divided by the density, one matrix per sample."""
        return self.gaussians.weighted_curvature(X, softmax(self.log_joint(X), axis=1))


class GaussianDensityMixin:
    """Density methods of an estimator that keeps a `_density` in its `_coordinates`."""

    _density: GaussianDensity
    _coordinates: Coordinates

    def _rows(self, X: ArrayLike) -> FloatArray:
        """Validate samples, and return them in the coordinates of the density."""
        check_is_fitted(self)
        refuse_lazy(X)
        return self._coordinates.apply(validate_data(self, X, dtype=np.float64, reset=False))

    def log_density(self, X: ArrayLike) -> FloatArray:
        """Compute the log-density at each sample.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            log p(x).
        """
        x = self._rows(X)
        log_volume = x.shape[1] * float(np.log(self._coordinates.scale))
        return np.asarray(self._density.log_density(x) - log_volume)

    def gradient(self, X: ArrayLike) -> FloatArray:
        """Compute the gradient of the log-density at each sample.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            The gradient of log p.
        """
        x = self._rows(X)  # first: it raises NotFittedError
        with np.errstate(all="ignore"):
            inside = self._density.gradient(x) / self._coordinates.scale
        return cast_finite(inside, np.float64, "The gradients of the density")

    def curvature(self, X: ArrayLike) -> FloatArray:
        """Compute the Hessian of the density divided by the density, at each sample.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_features, n_features)
            The Hessian of p divided by p, one matrix per sample.
        """
        x = self._rows(X)
        with np.errstate(all="ignore"):
            inside = self._density.curvature(x) / self._coordinates.scale / self._coordinates.scale
        return cast_finite(inside, np.float64, "The curvatures of the density")


class GaussianModel(GaussianDensityMixin, BaseEstimator):
    r"""One Gaussian as the density of a class.

    For :math:`p = \mathcal N(\mu, \Sigma)`, :math:`P = \Sigma^{-1}` and :math:`v = P(x - \mu)`, the
    gradient of the log-density is :math:`-v` and the curvature :math:`\nabla\nabla p / p` is
    :math:`v v^T - P`.

    Parameters
    ----------
    shrinkage : None, "auto" or float, default="auto"
        ``None`` uses maximum likelihood, ``"auto"`` uses Ledoit-Wolf shrinkage, and a number s in
        [0, 1] gives (1-s)·S + s·(trace S/D)·I: larger values regularise more. Eigenvalues below
        1e-8 of the mean variance are raised to that level for every shrinkage.
    covariance_estimator : estimator, default=None
        Estimator with ``fit`` and ``covariance_`` from :mod:`sklearn.covariance`, cloned and fitted
        on the samples. It requires ``shrinkage="auto"``, which it replaces.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        The mean.
    covariance_ : ndarray of shape (n_features, n_features)
        The covariance.
    n_features_in_ : int
        Number of features seen during fit.

    See Also
    --------
    GaussianMixtureModel : Several Gaussians as the density of a class.
    GenerativeMetric : Uses one model per class.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric import GaussianModel
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> model = GaussianModel().fit(X)
    >>> model.curvature(X).shape
    (200, 3, 3)
    """

    _parameter_rules: ClassVar[ParameterRules] = {
        "shrinkage": SHRINKAGE_RULES,
        "covariance_estimator": [None, HasMethods(("fit",))],
    }

    def __init__(self, *, shrinkage: Any = "auto", covariance_estimator: Any = None) -> None:
        self.shrinkage = shrinkage
        self.covariance_estimator = covariance_estimator

    def fit(
        self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> GaussianModel:
        """Estimate the mean and the covariance.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples of one class.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            Frequencies of the samples.

        Returns
        -------
        self : GaussianModel
            The fitted model.
        """
        check_parameters(self)
        refuse_lazy(X)
        x = validate_data(self, X, dtype=np.float64)
        weight = None if sample_weight is None else check_weights(sample_weight, len(x))
        coordinates, _, gaussians = fit_class_gaussians(
            *(x, np.zeros(len(x), np.intp), np.zeros(1), weight),
            shrinkage=self.shrinkage,
            covariance_estimator=self.covariance_estimator,
        )
        assert isinstance(gaussians, ClassGaussians)
        self._coordinates, self._density = coordinates, GaussianDensity(gaussians, np.zeros(1))
        self.mean_ = coordinates.restore(gaussians.means[0])
        self.covariance_ = coordinates.restore_covariances(gaussians.covariances[0])
        return self


def _seed_components(
    X: FloatArray, weights: FloatArray, n_components: int, rng: np.random.RandomState
) -> IntArray:
    """Assign samples to components by k-means, with initial centres as in k-means++.

    The first centre is drawn with probability proportional to the weight, each further one with
    weight times squared distance to the nearest centre, the best of a few draws. Draws use the
    cumulative sum, so repeating a sample equals a weight of two for every draw.
    """
    square, chance = np.full(len(X), np.inf), weights
    assigned = np.zeros(len(X), np.intp)
    centers = np.empty((n_components, X.shape[1]))
    n_draws = 1
    for k in range(n_components):
        mass = np.cumsum(chance)
        rows = np.searchsorted(mass, rng.uniform(size=n_draws) * mass[-1], side="right")
        drawn = X[np.minimum(rows, len(X) - 1)]
        e = X[:, None] - drawn
        left = np.minimum(square[:, None], np.einsum("ijk,ijk->ij", e, e))
        best = int((weights @ left).argmin())
        centers[k] = drawn[best]
        assigned[left[:, best] < square] = k
        square = left[:, best]
        chance = weights * square
        n_draws = 2 + int(np.log(n_components))
        if not chance.any():  # every sample coincides with a centre
            centers = centers[: k + 1]
            break
    for _ in range(20):
        for k in np.unique(assigned):
            own = assigned == k
            centers[k] = weights[own] @ X[own] / weights[own].sum()
        half = 0.5 * np.einsum("kj,kj->k", centers, centers) - X @ centers.T
        last, assigned = assigned, half.argmin(axis=1)
        if np.array_equal(last, assigned):
            break
    return assigned


def _maximize(
    X: FloatArray, shares: FloatArray, prior: FloatArray, prior_rows: float, reg_covar: float
) -> GaussianDensity:
    r"""Compute mixing weights, means and covariances from the responsibilities (M step).

    The covariance of a component is pooled with that of all components, which counts as
    :math:`\nu` additional samples, and the pooled covariance in the same way with a prior,

    .. math:: \Sigma_k = \frac{n_k S_k + \nu W}{n_k + \nu} + \epsilon I, \qquad
              W = \frac{\sum_k n_k S_k + \nu \Lambda}{\sum_k n_k + \nu},

    because a component with a single sample would have infinite likelihood otherwise. `shares` are
    the weights of the samples in each component; components without samples are dropped.
    """
    total = shares.sum(axis=0)
    shares = shares[:, total > 1e-9 * total.sum()]
    count = shares.sum(axis=0)
    means = shares.T @ X / count[:, None]
    scatter = np.empty((len(count), X.shape[1], X.shape[1]))
    for k, share in enumerate(shares.T):
        e = X - means[k]
        scatter[k] = (e * share[:, None]).T @ e
    within = (scatter.sum(axis=0) + prior_rows * prior) / (count.sum() + prior_rows)
    covariances = (scatter + prior_rows * within) / (count + prior_rows)[:, None, None]
    covariances += reg_covar * np.eye(X.shape[1])
    gaussians = ClassGaussians.from_moments(means, covariances, floor=reg_covar)
    return GaussianDensity(gaussians, np.log(count / count.sum()))


class GaussianMixtureModel(GaussianDensityMixin, BaseEstimator):
    r"""Several Gaussians as the density of a class.

    For :math:`p = \sum_k \pi_k \mathcal N_k` with responsibilities :math:`r_k(x)`, the gradient of
    the log-density is :math:`-\sum_k r_k v_k` and the curvature :math:`\nabla\nabla p / p` is
    :math:`\sum_k r_k (v_k v_k^T - P_k)`, each :math:`v_k = P_k (x - \mu_k)`.

    Parameters
    ----------
    n_components : int or "bic", default=2
        Number of Gaussians, at most the number of distinct samples. More components describe
        curved or multimodal classes and need more samples. ``"bic"`` fits 1, 2, ...
        `max_components` and selects the number with the smallest Bayesian information criterion.
    max_components : int, default=8
        Largest number of components that ``"bic"`` tries. Larger values take longer.
    pooling : float, default=None
        Number of samples of the pooled covariance that are added to those of each component;
        ``None`` is D + 2. Larger values make the components more alike and keep components with few
        samples from collapsing; zero is maximum likelihood. The pooled covariance itself gets the
        same number of samples of a prior: the shrunk covariance of the class divided by K^(2/D),
        the size that K equal parts of the class have.
    reg_covar : float, default=1e-6
        Number added to the diagonal of the covariances, as a fraction of the mean variance of the
        features. Larger values make the components rounder.
    n_init : int, default=1
        Number of starts of the EM algorithm; the result with the largest likelihood is kept. More
        starts take longer and depend less on the random state.
    max_iter : int, default=200
        Maximum number of EM iterations.
    tol : float, default=1e-4
        The EM algorithm stops when the mean log-likelihood increases by less than this number.
        Smaller values take more iterations.
    random_state : int, RandomState instance or None, default=None
        Seed of the starts.

    Attributes
    ----------
    mixing_weights_ : ndarray of shape (n_components,)
        Mixing weights of the components; their sum is one.
    means_ : ndarray of shape (n_components, n_features)
        Means of the components.
    covariances_ : ndarray of shape (n_components, n_features, n_features)
        Covariances of the components.
    n_components_ : int
        Number of components.
    bic_ : ndarray of shape (n_tried,)
        Bayesian information criterion of 1, 2, ... components; only for ``n_components="bic"``.
    n_features_in_ : int
        Number of features seen during fit.

    See Also
    --------
    GaussianModel : One Gaussian as the density of a class.
    sklearn.mixture.GaussianMixture : Mixtures for clustering, without weights of samples.

    References
    ----------
    C. Fraley and A. E. Raftery, Bayesian regularization for normal mixture estimation and
    model-based clustering, Journal of Classification 24 (2007): the prior.

    Examples
    --------
    >>> from genmetric import GaussianMixtureModel, GenerativeMetric
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GaussianMixtureModel(n_components=2, random_state=0)
    >>> GenerativeMetric(class_model=model).fit(X, y).metric_.shape
    (4, 4)
    """

    _parameter_rules: ClassVar[ParameterRules] = {
        "n_components": ["bic", Interval(int, 1)],
        "max_components": [Interval(int, 1)],
        "pooling": [None, Interval(float, 0)],
        "reg_covar": [Interval(float, 0)],
        "n_init": [Interval(int, 1)],
        "tol": [Interval(float, 0)],
    }

    def __init__(
        self,
        n_components: Any = 2,
        *,
        max_components: int = 8,
        pooling: float | None = None,
        reg_covar: float = 1e-6,
        n_init: int = 1,
        max_iter: int = 200,
        tol: float = 1e-4,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.max_components = max_components
        self.pooling = pooling
        self.reg_covar = reg_covar
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def fit(
        self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> GaussianMixtureModel:
        """Fit the mixture by EM.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples of one class.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            Frequencies of the samples.

        Returns
        -------
        self : GaussianMixtureModel
            The fitted model.
        """
        check_parameters(self)
        refuse_lazy(X)
        x = validate_data(self, X, dtype=np.float64)
        weight = np.ones(len(x))
        if sample_weight is not None:
            weight = check_weights(sample_weight, len(x))
            x, weight = x[weight > 0], weight[weight > 0]
        coordinates = Coordinates.of(x)
        inside, rng = coordinates.apply(x), check_random_state(self.random_state)
        n_rows, n_features, n_distinct = weight.sum(), x.shape[1], len(np.unique(inside, axis=0))
        by_bic = self.n_components == "bic"
        tried = range(1, self.max_components + 1) if by_bic else [self.n_components]
        densities, bic = [], []
        for n_components in np.unique(np.minimum(tried, n_distinct)).tolist():
            starts = [
                self._fit_start(inside, weight, n_components, rng) for _ in range(self.n_init)
            ]
            density, log_likelihood = max(starts, key=lambda start: start[1])
            n_free = len(density.log_weights) * (1 + n_features * (n_features + 3) / 2) - 1
            densities.append(density)
            bic.append(n_free * np.log(max(n_rows, 2.0)) - 2 * log_likelihood)
        density = densities[int(np.argmin(bic))]
        self.__dict__.pop("bic_", None)
        if by_bic:
            # The likelihood of samples in input space, not of those in these coordinates.
            self.bic_ = np.array(bic) + 2 * n_rows * n_features * np.log(coordinates.scale)
        self._coordinates, self._density = coordinates, density
        self.mixing_weights_ = np.exp(density.log_weights)
        self.n_components_ = len(self.mixing_weights_)
        self.means_ = coordinates.restore(density.gaussians.means)
        self.covariances_ = coordinates.restore_covariances(density.gaussians.covariances)
        return self

    @np.errstate(under="ignore")
    def _fit_start(
        self, X: FloatArray, weights: FloatArray, n_components: int, rng: np.random.RandomState
    ) -> tuple[GaussianDensity, float]:
        """Run EM from one start; return the mixture and the log-likelihood of the samples.

        `X` is in coordinates in which the mean variance of a feature is about one. The prior is the
        Ledoit-Wolf covariance of all samples divided by K^(2/D), the size of a part if their volume
        is split into K equal parts.
        """
        n_features = X.shape[1]
        whole = class_statistics(X, np.zeros(len(X), np.intp), 1, sample_weight=weights)
        covariance = whole.pooled_covariance
        own, isotropic = covariance_terms(whole.moments, covariance, "auto")
        prior = own * covariance + isotropic * np.eye(n_features)
        prior /= n_components ** (2 / n_features)
        prior_rows = n_features + 2.0 if self.pooling is None else self.pooling
        assigned = _seed_components(X, weights, n_components, rng)
        shares = weights[:, None] * (assigned[:, None] == np.arange(n_components))
        last = -np.inf
        for _ in range(self.max_iter):
            density = _maximize(X, shares, prior, prior_rows, self.reg_covar)
            joint = density.log_joint(X)
            evidence = logsumexp(joint, axis=1, keepdims=True)
            log_likelihood = float(weights @ evidence[:, 0])
            if log_likelihood - last <= self.tol * weights.sum():
                break
            last = log_likelihood
            shares = weights[:, None] * np.exp(joint - evidence)
        return density, log_likelihood


# Models of every class


@dataclass(frozen=True)
class SeparateModels:
    """One fitted class model per class, with methods `log_density`, `gradient` and `curvature`.

    Attributes
    ----------
    models : sequence
        In class order.
    """

    models: Sequence[Any]

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.models)

    def log_density(self, X: FloatArray) -> FloatArray:
        """Return the log-density of each class at each sample, shape (n_samples, n_classes)."""
        return np.column_stack([model.log_density(X) for model in self.models])

    def weighted_curvature(self, X: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the sum over classes of w_c G_c, shape (n_samples, n_features, n_features)."""
        total = np.zeros((*X.shape, X.shape[1]))
        for model, weight in zip(self.models, weights.T, strict=True):
            rows = np.flatnonzero(weight)
            if len(rows):
                total[rows] += weight[rows, None, None] * model.curvature(X[rows])
        return total

    def precision_size(self, weights: FloatArray) -> FloatArray:
        """Return zeros, shape (n_samples,): general models have no precision matrices."""
        return np.zeros(len(weights))


def gaussian_options(shrinkage: Any, class_model: Any) -> dict[str, Any]:
    """Return how the class Gaussians are fitted: as a GaussianModel says, if one is given."""
    if isinstance(class_model, GaussianModel):
        check_parameters(class_model)
        return class_model.get_params(deep=False)  # type: ignore[no-any-return]
    return {"shrinkage": "auto" if class_model else shrinkage, "covariance_estimator": None}


def fit_models(
    x: AnyArray,
    codes: IntArray,
    classes: AnyArray,
    weight: FloatArray | None = None,
    *,
    class_model: Any,
    shrinkage: Any,
    rng: np.random.RandomState,
    allow_low_rank: bool = False,
    **options: Any,
) -> tuple[Coordinates, ClassStatistics, Gaussians, Gaussians | SeparateModels]:
    """Fit the class models of samples in memory.

    Returns the coordinates of the models, the class statistics there, one Gaussian per class, and
    the class models: these Gaussians, or clones of a `class_model` of another kind, fitted on the
    samples of each class. A class with a single distinct sample keeps its Gaussian. `rng` draws the
    seeds of models whose `random_state` is None; `options` are those of `fit_class_gaussians`.
    """
    by_gaussians = isinstance(class_model, GaussianModel | None)
    coordinates, stats, gaussians = fit_class_gaussians(
        *(x, codes, classes, weight),
        allow_low_rank=allow_low_rank and by_gaussians,
        **options | gaussian_options(shrinkage, class_model),
    )
    if by_gaussians or isinstance(gaussians, LowRankGaussians):
        return coordinates, stats, gaussians, gaussians
    methods = ("fit", "log_density", "gradient", "curvature")
    missing = [name for name in methods if not callable(getattr(class_model, name, None))]
    if missing:
        raise TypeError(
            f"class_model={class_model!r} has no method {', '.join(missing)}. A class model needs "
            "fit, log_density, gradient and curvature, like genmetric.GaussianMixtureModel."
        )
    params = class_model.get_params() if hasattr(class_model, "get_params") else {}
    fitted: list[Any] = []
    for c, rows in enumerate(rows_by_class(codes, len(classes))):
        z = coordinates.apply(x[rows])
        if (z == z[0]).all():
            only = ClassGaussians(*(values[[c]] for values in vars(gaussians).values()))
            fitted.append(GaussianDensity(only, np.zeros(1)))
            continue
        try:
            own = clone(class_model, safe=False)  # a plain object is copied
            if params.get("random_state", 0) is None:
                own.set_params(random_state=rng.randint(2**31 - 1))
            fitted.append(fit_weighted(own, z, None if weight is None else weight[rows]))
        except Exception as error:
            error.add_note(f"while fitting class_model={class_model!r} on class {classes[c]!r}")
            raise
    return coordinates, stats, gaussians, SeparateModels(fitted)


@dataclass(frozen=True)
class JointDensity(GaussianDensity):
    r"""A Gaussian mixture over (x, y): log-density of x and regression function E[y | x].

    With responsibilities :math:`r_k(x)`, conditional means
    :math:`m_k(x) = \mu_{y,k} + \beta_k^T (x - \mu_{x,k})` and
    :math:`\beta_k = \Sigma_{xx,k}^{-1} \Sigma_{xy,k}`, the regression function is
    :math:`f(x) = \sum_k r_k m_k`. With one component it is linear.

    Attributes
    ----------
    gaussians : ClassGaussians
        Gaussians of x, one per component.
    log_weights : ndarray of shape (n_components,)
        Logarithms of the mixing weights.
    slopes : ndarray of shape (n_components, n_features)
        Regression coefficients :math:`\beta_k`.
    targets : ndarray of shape (n_components,)
        Means :math:`\mu_{y,k}` of y.
    """

    slopes: FloatArray
    targets: FloatArray

    @classmethod
    def from_moments(
        cls, means: FloatArray, covariances: FloatArray, weights: FloatArray | None = None
    ) -> JointDensity:
        """Build the density from moments of (x, y), with y as the last coordinate.

        Parameters
        ----------
        means : ndarray of shape (n_components, n_features + 1)
            Means of the components.
        covariances : ndarray of shape (n_components, n_features + 1, n_features + 1)
            Positive definite covariances of the components.
        weights : ndarray of shape (n_components,), default=None
            Mixing weights; ``None`` is one component.

        Returns
        -------
        JointDensity
            The density.
        """
        marginal = ClassGaussians.from_moments(means[:, :-1], covariances[:, :-1, :-1])
        slopes = np.einsum("kij,kj->ki", marginal.precisions, covariances[:, :-1, -1])
        log_weights = np.zeros(1) if weights is None else np.log(weights)
        return cls(marginal, log_weights, slopes, means[:, -1])

    def gradients(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        r"""Compute the gradients of the log-density and of the regression function.

        .. math:: g = \sum_k r_k g_k, \qquad
                  b = \sum_k r_k \beta_k + \sum_k r_k (g_k - g)\, m_k

        with :math:`g_k = -\Sigma_{xx,k}^{-1}(x - \mu_{x,k})`, because
        :math:`\nabla r_k = r_k (g_k - g)`.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        g : ndarray of shape (n_samples, n_features)
            Gradient of log p(x).
        b : ndarray of shape (n_samples, n_features)
            Gradient of E[y | x].
        """
        r, g_k = softmax(self.log_joint(X), axis=1), self.gaussians.gradient(X)
        g = np.einsum("nk,nkj->nj", r, g_k)
        difference = X[:, None, :] - self.gaussians.means
        conditional = self.targets + np.einsum("nkj,kj->nk", difference, self.slopes)
        # Around the regression function: a constant in y must not leave rounding errors.
        conditional -= np.einsum("nk,nk->n", r, conditional)[:, None]
        b = r @ self.slopes + np.einsum("nk,nkj->nj", r * conditional, g_k - g[:, None, :])
        return g, b

"""EnergyClassifier: predicts the class of lowest energy, in any metric."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin

from genmetric._typing import AnyArray, ArrayLike, FloatArray
from genmetric._validation import (
    N_JOBS,
    HasMethods,
    Interval,
    ParameterRules,
    check_parameters,
    labelled_rows,
    query_rows,
)
from genmetric.neighbors.energy_model import SECOND_MARGIN, EnergyModel, energies, least_energies
from genmetric.neighbors.metric_space import fit_metric, metric_space


class EnergyClassifier(ClassifierMixin, BaseEstimator):
    r"""Classifier that predicts the class of lowest energy, in any metric.

    With all distances d squared, the energy of a sample x in class c is by default

    .. math:: E(x, c) = \sum_{j \to x} d(x,j) - \sum_{l \to x} d(x,l) ,

    where :math:`j \to x` are the k training samples of class c nearest to x and :math:`l \to x` the
    k nearest samples of all other classes. The other forms are the contribution of x to the loss of
    LMNN if it had class c. With margins m and :math:`m_2`, and the weight :math:`\mu` of the terms
    that penalise samples of other classes (the push terms),

    .. math:: E(x, c) = (1-\mu) \sum_{j \to x} d(x,j)
              + \mu \Big[\sum_{j \to x} \sum_{l \notin c} \big(m_2 + d(x,j) - d(x,l)\big)_+
              + \sum_{i \notin c} \sum_{j \to i} \big(m + d(i,j) - d(i,x)\big)_+\Big] ,

    where :math:`j \to i` are the k samples of its own class nearest to the training sample i. The
    first term is the distance to the class. The second is large if samples of other classes are
    nearer to x than these. The third is large if x is nearer to samples of other classes than their
    own neighbours are.

    Parameters
    ----------
    metric : transformer, default=None
        Maps samples to a space where distances are Euclidean: any scikit-learn transformer, such as
        :class:`~genmetric.GenerativeMetric`, cloned and fitted in `fit`. ``None`` uses Euclidean
        distance. Wrap a fitted transformer in :class:`sklearn.frozen.FrozenEstimator` to use it
        without refitting.
    n_neighbors : int, default=3
        Number k of target neighbours, at most the number of training samples. Larger values smooth
        the decision. A class with fewer samples uses those it has, each counted k times over their
        number; the same holds for a training sample with fewer than k others in its class. The only
        sample of a class has no targets and adds nothing to the third term.
    margin : "auto" or float, default="auto"
        Margin m, a squared distance in the space of the metric. Larger values include more samples
        in the push terms and take longer. ``"auto"`` is `margin_scale` times :math:`\gamma_0`, the
        absolute median over the training samples of the squared distance to the nearest sample of
        another class minus that to the nearest sample of the same class.
    margin_scale : float, default=0.1
        Factor of the automatic margin; ignored if `margin` is a number. Larger values include more
        samples in the push terms and take longer. Tune it: the best values were between 0.3 and 0.7
        on large datasets with many classes, and 0.1 on small ones.
    push : float, default=0.5
        Weight :math:`\mu` of the two push terms, in [0, 1]. Smaller values rely more on the
        distances to the class, larger values more on the samples of other classes within the
        margin.
    energy : {"difference", "one-sided", "three-term", "two-term"}, default="difference"
        Form of the energy. ``"difference"`` is the sum of the squared distances to the k nearest
        samples of the class minus the sum to the k nearest samples of all others; it does not use
        `margin`, `margin_scale` and `push`. On 14 datasets its error was on average 0.94 times that
        of 3 votes, and at most 1.05 times. ``"one-sided"`` is the formula with :math:`m_2 = 0`, as
        in the code released with Weinberger and Saul (2009): the best form on large datasets with
        many classes, and worse than votes on some datasets with two classes. ``"three-term"`` is
        the published formula, :math:`m_2 = m`. ``"two-term"`` leaves the second term out.
    n_jobs : int, default=None
        Number of threads; ``None`` is one, -1 uses all cores. The result is the same, bit for bit,
        for every number.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    metric_estimator_ : transformer or None
        The fitted transformer.
    metric_ : ndarray of shape (n_features, n_features)
        The matrix M of the squared distance (x-x')ᵀM(x-x'). Defined only if `metric` is None, which
        is the identity, or has the method ``get_mahalanobis_matrix``;
        :mod:`genmetric.inspection` finds the linear map of other transformers.
    margin_ : float
        The margin m. Defined only for energies with a margin.
    n_samples_fit_ : int
        Number of training samples.
    n_features_in_ : int
        Number of features seen during fit.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of features seen during fit. Defined only when X has feature names that are all
        strings.

    See Also
    --------
    LocalMetricClassifier : Votes of neighbours in the local metric of each query.
    sklearn.neighbors.KNeighborsClassifier : Votes of neighbours in one metric.

    Notes
    -----
    `predict` computes an energy only if a lower bound of it does not exclude the class;
    `decision_function` and `predict_proba` need every energy and take longer. The energy-based
    classification is described in appendix C of the paper.

    References
    ----------
    K. Q. Weinberger and L. K. Saul, Distance metric learning for large margin nearest neighbor
    classification, Journal of Machine Learning Research 10 (2009).

    Y. Shi, Y.-K. Noh, F. Sha and D. D. Lee, Learning Discriminative Metrics via Generative Models
    and Kernel Learning, arXiv:1109.3940v1 (2011).

    Examples
    --------
    >>> from genmetric import GenerativeMetric
    >>> from genmetric.neighbors import EnergyClassifier
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import cross_val_score
    >>> X, y = load_wine(return_X_y=True)
    >>> plain = cross_val_score(EnergyClassifier(), X, y).mean()
    >>> learned = cross_val_score(EnergyClassifier(GenerativeMetric(shrinkage=None)), X, y).mean()
    >>> bool(learned > plain + 0.2)
    True
    """

    _parameter_rules: ClassVar[ParameterRules] = {
        "metric": [None, HasMethods(("fit", "transform"))],
        "n_neighbors": [Interval(int, 1)],
        "margin": ["auto", Interval(float, 0)],
        "margin_scale": [Interval(float, 0)],
        "push": [Interval(float, 0, 1)],
        "energy": ["difference", *SECOND_MARGIN],
        "n_jobs": N_JOBS,
    }

    def __init__(
        self,
        metric: Any = None,
        *,
        n_neighbors: int = 3,
        margin: Any = "auto",
        margin_scale: float = 0.1,
        push: float = 0.5,
        energy: Any = "difference",
        n_jobs: int | None = None,
    ) -> None:
        self.metric = metric
        self.n_neighbors = n_neighbors
        self.margin = margin
        self.margin_scale = margin_scale
        self.push = push
        self.energy = energy
        self.n_jobs = n_jobs

    def fit(self, X: ArrayLike, y: ArrayLike) -> EnergyClassifier:
        """Fit the metric, then find the target neighbours and the margin.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples.
        y : array-like of shape (n_samples,)
            Class labels.

        Returns
        -------
        self : EnergyClassifier
            The fitted classifier.
        """
        check_parameters(self)
        x, labels, self.classes_, codes = labelled_rows(self, X, y, ensure_min_samples=2)
        if self.n_neighbors > len(x):
            raise ValueError(
                f"n_neighbors={self.n_neighbors} is more than the {len(x)} training samples. Use "
                "fewer neighbours."
            )
        self.metric_estimator_ = fit_metric(self.metric, X, x, labels)
        self.n_samples_fit_ = len(x)
        z = metric_space(self.metric_estimator_, X, x)
        model = EnergyModel.of(z, codes, int(self.n_neighbors), self.energy, self.n_jobs)
        automatic = isinstance(self.margin, str)
        margin = float(self.margin_scale * model.margin_unit if automatic else self.margin)
        self._model = replace(model, margin=margin, push=float(self.push))
        for name in ("margin_", "metric_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        if self.energy != "difference":
            self.margin_ = margin
        if self.metric_estimator_ is None:
            self.metric_ = np.eye(x.shape[1])
        elif hasattr(self.metric_estimator_, "get_mahalanobis_matrix"):
            self.metric_ = np.asarray(self.metric_estimator_.get_mahalanobis_matrix())
        return self

    def _space(self, X: Any) -> AnyArray:
        """Validate queries and map them to the space of the metric."""
        x = query_rows(self, X)
        return metric_space(self.metric_estimator_, X, x)

    def _energies(self, X: Any) -> FloatArray:
        """Return the energy of each sample in each class."""
        z = self._space(X)
        return energies(self._model, z, n_jobs=self.n_jobs)

    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Return minus the energy of each sample in each class.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_queries, n_classes) or (n_queries,)
            Larger values are more likely classes, in squared units of the space of the metric. With
            two classes one number per sample, as in scikit-learn: the energy in ``classes_[0]``
            minus the energy in ``classes_[1]``, positive if the second class is predicted.
        """
        found = self._energies(X)
        return np.asarray(found[:, 0] - found[:, 1] if found.shape[1] == 2 else -found)

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        r"""Return the softmax of minus the energies: :math:`e^{-E(x,c)} / \sum_{c'} e^{-E(x,c')}`.

        The order of the classes is that of the energies. The values are not calibrated: they
        depend on the unit of the metric, and approach 0 and 1 if it is small. Use
        :class:`sklearn.calibration.CalibratedClassifierCV` for calibrated probabilities.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_queries, n_classes)
            Rows sum to one; columns are in the order of `classes_`.
        """
        with np.errstate(under="ignore"):
            return np.asarray(softmax(-self._energies(X), axis=1))

    def predict(self, X: ArrayLike) -> AnyArray:
        """Predict the class with the lowest energy; ties go to the first class in `classes_`.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_queries,)
            Class labels.
        """
        z = self._space(X)
        return np.asarray(self.classes_[least_energies(self._model, z, n_jobs=self.n_jobs)])

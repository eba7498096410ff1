"""EnergyClassifier: predicts the class of lowest energy, in any metric."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from genmetric._parameters import N_JOBS, HasMethods, Interval, ParameterRules, check_parameters
from genmetric._rollback import restore_on_error
from genmetric._typing import AnyArray, ArrayLike, FloatArray
from genmetric._validation import labelled_rows, query_rows
from genmetric.density._scaling import Scaling
from genmetric.neighbors._class_rows import ClassRows, training_neighbors
from genmetric.neighbors._energy import (
    FORMS,
    EnergyModel,
    difference_energies,
    margin_energies,
    margin_unit,
)
from genmetric.neighbors._energy_race import least_energies
from genmetric.neighbors._metric_space import metric_space, with_names

#: Largest distance of a query from the training samples, in units of their spread: beyond it
#: float64 does not distinguish them.
_FARTHEST = 1e15

#: Largest margin in units of the squared spread, so that sums of hinges stay finite.
_WIDEST = 1e150


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
        "energy": ["difference", *FORMS],
        "n_jobs": N_JOBS,
    }

    #: Transformer, scaling, training samples, model, number of neighbours and classes: one
    #: attribute, so that a prediction in another thread never combines the parts of two fits.
    _fitted: tuple[Any, Scaling, ClassRows, EnergyModel | None, int, AnyArray]

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

    @restore_on_error
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
        x, labels, classes, codes = labelled_rows(self, X, y, ensure_min_samples=2)
        k = int(self.n_neighbors)
        if k > len(x):
            raise ValueError(
                f"n_neighbors={self.n_neighbors} is more than the {len(x)} training samples. Use "
                "fewer neighbours."
            )
        metric = None if self.metric is None else clone(self.metric)
        if metric is not None:
            metric.fit(with_names(X, x), labels)
        z = metric_space(metric, X, x)
        scaling = Scaling.of(z)
        rows = ClassRows.of(scaling.apply(z), codes, len(classes))
        model = margin = None
        if self.energy != "difference":
            automatic = isinstance(self.margin, str)
            targets, nearest_other = training_neighbors(
                rows, k, others=automatic, n_jobs=self.n_jobs
            )
            if automatic:
                inside = float(self.margin_scale) * margin_unit(targets, nearest_other)
                margin = inside * scaling.scale**2
            else:
                margin = float(self.margin)
                inside = margin / scaling.scale**2
            model = EnergyModel.of(
                rows, targets, min(inside, _WIDEST), float(self.push), self.energy
            )
        matrix = _metric_matrix(metric, x.shape[1])
        # Attributes are assigned here and nowhere before.
        for name, value in (("margin_", margin), ("metric_", matrix)):
            if value is not None:
                setattr(self, name, value)
            elif hasattr(self, name):
                delattr(self, name)
        self.classes_, self.metric_estimator_, self.n_samples_fit_ = classes, metric, len(x)
        self._fitted = (metric, scaling, rows, model, k, classes)
        return self

    def _queries(self, X: Any, metric: Any, scaling: Scaling) -> FloatArray:
        """Map validated queries to the scaled space of the metric."""
        x = query_rows(self, X)
        z = scaling.apply(metric_space(metric, X, x))
        far = float(np.abs(z).max(initial=0.0))
        if not far < _FARTHEST:
            raise ValueError(
                f"A sample of X is {far:.1e} times the spread of the training samples away from "
                "them, where float64 does not distinguish their distances. Check X for outliers."
            )
        return z

    def _energies(self, X: Any) -> tuple[FloatArray, float]:
        """Compute the energies of queries in every class, and the square of their unit."""
        check_is_fitted(self)
        metric, scaling, rows, model, k, _ = self._fitted
        z = self._queries(X, metric, scaling)
        if model is None:
            energies = difference_energies(rows, z, k, n_jobs=self.n_jobs)
        else:
            energies = margin_energies(model, z, n_jobs=self.n_jobs)
        return energies, scaling.scale**2

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
        energies, unit = self._energies(X)
        scores = energies[:, 0] - energies[:, 1] if energies.shape[1] == 2 else -energies
        with np.errstate(over="ignore"):  # a sum over all samples may overflow at scales near 1e150
            return np.asarray(scores * unit)

    @np.errstate(under="ignore")
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
        energies, unit = self._energies(X)
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(softmax(-unit * (energies - energies.min(axis=1)[:, None]), axis=1))

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
        check_is_fitted(self)
        metric, scaling, rows, model, k, classes = self._fitted
        z = self._queries(X, metric, scaling)
        if model is None:
            codes = difference_energies(rows, z, k, n_jobs=self.n_jobs).argmin(axis=1)
        else:
            codes = least_energies(model, z, n_jobs=self.n_jobs)
        return np.asarray(classes[codes])


def _metric_matrix(metric: Any, n_features: int) -> FloatArray | None:
    """Return the Mahalanobis matrix of a fitted transformer, or None if it does not offer one."""
    if metric is None:
        return np.eye(n_features)
    matrix = getattr(metric, "get_mahalanobis_matrix", None)
    return None if matrix is None else np.asarray(matrix())

"""One method of a comparison: how it is fitted, what it can do and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from genmetric._scoring import Task
from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric.comparison._voting import fit_voting


@dataclass(frozen=True)
class TrainingData:
    """Samples that a method is fitted on.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
        Numeric features without missing values.
    y : ndarray of shape (n_samples,)
        Class labels, or numeric targets.
    seed : int
        Seed of everything random.
    max_samples : int or None
        Most samples that a metric is learned from; all samples are neighbours in any case.
    task : {"classification", "regression"}
        Kind of target.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.comparison import TrainingData
    >>> TrainingData(np.zeros((4, 2)), np.array([0, 0, 1, 1])).seed
    0
    """

    X: FloatArray
    y: AnyArray
    seed: int = 0
    max_samples: int | None = None
    task: Task = "classification"


@dataclass(frozen=True)
class FittedMethod:
    """A method fitted on training samples.

    Attributes
    ----------
    model : Pipeline
        Fitted pipeline that starts with the step "scale" and ends with a classifier or regressor.
    parameters : dict
        Parameters selected on the training samples.
    by_k : (ks, errors) or None
        Leave-one-out errors on the training samples by number of neighbours, for methods that
        predict by nearest neighbours: error rates, or 1 - R² for numeric targets.

    Examples
    --------
    >>> from genmetric.comparison import METHODS, TrainingData
    >>> from sklearn.datasets import load_iris
    >>> fitted = METHODS["uniform"].fit(TrainingData(*load_iris(return_X_y=True)))
    >>> [name for name, _ in fitted.model.steps]
    ['scale', 'metric', 'neighbors']
    """

    model: Any
    parameters: Mapping[str, Any]
    by_k: tuple[IntArray, FloatArray] | None = None

    @property
    def leave_one_out_error(self) -> float | None:
        """Leave-one-out error of the selected number of neighbours; None if it is not known."""
        if self.by_k is None:
            return None
        ks, errors = self.by_k
        found = errors[ks == self.parameters["n_neighbors"]]
        return float(found[0]) if len(found) and found[0] == found[0] else None


@dataclass(frozen=True)
class Budget:
    """Size of a fit and the time it may take.

    Attributes
    ----------
    n_samples : int
        Number of training samples.
    seconds : float
        Seconds that one fit may take.
    n_classes : int
        Number of classes; 1 for numeric targets.
    n_fits : int
        Number of fits in total.

    Examples
    --------
    >>> from genmetric.comparison import METHODS, Budget
    >>> METHODS["mkl"].decide(Budget(100_000, 60.0)).skip
    True
    """

    n_samples: int
    seconds: float
    n_classes: int = 1
    n_fits: int = 1


@dataclass(frozen=True)
class BudgetDecision:
    """Whether a method can be run within a budget.

    Attributes
    ----------
    skip : bool
        Whether the method has to be skipped.
    note : str
        Reason why it is skipped, or how its cost was reduced; empty if neither is needed.
    max_samples : int or None
        Most training samples that its metric is learned from.

    Examples
    --------
    >>> from genmetric.comparison import BudgetDecision
    >>> BudgetDecision(skip=True, note="needs 2 GB").note
    'needs 2 GB'
    """

    skip: bool = False
    note: str = ""
    max_samples: int | None = None


@dataclass(frozen=True)
class Method:
    """An entry of :data:`genmetric.comparison.METHODS`.

    Either `metric` or `predictor` is given. A method with a `metric` predicts by the nearest
    neighbours under that metric: their majority vote, or the average of numeric targets.

    Attributes
    ----------
    key : str
        Identifier, accepted by ``compare_metrics(methods=...)`` and ``genmetric fit --method``.
    label : str
        Plain name shown in tables and reports.
    description : str
        One sentence for glossaries and help texts.
    symbol : str
        Symbol in the paper, for the documentation; empty if the paper does not have the method.
    metric : callable or None
        ``metric(seed, **settings)`` returns an unfitted transformer, or None for Euclidean
        distance.
    predictor : callable or None
        ``predictor(training)`` returns a :class:`FittedMethod`.
    settings : tuple of str
        Keyword arguments that `metric` accepts.
    standardise : bool
        Whether features are scaled to unit variance first.
    learns : bool
        Whether anything is learned from the labels; the best method that does not learn is the
        baseline of a comparison.
    distance : bool
        Whether the method is a distance or predicts by one. Other methods are shown for
        reference: they are never recommended and cannot be saved.
    transforms : bool
        Whether the fitted model has one linear map into a space where distances are Euclidean.
    probabilities : bool
        Whether the fitted model has ``predict_proba``, if the targets are classes.
    streams : bool
        Whether it can be fitted in batches, without all samples in memory.
    batch_settings : mapping
        Keyword arguments of `metric` in such a fit, if some of its variants need all samples.
    default : bool
        Whether the method is compared if no methods are named.
    tasks : tuple of str
        Kinds of targets: "classification", "regression" or both.
    budget : callable or None
        ``budget(Budget)`` returns a :class:`BudgetDecision`; ``None`` always runs the method.

    Examples
    --------
    >>> from genmetric.comparison import Method
    >>> from sklearn.decomposition import PCA
    >>> method = Method(
    ...     "pca",
    ...     "principal components",
    ...     "Nearest neighbours on two principal components.",
    ...     metric=lambda seed: PCA(2, random_state=seed),
    ... )
    >>> method.votes
    True
    """

    key: str
    label: str
    description: str
    symbol: str = ""
    metric: Callable[..., Any] | None = None
    predictor: Callable[[TrainingData], FittedMethod] | None = None
    settings: tuple[str, ...] = ()
    standardise: bool = True
    learns: bool = True
    distance: bool = True
    transforms: bool = True
    probabilities: bool = True
    streams: bool = False
    batch_settings: Mapping[str, Any] = field(default_factory=dict)
    default: bool = True
    tasks: tuple[Task, ...] = ("classification",)
    budget: Callable[[Budget], BudgetDecision] | None = None

    def __post_init__(self) -> None:
        """Check that the entry has exactly one way to be fitted."""
        if (self.metric is None) == (self.predictor is None):
            raise ValueError(
                f"Method {self.key!r} must have either a metric or a predictor; got "
                f"metric={self.metric!r}, predictor={self.predictor!r}."
            )

    @property
    def votes(self) -> bool:
        """Whether the method predicts by the vote or the average of nearest neighbours."""
        return self.metric is not None

    @property
    def row_label(self) -> str:
        """Label in tables, marked if the method is not a distance."""
        return self.label if self.distance else f"{self.label} (not a distance)"

    def decide(self, budget: Budget) -> BudgetDecision:
        """Decide whether the method can be run within a budget.

        Parameters
        ----------
        budget : Budget
            Size of a fit, and the seconds that it may take.

        Returns
        -------
        BudgetDecision
            Whether to skip the method, and the reason.
        """
        return BudgetDecision() if self.budget is None else self.budget(budget)

    def fit(
        self,
        training: TrainingData,
        *,
        n_neighbors: int | None = None,
        standardise: bool | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> FittedMethod:
        """Fit the method.

        Parameters
        ----------
        training : TrainingData
            Samples and targets.
        n_neighbors : int, default=None
            Number of neighbours, for methods that vote; selected by leave-one-out by default.
        standardise : bool, default=None
            Whether to scale features to unit variance; the default of the method by default.
        settings : mapping, default=None
            Keyword arguments of the metric.

        Returns
        -------
        FittedMethod
            The fitted pipeline and the parameters selected.
        """
        if self.predictor is not None:
            return self.predictor(training)
        assert self.metric is not None
        model, parameters, by_k = fit_voting(
            self.metric(training.seed, **(settings or {})),
            training.X,
            training.y,
            seed=training.seed,
            max_samples=training.max_samples,
            standardise=self.standardise if standardise is None else standardise,
            n_neighbors=n_neighbors,
            task=training.task,
        )
        return FittedMethod(model, parameters, by_k)

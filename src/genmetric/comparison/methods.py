"""The registry of methods and scores: an entry of methods.toml is all that a new method needs.

Estimators are named by import strings, so the help of a command lists the methods without
importing scikit-learn, which takes a second.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from math import isnan
from typing import Any, Literal

from genmetric._text import did_you_mean

Task = Literal["classification", "regression"]


@dataclass(frozen=True)
class Method:
    """An entry of :data:`genmetric.comparison.METHODS`.

    The features are scaled, mapped by `metric` if there is one, and predicted by `predictor`, or
    else by the nearest neighbours: their majority vote, or the average of numeric targets.

    Attributes
    ----------
    key : str
        Identifier, accepted by ``compare_metrics(methods=...)`` and ``genmetric fit --method``.
    label : str
        Plain name shown in tables and reports.
    description : str
        One sentence for glossaries and help texts.
    metric, predictor : str
        Estimators as "module:name"; ``{kind}`` in a name is "Classifier" or "Regressor".
    params : mapping
        Parameters of `predictor`, or of `metric` if there is no predictor.
    grid : list or mapping
        Parameters of `predictor` that are selected on a quarter of the training samples.
    tasks : sequence of str
        Kinds of targets: "classification", "regression" or both.
    default : bool
        Whether the method is compared if no methods are named.
    learns : bool
        Whether anything is learned from the targets.
    distance : bool
        Whether the method is, or uses, a distance. Others are references and cannot be saved.
    has_map : bool
        Whether it predicts in the space of one linear map, which can be inspected and transform.
    scale : {"standardize", "center", "none"}
        Whether features are scaled to unit variance, only centred, or left as they are.
    slow : bool
        Whether a comparison runs it in the first repetition only, unless `n_repeats` is given.
    max_samples, max_classes : int or None
        Sizes of the table beyond which a comparison does not run it.
    streams : bool
        Whether it can be fitted in batches, without all samples in memory.
    batch_params : mapping
        Parameters of `metric` in such a fit.
    settings : sequence of str
        Parameters of `metric` that ``genmetric fit`` has options for.
    symbol : str
        Symbol in the paper; empty if the paper does not have the method.
    former : str
        Alias of the key, which is accepted too.

    Examples
    --------
    >>> from genmetric.comparison import METHODS
    >>> from sklearn.datasets import load_iris
    >>> model = METHODS["generative"].fit(*load_iris(return_X_y=True))
    >>> [name for name, _ in model.steps]
    ['scale', 'metric', 'neighbors']
    """

    key: str
    label: str
    description: str
    metric: str = ""
    predictor: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    grid: Any = ()
    tasks: Sequence[Task] = ("classification",)
    default: bool = True
    learns: bool = True
    distance: bool = True
    has_map: bool = True
    scale: Literal["standardize", "center", "none"] = "standardize"
    slow: bool = False
    max_samples: int | None = None
    max_classes: int | None = None
    streams: bool = False
    batch_params: Mapping[str, Any] = field(default_factory=dict)
    settings: Sequence[str] = ()
    symbol: str = ""
    former: str = ""

    @property
    def votes(self) -> bool:
        """Whether the method predicts by the vote or the average of nearest neighbours."""
        return not self.predictor

    def fit(self, X: Any, y: Any, task: Task = "classification", **options: Any) -> Any:
        """Fit the method.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            Numeric features without missing values.
        y : ndarray of shape (n_samples,)
            Class labels, or numeric targets.
        task : {"classification", "regression"}, default="classification"
            Kind of target.
        **options
            `random_state` (default 0); for methods that vote `n_neighbors` (selected by
            leave-one-out by default) and `standardize`; `feature_columns`, the column of a table
            that each feature comes from; and the parameters in `settings`.

        Returns
        -------
        sklearn.pipeline.Pipeline
            The steps "scale", "metric" (if there is one) and "neighbors", or the key of the method.
        """
        from genmetric.comparison.pipelines import fit_method

        return fit_method(self, X, y, task, **options)

    def parameters(self, model: Any) -> dict[str, Any]:
        """Return the parameters that a fitted pipeline selected.

        Parameters
        ----------
        model : sklearn.pipeline.Pipeline
            As returned by :meth:`fit`.

        Returns
        -------
        dict
            Plain values by name, such as ``{"n_neighbors": 5}``.
        """
        from genmetric.comparison.pipelines import selected_parameters

        return selected_parameters(self, model)


_ENTRIES = tomllib.loads(files("genmetric.comparison").joinpath("methods.toml").read_text("utf-8"))

#: All methods by key, in the order of tables. In case of a tie the first one is the best.
METHODS = {key: Method(key, **entry) for key, entry in _ENTRIES.items()}

#: Keys by their aliases.
ALIASES = {method.former: key for key, method in METHODS.items() if method.former}

#: The question of a comparison: is the second metric better than the first?
QUESTION: dict[Task, tuple[str, str]] = {
    "classification": ("standardized", "generative-cv"),
    "regression": ("standardized", "regression-cv"),
}


def find_methods(keys: Iterable[str] | None, task: Task | None = None) -> tuple[Method, ...]:
    """Look methods up by their keys.

    Parameters
    ----------
    keys : iterable of str or None
        Keys of :data:`METHODS` or their aliases, at least one; None means those that are
        compared by default.
    task : {"classification", "regression"}, default=None
        Kind of target that the methods must be able to predict; None does not check it.

    Returns
    -------
    tuple of Method
        Each method once, in the order given.

    Examples
    --------
    >>> from genmetric.comparison import find_methods
    >>> [method.key for method in find_methods(["uniform", "lda"])]
    ['generative', 'lda']
    """
    able = [key for key, method in METHODS.items() if task is None or task in method.tasks]
    if keys is None:
        keys = [key for key in able if METHODS[key].default]
    if isinstance(keys, str):
        raise TypeError(f"methods must be a sequence of keys; got the text {keys!r}.")
    listed = list(dict.fromkeys(ALIASES.get(key, key) for key in keys))
    wrong = next((key for key in listed if key not in able), None)
    if wrong is not None or not listed:
        hint = did_you_mean(str(wrong), able) or " ".join(
            f"The methods for {t} are {', '.join(k for k in able if t in METHODS[k].tasks)}."
            for t in (QUESTION if task is None else (task,))
        )
        what = "no methods are named" if wrong is None else f"there is no method {wrong!r}"
        raise ValueError(f"{what}{f' for {task}' if task else ''}. {hint}")
    return tuple(METHODS[key] for key in listed)


@dataclass(frozen=True)
class Scoring:
    """One way to judge predictions.

    Comparisons store losses, of which lower values are better. The loss of a score that should be
    high, such as the area under the ROC curve, is one minus the score.

    Attributes
    ----------
    key : str
        Identifier, accepted by ``compare_metrics(scoring=...)`` and ``--scoring``.
    label : str
        Name shown in tables and sentences.
    function : str
        Function of :mod:`sklearn.metrics`.
    options : mapping
        Its parameters.
    response : {"predict", "predict_proba"}
        Method of the model whose result is judged.
    percent : bool
        Whether scores are shown in percent.
    task : {"classification", "regression"}
        Kind of target.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.comparison import SCORINGS
    >>> SCORINGS["error"].loss(np.array([0, 1, 1, 1]), np.array([0, 1, 1, 0]), 2)
    0.25
    """

    key: str
    label: str
    function: str
    options: Mapping[str, Any] = field(default_factory=dict)
    response: Literal["predict", "predict_proba"] = "predict"
    percent: bool = False
    task: Task = "classification"

    @property
    def greater_is_better(self) -> bool:
        """Whether higher scores are better."""
        return self.function.endswith("score") and not self.percent

    def loss(self, y_true: Any, response: Any, n_classes: int) -> float:
        """Compute the loss of predictions; lower is better.

        Parameters
        ----------
        y_true : ndarray of shape (n_samples,)
            Class codes 0, 1, ..., or numeric targets.
        response : ndarray of shape (n_samples,) or (n_samples, n_classes)
            Predicted codes, probabilities or targets.
        n_classes : int
            Number of classes; 0 for numeric targets.

        Returns
        -------
        float
            The loss.
        """
        from sklearn import metrics

        options = dict(self.options)
        if self.key in ("f1_macro", "log_loss", "roc_auc"):
            options["labels"] = list(range(n_classes))
        if self.key == "roc_auc" and n_classes == 2:
            response = response[:, 1]
        value = float(getattr(metrics, self.function)(y_true, response, **options))
        return 1 - value if self.function.endswith("score") else value

    def score(self, loss: Any) -> Any:
        """Convert a loss to a score.

        Parameters
        ----------
        loss : float or ndarray
            Loss, smaller is better.

        Returns
        -------
        float or ndarray
            The score as people read it.
        """
        return 1 - loss if self.greater_is_better else loss

    def text(self, loss: float, margin: float = float("nan"), *, digits: int = 1) -> str:
        """Write the score of a loss, and a margin if there is one: "17.3% ± 2.1".

        Parameters
        ----------
        loss : float
            Loss.
        margin : float, default=nan
            Half of the interval of the loss.
        digits : int, default=1
            Digits after the point of a percentage.

        Returns
        -------
        str
            Text.
        """
        unit, form, sign = (100, f".{digits}f", "%") if self.percent else (1, ".3f", "")
        form = ".4g" if self.key == "mae" else form
        text = f"{unit * self.score(loss):{form}}{sign}"
        return text if isnan(margin) else f"{text} ± {unit * margin:{form}}"


_SCORINGS = (
    Scoring("error", "error rate", "zero_one_loss", percent=True),
    Scoring("balanced_error", "balanced error rate", "balanced_accuracy_score", percent=True),
    Scoring("f1_macro", "macro F1", "f1_score", {"average": "macro", "zero_division": 0}),
    Scoring("log_loss", "log loss", "log_loss", {}, "predict_proba"),
    Scoring("roc_auc", "ROC AUC", "roc_auc_score", {"multi_class": "ovr"}, "predict_proba"),
    Scoring("r2", "R²", "r2_score", task="regression"),
    Scoring("mae", "mean absolute error", "mean_absolute_error", task="regression"),
)

#: All scorings by key.
SCORINGS: dict[str, Scoring] = {scoring.key: scoring for scoring in _SCORINGS}


def find_scoring(key: str, task: Task) -> Scoring:
    """Look a scoring up by its key."""
    able = [name for name, scoring in SCORINGS.items() if scoring.task == task]
    if key not in able:
        hint = did_you_mean(str(key), able)
        hint = "Use error (100% minus accuracy)." if key == "accuracy" else hint
        text = f"scoring for {task} must be one of {', '.join(able)}; got {key!r}. {hint}"
        raise ValueError(text.rstrip())
    return SCORINGS[key]

"""Every Display: what it draws, where, and for whom."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.decomposition import PCA
from sklearn.manifold import Isomap
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import genmetric.plot
from genmetric import LMNN, GenerativeMetric
from genmetric.comparison import Comparison, MethodResult
from genmetric.plot import (
    ComparisonDisplay,
    EmbeddingDisplay,
    ErrorByKDisplay,
    FeatureWeightsDisplay,
    LocalMetricsDisplay,
    MatchDisplay,
    MetricHeatmapDisplay,
    NeighborsDisplay,
)
from genmetric.plot.palette import class_style, label, plain_name
from genmetric.tables import TableEncoder


def draw_all(X, y, axes, **names):
    """One Display of each kind, on the axes given for it; `axes(n)` makes n of them."""
    model = make_pipeline(StandardScaler(), GenerativeMetric()).fit(X, y)
    features, classes = names.get("feature_names"), names.get("class_names")
    plane = pd.DataFrame(X[:, :2], columns=(features or ["x", "y"])[:2])
    named = y if classes is None else np.array(classes)[np.unique(y, return_inverse=True)[1]]
    pair = GenerativeMetric().fit(plane, y)
    return [
        MetricHeatmapDisplay.from_estimator(model, X, feature_names=features, ax=axes(1)),
        FeatureWeightsDisplay.from_estimator(model, X, feature_names=features, ax=axes(1)),
        NeighborsDisplay.from_estimator(model, X, y, class_names=classes, ax=axes(1)),
        EmbeddingDisplay.from_estimator(model, X, y, class_names=classes, ax=axes(2)),
        LocalMetricsDisplay.from_estimator(pair, plane, named, ax=axes(1)),
        ComparisonDisplay.from_comparison(comparison(), ax=axes(1)),
        ErrorByKDisplay.from_estimator(GenerativeMetric(), X, y, cv=2, ax=axes(1)),
        MatchDisplay.from_predictions(y == y[0], X[:, 0], threshold=0.0, ax=axes(1)),
    ]


def test_every_display_is_tried_here(rows):
    displays = draw_all(*rows, lambda _: None)
    assert sorted(type(d).__name__ for d in displays) == sorted(genmetric.plot.__all__)
    for display in displays:
        assert display.ax_.figure is display.figure_


def test_displays_draw_where_they_are_told(rows, plt):
    made = []

    def axes(n):
        figure, ax = plt.subplots(1, n)
        made.append(figure)
        return ax

    for display, figure in zip(draw_all(*rows, axes), made, strict=True):
        assert display.figure_ is figure
    assert len(plt.get_fignums()) == len(made)


def test_two_panels_need_two_axes(rows, plt):
    X, y = rows
    with pytest.raises(ValueError, match=r"ax must be two Axes.*got 3"):
        EmbeddingDisplay.from_estimator(
            GenerativeMetric().fit(X, y), X, y, ax=plt.subplots(1, 3)[1]
        )


NAMES = ["<script>alert(1)</script>", "$x_1^2$ \\frac", "_hidden", "日本語 " * 40, "a\nb\x00\u202e"]


@pytest.mark.filterwarnings("ignore:Glyph .* missing")
@pytest.mark.filterwarnings("ignore:Matplotlib currently does not support")
def test_any_names(rows):
    for display in draw_all(*rows, lambda _: None, feature_names=NAMES, class_names=NAMES[:3]):
        display.figure_.canvas.draw()


def test_heat_map(rows):
    X, y = rows
    metric = GenerativeMetric().fit(X, y)
    display = MetricHeatmapDisplay.from_estimator(metric, X, max_features=3)
    np.testing.assert_array_equal(display.im_.get_array(), display.matrix)
    assert [t.get_text() for t in display.ax_.get_yticklabels()] == list(display.feature_names)
    weights = FeatureWeightsDisplay.from_estimator(metric, X).weights
    heaviest = {f"x{i}" for i in np.argsort(-weights)[:3]}
    assert set(display.feature_names) == heaviest
    assert "3 of 5 features" in display.ax_.get_title()
    low, high = display.im_.get_clim()
    assert low == -high
    assert high == np.abs(display.matrix).max()


def test_feature_weights(rows):
    X, y = rows
    metric = GenerativeMetric().fit(X, y)
    display = FeatureWeightsDisplay.from_estimator(metric, X, max_features=4)
    parts = (metric.metric_ * np.cov(X.T)).sum(axis=1)
    np.testing.assert_allclose(display.weights, parts / parts.sum(), rtol=1e-9)
    widths = [bar.get_width() for bar in display.bars_]
    np.testing.assert_allclose(widths, 100 * np.sort(display.weights)[::-1][:4])
    assert "4 of 5" in display.ax_.get_title()


def test_neighbors_are_the_nearest(rows):
    X, y = rows
    metric = GenerativeMetric().fit(X, y)
    display = NeighborsDisplay.from_estimator(metric, X, y, rows=[3, 70], n_neighbors=4)
    codes = np.unique(y, return_inverse=True)[1]
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    for space, found in ((Z, display.before), (X @ metric.components_.T, display.after)):
        for row, classes in zip((3, 70), found, strict=True):
            order = np.argsort(((space - space[row]) ** 2).sum(axis=1))[1:5]
            np.testing.assert_array_equal(classes, codes[order])
    assert list(display.row_names) == [3, 70]
    shown = np.hstack([display.classes[:, None], display.before, display.after])
    for number, marks in display.marks_.items():
        filled = marks.get_facecolors()[:, 3] == 1
        rows, _ = np.nonzero(shown == number)
        np.testing.assert_array_equal(filled, display.classes[rows] == number)


def test_copies_of_a_sample_are_neighbors_but_not_itself(rows):
    X, y = rows
    X = np.repeat(X[:4], 30, axis=0)
    y = np.repeat(["a", "b", "c", "a"], 30)
    metric = GenerativeMetric().fit(*rows)
    display = NeighborsDisplay.from_estimator(metric, X, y, n_neighbors=5)
    assert display.share_before == display.share_after == 1
    assert display.before.shape[1] == 5


def test_examples_go_from_largest_gain_to_largest_loss(rows):
    X, y = rows
    metric = GenerativeMetric().fit(X[::2], y[::2])
    display = NeighborsDisplay.from_estimator(
        metric, X[1::2], y[1::2], X_reference=X[::2], y_reference=y[::2], n_examples=6
    )
    own = display.classes[:, None]
    gain = (display.after == own).sum(axis=1) - (display.before == own).sum(axis=1)
    assert list(gain) == sorted(gain, reverse=True)
    assert 0 < display.n_changed <= display.n_rows == 60
    if display.n_changed >= 6:
        assert (gain != 0).all()
    with pytest.raises(ValueError, match="y_reference"):
        NeighborsDisplay.from_estimator(metric, X, y, X_reference=X)


def test_large_data_is_subsampled_and_reported(rows):
    X, y = rows
    model = GenerativeMetric().fit(X, y)
    one, two, other = (
        EmbeddingDisplay.from_estimator(model, X, y, max_rows=30, random_state=seed)
        for seed in (1, 1, 2)
    )
    assert one.before.shape == one.after.shape == (30, 2)
    np.testing.assert_array_equal(one.before, two.before)
    assert not np.array_equal(one.before, other.before)
    assert "30 of 120 samples" in one.ax_.get_ylabel()


def test_embedding_under_another_reducer(rows):
    X, y = rows
    model = GenerativeMetric().fit(X, y)
    display = EmbeddingDisplay.from_estimator(model, X, y, reducer=Isomap(n_neighbors=20))
    assert display.after.shape == (120, 2)
    with pytest.raises(ValueError, match="n_components=2"):
        EmbeddingDisplay.from_estimator(model, X, y, reducer=Isomap(n_neighbors=20, n_components=3))


def test_one_feature_lies_on_a_line(rng):
    X, y = rng.normal(size=(20, 1)), np.repeat([0, 1], 10)
    display = EmbeddingDisplay.from_estimator(GenerativeMetric().fit(X, y), X, y)
    assert not display.before[:, 1].any()


@pytest.mark.parametrize("n_classes", [10, 26])
def test_many_classes_are_labelled_in_the_figure(rng, n_classes):
    y = np.arange(10 * n_classes) % n_classes
    X = rng.normal(size=(len(y), 3)) + 3 * y[:, None]
    model = GenerativeMetric().fit(X, y)
    names = [f"class {i}" for i in range(n_classes)]
    embedding = EmbeddingDisplay.from_estimator(model, X, y, class_names=names)
    written = {text.get_text() for text in embedding.axes_[1].texts}
    legend = embedding.axes_[1].get_legend()
    if legend is not None:
        written |= {text.get_text() for text in legend.get_texts()}
    assert len(written) == n_classes
    neighbors = NeighborsDisplay.from_estimator(model, X, y, class_names=names)
    neighbors.figure_.canvas.draw()


def test_local_metrics_are_those_of_the_estimator(rows):
    X, y = rows
    metric = GenerativeMetric().fit(X[:, :2], y)
    plain = LocalMetricsDisplay.from_estimator(metric, X[:, :2], y)
    np.testing.assert_allclose(plain.metrics, metric.local_metrics(plain.points))
    np.testing.assert_allclose(plain.metric, metric.metric_)
    # Every ellipse stands among rows.
    gaps = np.abs(plain.points[:, None] - X[None, :, :2]) / np.asarray(plain.spacing)
    assert gaps.max(axis=2).min(axis=1).max() < 1.5


def test_points_of_an_ellipse_are_equally_far(rng):
    root = 0.3 * rng.normal(size=(9, 2, 2)) + np.eye(2)
    display = LocalMetricsDisplay(
        rng.normal(size=(9, 2)),
        metrics=root @ root.transpose(0, 2, 1),
        metric=np.eye(2),
        rows=rng.normal(size=(4, 2)),
        classes=np.array([0, 1, 0, 1]),
        class_names=["a", "b"],
        feature_names=["x", "y"],
        spacing=(1.0, 1.0),
    ).plot()
    n_whole = 0
    for path, centre, metric in zip(
        display.ellipses_.get_paths(), display.points, display.metrics, strict=True
    ):
        d = path.vertices[:-1] - centre
        if np.linalg.norm(d, axis=1).max() < 0.64:  # longer half-axes are cut
            far = np.einsum("ci,ij,cj->c", d, metric, d)
            np.testing.assert_allclose(far / far[0], 1.0, rtol=1e-9)
            n_whole += 1
    assert n_whole > 3


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_local_metrics_need_a_plane_and_local_metrics(rows):
    X, y = rows
    with pytest.raises(TypeError, match="got GenerativeMetric and 5 features"):
        LocalMetricsDisplay.from_estimator(GenerativeMetric().fit(X, y), X, y)
    with pytest.raises(TypeError, match="got LMNN and 2 features"):
        LocalMetricsDisplay.from_estimator(LMNN(max_iter=2).fit(X[:, :2], y), X[:, :2], y)


def test_error_by_k_is_that_of_cross_validation(rows):
    X, y = rows
    folds = StratifiedKFold(3)
    display = ErrorByKDisplay.from_estimator(
        GenerativeMetric(), X, y, cv=folds, n_neighbors=[9, 1, 4]
    )
    ks, errors = display.error_by_k["GenerativeMetric"]
    assert list(ks) == [1, 4, 9]
    naive = [
        1
        - cross_val_score(
            make_pipeline(GenerativeMetric(), KNeighborsClassifier(k)), X, y, cv=folds
        ).mean()
        for k in ks
    ]
    np.testing.assert_allclose(errors, naive, atol=1e-12)


def comparison():
    results = (
        MethodResult(
            "standardized", "Euclidean", np.array([0.3, 0.4]), np.array([1e-9, 0]), np.full(2, 0.2)
        ),
        MethodResult("generative", "learned", np.array([0.2]), np.array([1.0]), np.array([0.1])),
        MethodResult("nca", "NCA", note="too slow"),
    )
    return Comparison(
        results,
        baseline="standardized",
        recommended="generative",
        error_by_k={"generative": (np.array([1]), np.array([0.2]))},
    )


def test_displays_of_a_comparison():
    found = comparison()
    display = ComparisonDisplay.from_comparison(found)
    assert {name: list(folds) for name, folds in display.scores.items()} == {
        "Euclidean": [0.3, 0.4],
        "learned": [0.2],
    }
    assert (display.baseline, display.best) == ("Euclidean", "learned")
    # The bar is the 95% interval of the table; one fold has none.
    assert display.margins == {"Euclidean": pytest.approx(found["standardized"].margin)}
    ticks = display.ax_.get_yticklabels()
    assert [tick.get_text() for tick in ticks] == ["Euclidean", "learned"]
    assert [tick.get_fontweight() for tick in ticks] == ["normal", "bold"]
    means = [box.lines[0].get_xdata()[0] for box in display.ax_.containers]
    np.testing.assert_allclose(means, [35.0, 20.0])
    lines = ErrorByKDisplay.from_comparison(found).lines_
    assert [list(line.get_ydata()) for line in lines] == [[20.0]]
    display.figure_.canvas.draw()


def test_contributions_per_column():
    frame = pd.DataFrame(
        {"size": [1.0, 2, 3, 4, 5, 6] * 5, "colour": ["red", "blue", "green"] * 10}
    )
    y = np.arange(30) % 2
    model = make_pipeline(TableEncoder(), StandardScaler(), GenerativeMetric()).fit(frame, y)
    display = FeatureWeightsDisplay.from_estimator(model, frame, by_column=True)
    assert list(display.feature_names) == ["size", "colour"]
    single = FeatureWeightsDisplay.from_estimator(model, frame)
    assert len(single.weights) == 4
    np.testing.assert_allclose(display.weights[1], single.weights[1:].sum())


def test_coupled_features_are_adjacent():
    pairs = ((0, 4), (1, 5), (2, 3))
    M = np.eye(6)
    for i, j in pairs:
        M[i, j] = M[j, i] = -0.9
    metric = PCA().fit(np.random.default_rng(0).normal(size=(9, 6)))
    metric.components_ = np.linalg.cholesky(M).T
    metric.mean_ = np.zeros(6)
    names = list(MetricHeatmapDisplay.from_estimator(metric).feature_names)
    for i, j in pairs:
        assert abs(names.index(f"x{i}") - names.index(f"x{j}")) == 1


def test_fifty_six_classes_differ_in_colour_or_marker():
    assert len({class_style(i) for i in range(56)}) == 56


@given(st.text(), st.integers(4, 30))
def test_plain_name_is_one_short_line(name, width):
    text = plain_name(name, width=width)
    assert 1 <= len(text) <= max(width, len("(no name)"))
    assert text.splitlines() == [text]
    text.encode("utf-8")
    assert plain_name("mean radius (µm)") == "mean radius (µm)"
    assert plain_name("a\u202eb\x00c\ud800") == "ab c\ufffd"


@pytest.mark.parametrize("name", ["$x$", r"\frac{1}{2}", "_hidden", "$\\oops", "a_b^c"])
def test_names_are_drawn_letter_by_letter(plt, name):
    figure, ax = plt.subplots()
    ax.plot([0, 1], label=label(name))
    (shown,) = ax.legend().get_texts()
    figure.canvas.draw()
    assert shown.get_text().lstrip("\u200b").replace(r"\$", "$") == name


def test_without_matplotlib_the_error_says_what_to_install():
    code = """
import sys

class Absent:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] == "matplotlib":
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Absent)
import numpy as np
from genmetric.plot import MatchDisplay
try:
    MatchDisplay(np.ones(3), np.zeros(3)).plot()
except ImportError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert 'pip install "genmetric[report]"' in done.stdout

"""MatchDisplay: scores of pairs and the errors at a threshold."""

import numpy as np
import pytest

from genmetric import PairClassifier
from genmetric.plot import MatchDisplay


def test_errors_at_the_threshold_of_a_classifier(rng):
    X = np.repeat(rng.normal(size=(120, 6)), 2, axis=0) + 0.5 * rng.normal(size=(240, 6))
    same = X.reshape(120, 2, 6)
    different = np.stack([X[:-2], X[2:]], axis=1)
    model = PairClassifier(random_state=0).fit(same)
    model.set_threshold(model.threshold(false_match_rate=0.05))
    pairs, y = np.concatenate([same, different]), np.repeat([1, -1], [120, 238])
    display = MatchDisplay.from_estimator(model, pairs, y)
    predicted = model.predict(pairs)
    assert display.miss_rate == np.mean(predicted[y > 0] == -1)
    assert display.false_match_rate == np.mean(predicted[y < 0] == 1)
    assert display.threshold == model.threshold_
    title = f"{display.miss_rate:.1%} missed, {display.false_match_rate:.2%} false matches"
    assert display.ax_.get_title() == title
    legend = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert legend == ["different (238 pairs)", "same (120 pairs)", "threshold"]


def test_each_histogram_adds_up_to_all_pairs(rng):
    scores, y = rng.normal(size=300), np.repeat([1, 0], [100, 200])
    display = MatchDisplay.from_predictions(y, scores)
    assert display.miss_rate is display.false_match_rate is None
    assert display.ax_.get_title() == ""
    np.testing.assert_array_equal(display.same, scores[:100])
    for patch in display.ax_.patches:  # an outline down and up again: 50 bars of equal width
        x, height = patch.get_xy().T
        width = (x.max() - x.min()) / 50
        area = 0.5 * abs(np.dot(x, np.roll(height, 1)) - np.dot(height, np.roll(x, 1)))
        assert area / width == pytest.approx(100)


def test_invalid_scores():
    with pytest.raises(ValueError, match="pairs of the same entity and of different ones"):
        MatchDisplay.from_predictions([1, 1], [0.5, 0.7])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        MatchDisplay.from_predictions([1, 0], [0.5, 0.7, 0.1])

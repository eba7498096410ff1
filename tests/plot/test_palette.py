"""Colours that read on any paper, names that draw as they are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genmetric.plot._palette import COLORS, class_style, diverging_map, label, plain_name


def luminance(color):
    rgb = np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("color", COLORS)
@pytest.mark.parametrize("paper", ["#ffffff", "#14171c"])
def test_every_color_reads_on_light_and_dark(color, paper):
    lighter, darker = sorted([luminance(color), luminance(paper)], reverse=True)
    assert (lighter + 0.05) / (darker + 0.05) >= 3


def test_eighty_classes_differ():
    assert len({class_style(i) for i in range(80)}) == 80


def test_zero_is_transparent_and_the_ends_are_not():
    low, middle, high = diverging_map()([0.0, 0.5, 1.0])
    assert middle[3] < 0.01
    assert low[3] == high[3] == 1
    assert low[2] > low[0]
    assert high[0] > high[2]


@given(st.text(), st.integers(4, 30))
def test_plain_name_is_one_short_line(name, width):
    text = plain_name(name, width=width)
    assert 1 <= len(text) <= max(width, len("(no name)"))
    assert text.splitlines() == [text]
    text.encode("utf-8")


def test_plain_names_are_unchanged():
    assert plain_name("mean radius (µm)") == "mean radius (µm)"
    assert plain_name("a\u202eb\x00c") == "ab c"
    assert plain_name("\ud800") == "\ufffd"


@pytest.mark.parametrize("name", ["$x$", r"\frac{1}{2}", "_hidden", "$\\oops", "a_b^c"])
def test_names_are_drawn_letter_by_letter(plt, name):
    figure, ax = plt.subplots()
    text = ax.set_title(label(name))
    figure.canvas.draw()
    shown = text._preprocess_math(text.get_text())
    assert shown[1] is False
    assert shown[0].lstrip("\u200b") == name

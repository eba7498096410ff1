"""The page: escaped, self-contained, written whole or not at all."""

import base64
import hashlib
import os
import re
import stat
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from genmetric.plot._palette import without_directions
from genmetric.report import Cell, Fact, Page, page_style


class Reader(HTMLParser):
    """Elements, their attributes, and the text of a page."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.attributes, self.text = [], [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text.append(data)


def full_page(text):
    """A page with a text in every place that takes one."""
    page = Page(text, lead=text, facts=[Fact(text, text, text)], command=text)
    section = page.section(text).paragraph(text).paragraph(text, note=True)
    section.table([text, "x"], [[text, Cell(text, "good", text)]], caption=text)
    page.footer(text)
    return page


@given(st.text(st.characters(codec="utf-8", exclude_characters="\x00\r"), min_size=1))
def test_any_text_is_escaped(text):
    plain, other = Reader(full_page("text").render()), Reader(full_page(text).render())
    assert other.tags == plain.tags
    assert "".join(other.text).count(without_directions(text)) >= 8


def test_a_script_stays_text():
    bad = "<script>alert(1)</script>\" onload='alert(2)' {{ 7 * 7 }}"
    page = full_page(bad)
    with page_style():
        figure = Figure(figsize=(9, 3))
        ax = figure.subplots()
        ax.plot([0, 1], label=bad)
        ax.legend()
        ax.set_title(bad)
    page.sections[0].figure(figure, caption=bad, alt=bad)
    reader = Reader(page.render())
    assert reader.tags.count("script") == 1
    assert not [name for name, _ in reader.attributes if name.startswith("on")]
    assert "".join(reader.text).count("{{ 7 * 7 }}") >= 10
    assert "49" not in "".join(t for t in reader.text if "alert" in t)


def test_nothing_is_loaded_from_elsewhere():
    page = Page("t")
    with page_style():
        figure = Figure()
        figure.subplots().imshow(np.eye(3))
    page.section("s").figure(figure)
    reader = Reader(page.render())
    assert not {"link", "iframe", "object", "img"} & set(reader.tags)
    links = [v for n, v in reader.attributes if n in ("src", "href", "xlink:href", "data")]
    assert links
    assert all(value.startswith(("#", "data:image/png;base64,")) for value in links)
    html = page.render()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)[1]
    script = re.search(r"<script>(.*?)</script>", html, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy.startswith(f"default-src 'none'; script-src 'sha256-{digest}';")
    assert "@import" not in html
    assert "url(http" not in html


def test_tables():
    page = Page("t")
    section = page.section("s")
    section.table(
        ["name", "share", "plain", "count"],
        [
            ["a", 0.1234, 1234.5678, 1234],
            ["b", Cell(-0.5, "best"), float("nan"), None],
            ["c", np.float64(0.5), True, np.int64(3)],
        ],
        formats={"share": ".1%"},
    )
    html = page.render()
    for text in ("12.3%", "−50.0%", "1235", "1,234", "50.0%", ">True<", ">3<", ">–<"):
        assert text in html
    assert 'class="number best"' in html
    with pytest.raises(ValueError, match="Row 0 of the table has 1 cells for 2 columns"):
        section.table(["a", "b"], [["x"]])
    with pytest.raises(ValueError, match="formats has"):
        section.table(["a"], [["x"]], formats={"z": ".1f"})
    with pytest.raises(ValueError, match="mark must be None or one of"):
        Cell(1, "better")


def draw():
    with page_style():
        figure = Figure(figsize=(4, 2))
        left, right = figure.subplots(1, 2)
        left.plot([1, 2], [3, 1], color="black")
        left.plot([1, 2], [1, 3])
        left.set_xlabel("neighbours")
        rng = np.random.default_rng(0)
        right.scatter(*rng.normal(size=(2, 500)), rasterized=True)
    return figure


def test_ids_of_figures_do_not_collide():
    page = Page("t")
    page.section("a").figure(draw()).figure(draw())
    page.section("b").figure(draw())
    html = page.render()
    svgs = re.findall(r"<svg.*?</svg>", html, re.DOTALL)
    assert len(svgs) == 3
    ids = re.findall(r'\bid="([^"]*)"', html)
    assert len(set(ids)) == len(ids)
    for svg in svgs:
        assert "#000000" not in svg
        assert "#ffffff" not in svg
        assert "var(--ink)" in svg
        assert ">neighbours</text>" in svg
        assert "<style" not in svg
        assert "<metadata" not in svg
        assert "DejaVu" not in svg
        inside = set(re.findall(r'\bid="([^"]*)"', svg))
        used = re.findall(r'(?:href="#|url\(#)([^")]*)', svg)
        assert used
        assert set(used) <= inside


def test_the_same_page_twice_is_the_same():
    def render():
        page = Page("t")
        page.section("s").figure(draw())
        return page.render()

    assert render() == render()


def test_user_style_has_no_effect_and_is_kept():
    import matplotlib as mpl

    with mpl.rc_context({"axes.facecolor": "black", "font.size": 40, "lines.linewidth": 9}):
        before = dict(mpl.rcParams)
        styled = Page("t")
        styled.section("s").figure(draw())
        assert dict(mpl.rcParams) == before
    plain = Page("t")
    plain.section("s").figure(draw())
    assert styled.render() == plain.render()


def test_a_page_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "page.html"
    page = full_page("half a pair \ud800")
    assert page.write(path) == path
    first = path.read_bytes()
    first.decode("utf-8")
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="No space left"):
        Page("other").write(path)
    assert path.read_bytes() == first
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]


def test_no_such_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"No such file or directory: .*none.page\.html"):
        Page("t").write(tmp_path / "none" / "page.html")


@pytest.mark.skipif(sys.platform == "win32", reason="file modes are those of POSIX")
def test_new_page_has_default_permissions(tmp_path):
    mask = os.umask(0o022)
    try:
        path = Page("t").write(tmp_path / "page.html")
    finally:
        os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644

"""The report in a real browser: chromium, driven through the protocol of chromedriver."""

import base64
import html
import io
import json
import re
import shutil
import subprocess
import urllib.request
from pathlib import Path

import numpy as np
import pytest

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))),
    None,
)
DRIVER = shutil.which("chromedriver")

pytestmark = pytest.mark.skipif(
    BROWSER is None or DRIVER is None, reason="needs chromium and chromedriver"
)

ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--window-size=1000,1400",
    "--hide-scrollbars",
)

#: Contrast of each text with what is behind it, by the formula of WCAG 2.
CONTRAST = """
const parse = s => s.match(/[\\d.]+/g).map(Number);
const luminance = c => {
  const [r, g, b] = c.slice(0, 3).map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const behind = e => {
  if (!e) return [255, 255, 255];
  const c = parse(getComputedStyle(e).backgroundColor);
  const a = c.length < 4 ? 1 : c[3];
  if (a === 1) return c;
  const below = behind(e.parentElement);
  return [0, 1, 2].map(i => a * c[i] + (1 - a) * below[i]);
};
const found = [];
for (const e of document.body.querySelectorAll('*')) {
  const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
  if (!own || ['SCRIPT', 'title'].includes(e.tagName) || !e.getClientRects().length) continue;
  const style = getComputedStyle(e);
  const ink = parse(e.ownerSVGElement ? style.fill : style.color);
  const [a, b] = [luminance(ink), luminance(behind(e))].sort((x, y) => y - x);
  found.push([(a + 0.05) / (b + 0.05), e.tagName, e.textContent.trim().slice(0, 40)]);
}
return found;
"""

#: Texts of figures that leave their figure, and pairs of texts that lie on each other.
LAYOUT = """
const bad = [];
for (const svg of document.querySelectorAll('figure svg')) {
  if (!svg.getClientRects().length) continue;
  const frame = svg.getBoundingClientRect();
  const texts = [...svg.querySelectorAll('text')]
    .filter(t => t.textContent.trim())
    .map(t => [t.textContent, t.getBoundingClientRect()]);
  for (const [text, r] of texts)
    if (r.left < frame.left - 2 || r.right > frame.right + 2 ||
        r.top < frame.top - 2 || r.bottom > frame.bottom + 2)
      bad.push(['outside', svg.getAttribute('aria-label'), text]);
  texts.forEach(([one, a], i) => texts.slice(i + 1).forEach(([two, b]) => {
    const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    // The box of a letter is higher than the letter.
    if (wide > 2 && high > 0.4 * Math.min(a.height, b.height, a.width, b.width))
      bad.push(['overlap', svg.getAttribute('aria-label'), one + ' / ' + two]);
  }));
}
return bad;
"""


#: Height of the letters of each text in a figure, in pixels on the screen.
TEXT_SIZES = """
return [...document.querySelectorAll('figure svg text')]
  .filter(t => t.getClientRects().length && t.textContent.trim())
  .map(t => {
    const m = t.getScreenCTM();
    return [parseFloat(getComputedStyle(t).fontSize) * Math.hypot(m.b, m.d), t.textContent];
  });
"""


class Browser:
    """A session of chromedriver, by its HTTP protocol."""

    def __init__(self, port, profile):
        self.base = f"http://127.0.0.1:{port}"
        options = {"binary": BROWSER, "args": [*ARGUMENTS, f"--user-data-dir={profile}"]}
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL"},
        }
        made = self.call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self.base += f"/session/{made['sessionId']}"

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.base + path, data, headers, method=method)
        # Not through a proxy: the driver is on this machine.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def run(self, script):
        return self.call("POST", "/execute/sync", {"script": script, "args": []})

    def devtools(self, command, **params):
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": params})

    def show(self, path, scheme):
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.devtools("Emulation.setEmulatedMedia", media="screen", features=[feature])
        self.call("POST", "/url", {"url": Path(path).as_uri()})

    def log(self):
        return self.call("POST", "/se/log", {"type": "browser"})

    def screenshot(self):
        from matplotlib.image import imread

        shot = self.devtools("Page.captureScreenshot", captureBeyondViewport=True)
        return imread(io.BytesIO(base64.b64decode(shot["data"])))[::5, ::5, :3]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """A browser for all tests here; it and its driver end with them."""
    driver = subprocess.Popen(
        [DRIVER, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        for line in driver.stdout:
            started = re.search(r"started successfully on port (\d+)", line)
            if started:
                break
        session = Browser(int(started[1]), tmp_path_factory.mktemp("profile"))
        try:
            yield session
        finally:
            session.call("DELETE", "")
    finally:
        driver.terminate()
        driver.wait(timeout=30)
        driver.stdout.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_report_reads_well(browser, report, scheme):
    browser.show(report, scheme)
    assert browser.log() == []
    assert browser.run("return document.scripts.length") == 1
    contrast = browser.run(CONTRAST)
    assert len(contrast) > 200
    poor = [entry for entry in contrast if entry[0] < 4.5]
    assert not poor
    image = browser.screenshot()
    assert len(np.unique(np.round(image.reshape(-1, 3) * 16), axis=0)) > 40
    paper = np.median(image, axis=(0, 1)).mean()
    assert paper > 0.95 if scheme == "light" else paper < 0.15


def test_tables_and_figures_are_present(browser, report):
    browser.show(report, "light")
    count = "return document.querySelectorAll(arguments[0] || '{}').length"
    assert browser.run(count.format("main section")) == 11
    assert browser.run(count.format("table tbody tr")) > 20
    sizes = browser.run(
        "return [...document.querySelectorAll('figure .wide svg')].map(s => {"
        "const r = s.getBoundingClientRect(); return [r.width, r.height]; })"
    )
    assert len(sizes) == 9
    assert min(min(size) for size in sizes) > 80
    # Every image inside a figure was read.
    assert browser.run(
        "return [...document.querySelectorAll('.wide image')].every(i => i.getBBox().width > 0)"
    )
    assert browser.run("return document.querySelectorAll('nav a').length") == 11
    assert browser.run(
        "return [...document.querySelectorAll('nav a')]"
        ".every(a => document.querySelector(a.getAttribute('href')))"
    )


def test_no_text_is_cut_off_or_overlaps(browser, report):
    browser.show(report, "light")
    assert browser.run(LAYOUT) == []


@pytest.fixture
def phone(browser, report):
    """Show the report on a screen that is 360 pixels wide."""
    size = {"width": 360, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.devtools("Emulation.setDeviceMetricsOverride", **size)
    browser.show(report, "light")
    yield browser
    browser.devtools("Emulation.clearDeviceMetricsOverride")


def test_a_phone_shows_everything_without_scrolling_sideways(phone):
    assert phone.run("return document.documentElement.scrollWidth") == 360
    # A confusion matrix of many classes scrolls within its frame; one of three fits.
    wide = phone.run(
        "return [...document.querySelectorAll('main *')]"
        ".filter(e => !e.closest('svg') && e.getClientRects().length)"
        ".filter(e => e.getBoundingClientRect().right > 361)"
        ".map(e => e.tagName + ' ' + e.className + ' ' + e.textContent.slice(0, 40))"
    )
    assert wide == []
    assert phone.run(LAYOUT) == []


@pytest.mark.parametrize("width", [360, 700, 1000, 1400])
def test_text_of_charts_is_at_least_ten_pixels_high(browser, report, width):
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.devtools("Emulation.setDeviceMetricsOverride", **size)
    try:
        browser.show(report, "light")
        sizes = browser.run(TEXT_SIZES)
    finally:
        browser.devtools("Emulation.clearDeviceMetricsOverride")
    assert len(sizes) > 50
    assert [entry for entry in sizes if entry[0] < 10] == []


def test_a_table_is_sorted_by_its_headings(browser, report):
    browser.show(report, "light")
    table = "document.querySelector('table.sortable')"
    column = f"[...{table}.tBodies[0].rows].map(r => r.cells[%d].textContent)"
    before = browser.run("return " + column % 0)
    click = f"{table}.tHead.rows[0].cells[%d].querySelector('button').click()"

    browser.run(click % 1)
    texts = browser.run("return " + column % 1)
    # A method without a score comes last in both directions.
    assert texts[-1] == ""
    numbers = [float(text) for text in texts[:-1]]
    assert numbers == sorted(numbers)
    assert browser.run(f"return {table}.querySelector('th').ariaSort") is None
    assert browser.run(f"return {table}.tHead.rows[0].cells[1].ariaSort") == "ascending"
    browser.run(click % 1)
    assert browser.run("return " + column % 1) == [*texts[:-1][::-1], ""]
    browser.run(click % 0)
    assert browser.run("return " + column % 0) == sorted(before, key=sort_key)
    assert browser.log() == []


def sort_key(text):
    """Sort as browsers do: punctuation first, without regard to case."""
    return (text[0].isalpha(), text.lower())


def test_without_script_the_page_has_the_same_content(browser, report):
    browser.show(report, "light")
    text = "return document.querySelector('main').textContent.replace(/\\s+/g, ' ')"
    with_script = browser.run(text)
    browser.devtools("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.show(report, "light")
        plain = report.read_text("utf-8")
    finally:
        browser.devtools("Emulation.setScriptExecutionDisabled", value=False)
    assert "<button" not in plain
    browser.show(report, "light")
    assert browser.run(text) == with_script
    main = re.sub(r"<[^>]*>", "", plain[plain.index("<main>") : plain.index("</main>")])
    assert " ".join(html.unescape(main).split()) == " ".join(with_script.split())


def test_values_are_shown_on_hover(browser, report):
    browser.show(report, "light")
    titles = browser.run(
        "return [...document.querySelectorAll('.wide svg title')].map(t => t.textContent)"
    )
    assert any(re.fullmatch(r"generative metric: [\d.]+% ± [\d.]+, 5 folds", t) for t in titles)
    assert any(re.fullmatch(r"generative metric: [\d.]+% with 9 neighbours", t) for t in titles)
    assert any(re.fullmatch(r"generative metric, fit: [\d.]+ m?s", t) for t in titles)


def test_it_prints_on_light_paper_in_few_pages(browser, report):
    browser.show(report, "dark")
    printed = base64.b64decode(browser.call("POST", "/print", {"background": True}))
    pages = len(re.findall(rb"/Type\s*/Page\b", printed))
    assert 3 <= pages <= 12
    dark = {"name": "prefers-color-scheme", "value": "dark"}
    browser.devtools("Emulation.setEmulatedMedia", media="print", features=[dark])
    paper = "return getComputedStyle(document.body).backgroundColor"
    assert browser.run(paper) == "rgb(255, 255, 255)"
    assert browser.run("return getComputedStyle(document.querySelector('nav')).display") == "none"

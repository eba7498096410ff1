"""The report in a real browser: chromium, driven through the protocol of chromedriver."""

import base64
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
  for (; e; e = e.parentElement) {
    const c = parse(getComputedStyle(e).backgroundColor);
    if (c.length < 4 || c[3] > 0) return c;
  }
  return [255, 255, 255];
};
const found = [];
for (const e of document.body.querySelectorAll('*')) {
  const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
  if (!own) continue;
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
for (const svg of document.querySelectorAll('svg')) {
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
    assert browser.run("return window.alert.name && document.scripts.length") == 0
    contrast = browser.run(CONTRAST)
    assert len(contrast) > 200
    poor = [entry for entry in contrast if entry[0] < 4.5]
    assert not poor
    image = browser.screenshot()
    assert len(np.unique(np.round(image.reshape(-1, 3) * 16), axis=0)) > 40
    paper = np.median(image, axis=(0, 1)).mean()
    assert paper > 0.95 if scheme == "light" else paper < 0.15


def test_tables_and_pictures_are_there(browser, report):
    browser.show(report, "light")
    count = "return document.querySelectorAll(arguments[0] || '{}').length"
    assert browser.run(count.format("main section")) == 9
    assert browser.run(count.format("table tbody tr")) > 20
    sizes = browser.run(
        "return [...document.querySelectorAll('figure svg')].map(s => {"
        "const r = s.getBoundingClientRect(); return [r.width, r.height]; })"
    )
    assert len(sizes) == 9
    assert min(min(size) for size in sizes) > 80
    # Every image inside a figure was read.
    assert browser.run(
        "return [...document.querySelectorAll('svg image')].every(i => i.getBBox().width > 0)"
    )
    assert browser.run("return document.querySelectorAll('nav a').length") == 9
    assert browser.run(
        "return [...document.querySelectorAll('nav a')]"
        ".every(a => document.querySelector(a.getAttribute('href')))"
    )


def test_no_text_is_cut_off_or_lies_on_another(browser, report):
    browser.show(report, "light")
    assert browser.run(LAYOUT) == []


def test_nothing_is_wider_than_a_telephone(browser, report):
    browser.show(report, "light")
    browser.devtools(
        "Emulation.setDeviceMetricsOverride",
        width=390,
        height=800,
        deviceScaleFactor=1,
        mobile=True,
    )
    try:
        assert browser.run("return document.documentElement.scrollWidth") <= 392
    finally:
        browser.devtools("Emulation.clearDeviceMetricsOverride")


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

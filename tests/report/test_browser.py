"""The page in a real browser (headless Chromium): drawn, interactive, readable anywhere, silent on the network."""

from __future__ import annotations

import base64
import dataclasses
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from synthetic_evidence import hostile, mountain_car

from lpm.report.analysis import analyse
from lpm.report.html import write_page
from lpm.report.pages import write_pages

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
CHROMEDRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (CHROMIUM and CHROMEDRIVER), reason="needs chromium and chromedriver")

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
)  # fmt: skip
SECTION = "#mountain-car-short"


class Browser:
    """A page in a window."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, path: Path, width: int = 1200, dark: bool = False) -> None:
        self.driver.get("about:blank")
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        self.driver.get_log("browser")
        self.driver.get_log("performance")
        self.driver.get(path.as_uri())

    def js(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def all(self, query: str) -> list[Any]:
        return self.driver.find_elements("css selector", query)

    def one(self, query: str) -> Any:
        return self.driver.find_element("css selector", query)

    def count(self, query: str) -> int:
        return self.js("return document.querySelectorAll(arguments[0]).length", query)

    def click(self, query: str) -> None:
        """As a user does: bring it into view, then press."""
        element = self.one(query)
        self.js("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", element)
        element.click()

    def grey_method(self) -> str:
        """A method whose lines are grey when the page opens."""
        return str(self.one(f"{SECTION} figure.chart path.line.grey").get_attribute("data-method"))

    def background(self) -> tuple[int, ...]:
        text = self.js("return getComputedStyle(document.body).backgroundColor")
        return tuple(int(part) for part in text.removeprefix("rgb(").removesuffix(")").split(","))


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    selenium = pytest.importorskip("selenium.webdriver")
    service = pytest.importorskip("selenium.webdriver.chrome.service")
    options = selenium.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = selenium.Chrome(options=options, service=service.Service(CHROMEDRIVER))
    try:
        yield Browser(driver)
    finally:
        driver.quit()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    page = tmp_path_factory.mktemp("page") / "report.html"
    write_page(page, [analyse(mountain_car())])
    return page


def test_opens_without_an_error_and_draws_everything(browser: Browser, path: Path) -> None:
    browser.open(path)
    assert browser.js("return document.documentElement.dataset.ready") == "true"
    assert browser.driver.get_log("browser") == []
    charts = browser.count("figure.chart")
    assert charts == browser.count("figure.chart svg.plot") == 8
    first = f"{SECTION} .pane[data-kind=curves]:not([hidden]) figure.chart:first-child"
    assert browser.count(f"{first} path.line") == 9
    assert browser.count(f"{first} polygon.band") == 9
    assert 0 < browser.count(f"{first} path.line.grey") <= 9 - 4
    browser.click(f"{SECTION} details.fold:not([open]):has(canvas) summary")
    assert all("NaN" not in line.get_attribute("d") for line in browser.all("path.line"))
    pixels = (
        "const c = document.querySelector('canvas.heat'); return c.getContext('2d').getImageData(5, 5, 1, 1).data[3]"
    )
    assert browser.js(pixels) == 255


def test_a_method_can_be_coloured_hidden_and_shown(browser: Browser, path: Path) -> None:
    browser.open(path)
    method = browser.grey_method()
    lines = f"{SECTION} figure.chart path.line[data-method={method}]"
    button = f"{SECTION} .legend button[data-method={method}]"
    assert browser.count(lines) == browser.count(f"{lines}.grey") == 4
    assert browser.one(button).get_attribute("aria-pressed") == "mixed"
    browser.click(button)
    assert browser.count(lines) == 4
    assert browser.count(f"{lines}.grey") == 0
    assert browser.one(button).get_attribute("aria-pressed") == "true"
    browser.click(button)
    assert browser.count(lines) == 0
    assert browser.one(button).get_attribute("aria-pressed") == "false"
    assert browser.count(f"{SECTION} path.line[data-method=lpm]") == 4
    browser.click("button.folds")
    assert not browser.one(f"{SECTION} .maps figure[data-method={method}]").is_displayed()
    assert browser.one(f"{SECTION} .maps figure[data-method=lpm]").is_displayed()
    browser.click(button)
    assert browser.count(lines) == browser.count(f"{lines}.grey") == 4


def test_what_is_touched_gets_its_colour(browser: Browser, path: Path) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    browser.open(path)
    method = browser.grey_method()
    line = f"{SECTION} .pane[data-kind=curves]:not([hidden]) path.line[data-method={method}]"
    colour = "return getComputedStyle(document.querySelector(arguments[0])).stroke"
    faded = browser.js(colour, line)
    button = browser.one(f"{SECTION} .legend button[data-method={method}]")
    browser.js("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", button)
    ActionChains(browser.driver).move_to_element(button).perform()
    assert browser.js(colour, line) != faded
    ActionChains(browser.driver).move_to_element(browser.one(f"{SECTION} h2")).perform()
    assert browser.js(colour, line) == faded


def test_the_ranking_is_the_first_thing(browser: Browser, path: Path) -> None:
    browser.open(path, width=1400)
    assert browser.one("main section").get_attribute("id") == "ranking"
    assert browser.one("#ranking h2").text == "LPM comes first"
    bars = browser.all("#ranking figure.chart g[data-method]")
    assert len(bars) == 9
    assert bars[0].get_attribute("data-method") == "lpm"
    assert browser.js("return document.querySelector('#ranking figure.chart').getBoundingClientRect().top") < 600


def test_log_scale(browser: Browser, path: Path) -> None:
    browser.open(path)
    browser.click(f"{SECTION} button[data-kind=curves][data-pane=bonus]")
    line = f"{SECTION} .pane[data-kind=curves][data-pane=bonus] path.line[data-method=lpm]"
    assert browser.one(line).is_displayed()
    before = browser.one(line).get_attribute("d")
    browser.click(f"{SECTION} button.log")
    after = browser.one(line).get_attribute("d")
    assert before != after
    assert "NaN" not in after
    browser.click(f"{SECTION} button.log")
    assert browser.one(line).get_attribute("d") == before


def test_the_log_scale_leaves_no_chart_without_an_axis(browser: Browser, path: Path) -> None:
    """A curve may begin at zero: it once became NaN, and the chart empty."""
    browser.open(path)
    browser.click(f"{SECTION} button.log")
    assert (
        browser.js("return [...document.querySelectorAll('svg.plot')].filter((s) => /NaN/.test(s.innerHTML)).length")
        == 0
    )


def test_every_experiment_has_its_own_names_of_methods(browser: Browser, tmp_path: Path) -> None:
    first = dataclasses.replace(mountain_car(methods=2), name="maze", methods={"lpm": "LPM (log)", "ensemble": "E"})
    page = tmp_path / "two.html"
    write_page(page, [analyse(first), analyse(mountain_car(methods=2))])
    browser.open(page)
    for section, names in (("#maze-short", ["LPM (log)", "E"]), (SECTION, ["LPM", "Ensemble"])):
        assert [button.text for button in browser.all(f"{section} .legend button")] == names
        strip = f"{section} .pane[data-kind=scores]:not([hidden]) figure.chart:first-child text.name"
        assert [node.text for node in browser.all(strip)] == names


def test_hover_and_keys_show_values(browser: Browser, path: Path) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    browser.open(path)
    figure = browser.one(f"{SECTION} .pane[data-kind=curves]:not([hidden]) figure.chart")
    browser.js("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", figure)
    ActionChains(browser.driver).move_to_element(figure.find_element("css selector", "svg.plot")).perform()
    text = figure.find_element("css selector", ".tip").text
    assert "environment steps:" in text
    assert "LPM" in text
    assert "[" in text
    figure.send_keys(Keys.ARROW_RIGHT)
    assert figure.find_element("css selector", ".tip").text != text
    figure.send_keys(Keys.ESCAPE)
    assert figure.find_elements("css selector", ".tip") == []
    strip = browser.one(f"{SECTION} .pane[data-kind=scores] figure.chart")
    browser.js("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", strip)
    ActionChains(browser.driver).move_to_element(
        strip.find_element("css selector", "g[data-method=lpm] rect")
    ).perform()
    assert "76.5 ± 9.08" in strip.find_element("css selector", ".tip").text


def test_light_and_dark(browser: Browser, path: Path) -> None:
    browser.open(path)
    assert min(browser.background()) > 200
    browser.open(path, dark=True)
    assert max(browser.background()) < 60
    browser.click("button.theme")
    assert min(browser.background()) > 200
    browser.js("localStorage.clear()")


CUT_TABLES = "return [...document.querySelectorAll('.scroll')].filter((e) => e.scrollWidth > e.clientWidth + 1).length"
CUT_LABELS = """
return [...document.querySelectorAll('svg.plot')].flatMap((plot) => {
  const box = plot.getBoundingClientRect();
  return box.width === 0 ? [] : [...plot.querySelectorAll('text')].filter((text) => {
    const own = text.getBoundingClientRect();
    return own.left < box.left - 1 || own.right > box.right + 1 || text.textContent.endsWith('…');
  }).map((text) => text.textContent);
})"""


@pytest.mark.parametrize("width", [320, 390, 500, 768, 800, 1000, 1400])
def test_nothing_is_cut_off_at_any_width(browser: Browser, path: Path, width: int) -> None:
    browser.open(path, width=width)
    browser.click("button.folds")
    assert browser.count("details.fold:not([open])") == 0
    assert browser.js("return document.documentElement.scrollWidth") <= width
    assert browser.js(CUT_TABLES) == 0
    assert browser.js(CUT_LABELS) == []


@pytest.mark.parametrize("width", [390, 800])
def test_in_a_narrow_window_the_bar_is_one_line_that_follows_the_reader(
    browser: Browser, tmp_path: Path, width: int
) -> None:
    page = tmp_path / "eight.html"
    write_page(page, [analyse(dataclasses.replace(mountain_car(2, 2, 5), name=f"experiment {i}")) for i in range(8)])
    browser.open(page, width=width)
    assert browser.js("return document.querySelector('nav.bar').offsetHeight") < 70  # it stays on the screen: 900 high
    browser.js("""
      const last = [...document.querySelectorAll('nav.bar a')].at(-1);
      document.getElementById(last.hash.slice(1)).scrollIntoView({behavior: 'instant'})""")
    inside = """
      const link = document.querySelector('nav.bar a:last-of-type'), row = link.parentElement.getBoundingClientRect();
      const own = link.getBoundingClientRect();
      return link.hasAttribute('aria-current') && own.left >= row.left - 1 && own.right <= row.right + 1"""
    waiting = pytest.importorskip("selenium.webdriver.support.ui").WebDriverWait(browser.driver, 10)
    waiting.until(lambda _: browser.js(inside))


def test_sections_fold(browser: Browser, path: Path) -> None:
    browser.open(path)
    assert browser.one(f"{SECTION} .legend").is_displayed()
    assert not browser.one(f"{SECTION} table.claims").is_displayed()
    browser.click("button.folds")
    assert browser.one(f"{SECTION} table.claims").is_displayed()
    assert browser.one("button.folds").text == "Close all"
    browser.click("button.folds")
    assert not browser.one(f"{SECTION} .legend").is_displayed()


def test_print_shows_what_is_open_and_no_controls(browser: Browser, path: Path) -> None:
    browser.open(path)
    opened = browser.count("details[open]")
    pdf = base64.b64decode(browser.driver.execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert pdf.startswith(b"%PDF")
    assert pages_of(pdf) <= 5
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert browser.one(f"{SECTION} .pane[data-kind=scores]").is_displayed()
    assert not any(bar.is_displayed() for bar in browser.all("nav.bar, .controls, details.fold:not([open])"))
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert browser.count("details[open]") == opened


def pages_of(pdf: bytes) -> int:
    return len(re.findall(rb"/Type\s*/Page\b", pdf))


def test_a_page_of_eight_experiments_prints_on_less_than_twenty_sheets(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "eight.html"
    write_page(page, [analyse(dataclasses.replace(mountain_car(), name=f"experiment {i}")) for i in range(8)])
    browser.open(page)
    pdf = base64.b64decode(browser.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"])
    assert 5 < pages_of(pdf) < 20


@pytest.mark.slow
def test_the_stored_results_print_on_less_than_twenty_sheets(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "all.html"
    write_pages([Path(__file__).parents[2] / "results"], page)
    browser.open(page, width=1400)
    assert browser.count("#mountain-car-short table.scores.stacked") == 0, "a window of 1400 is wide enough for Table 2"
    pdf = base64.b64decode(browser.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"])
    assert 5 < pages_of(pdf) < 20


def test_nothing_is_requested(browser: Browser, path: Path) -> None:
    import json

    browser.open(path)
    browser.click("button.theme")
    messages = [json.loads(entry["message"])["message"] for entry in browser.driver.get_log("performance")]
    urls = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    assert [url for url in urls if not url.startswith(("file:", "data:", "about:"))] == []
    assert any(url == path.as_uri() for url in urls)
    browser.js("localStorage.clear()")


@pytest.mark.parametrize(
    ("name", "width", "dark"), [("light", 1200, False), ("dark", 1200, True), ("phone", 390, False)]
)
def test_screenshots(browser: Browser, path: Path, tmp_path: Path, name: str, width: int, dark: bool) -> None:
    """Pictures for the docs: LPM_SCREENSHOTS=docs/images LPM_REPORT=report.html pytest tests/report/test_browser.py"""
    page = Path(os.environ.get("LPM_REPORT", path)).resolve()
    picture = Path(os.environ.get("LPM_SCREENSHOTS", tmp_path)) / f"report_{name}.png"
    browser.open(page, width=width, dark=dark)
    clip = {"x": 0, "y": 0, "width": width, "height": 1500, "scale": 1}
    shot = browser.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
    picture.write_bytes(base64.b64decode(shot["data"]))
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert browser.driver.get_log("browser") == []


def test_hostile_names_are_shown_as_text(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "hostile.html"
    write_page(
        page, [analyse(hostile()), analyse(mountain_car(seeds=1, methods=2))], ["<script>window.hacked=3</script>"]
    )
    browser.open(page)
    assert browser.driver.get_log("browser") == []
    assert browser.js("return window.hacked") is None
    assert browser.js("return document.documentElement.dataset.ready") == "true"
    buttons = [button.text for button in browser.all(".legend button")]
    assert "</script><script>window.hacked=1</script>" in buttons
    browser.click(".legend button")
    browser.click("button.log")
    assert browser.js("return window.hacked") is None
    assert browser.driver.get_log("browser") == []

"""Take docs/images/report.png anew: the first screen of `lpm report results`.

    python -m lpm_paper.report_picture     # needs Chromium, ChromeDriver and selenium

The ranking that it shows is stored in the picture, so that `lpm_paper/refresh.py` can say when it is out of date.
"""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lpm.report.analysis import Analysis
from lpm.report.pages import write_pages
from lpm.report.ranking import rank

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "images" / "report.png"
WIDTH, HEIGHT = 1400, 1000


def shown(analyses: Sequence[Analysis]) -> list[list[Any]]:
    """What the first screen says: methods in order, with their scores as printed."""
    ranking = rank(analyses)
    return [] if ranking is None else [[place.label, f"{place.score.value:.2f}"] for place in ranking.places]


def take(page: Path, analyses: Sequence[Analysis], path: Path) -> None:
    """The first screen of a page as a picture."""
    from PIL import Image, PngImagePlugin
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.support.ui import WebDriverWait

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for word in ("headless", "no-sandbox", "disable-gpu", "hide-scrollbars", f"window-size={WIDTH},{HEIGHT}"):
        options.add_argument(f"--{word}")
    browser = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver") or ""))
    try:
        size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.get(page.as_uri())
        # charts are drawn by the page itself, on a busy machine after it counts as loaded
        WebDriverWait(browser, 60).until(
            lambda b: b.execute_script("return document.querySelector('main svg') !== null")
        )
        image = Image.open(io.BytesIO(browser.get_screenshot_as_png())).convert("RGB")
    finally:
        browser.quit()
    notes = PngImagePlugin.PngInfo()
    notes.add_text("Description", json.dumps(shown(analyses)))
    image.quantize(128).save(path, optimize=True, pnginfo=notes)


if __name__ == "__main__":
    with TemporaryDirectory() as name:
        page = Path(name) / "index.html"
        take(page, write_pages([ROOT / "results"], page).analyses, PICTURE)
        print(f"taken: {PICTURE.relative_to(ROOT)}")

"""Take docs/images/report.png anew: the first screen of `lpm report results`.

    python tools/report_picture.py     # needs Chromium, ChromeDriver and selenium

The ranking that it shows is stored in the picture, so that `lpm_paper.refresh` can tell when it is out of date.
"""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from lpm.report.analysis import Analysis
from lpm.report.pages import write_pages
from lpm_paper.refresh import REPORT_PICTURE, ROOT, first_screen

WIDTH, HEIGHT = 1400, 1000


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
    notes.add_text("Description", json.dumps(first_screen(analyses)))
    image.quantize(128).save(path, optimize=True, pnginfo=notes)


if __name__ == "__main__":
    with TemporaryDirectory() as name:
        page = Path(name) / "index.html"
        take(page, write_pages([ROOT / "results"], page).analyses, REPORT_PICTURE)
        print(f"taken: {REPORT_PICTURE.relative_to(ROOT)}")

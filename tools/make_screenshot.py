"""Make the documentation's picture of the explorer: ``python tools/make_screenshot.py MODEL PICTURE`` (`make screenshot` calls it).

A real Chromium (on the path, or VPUNN_BROWSER) asks the model one question; the picture is kept small by 128 colours.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
from pathlib import Path
from urllib.parse import urlencode

from PIL import Image
from playwright.sync_api import sync_playwright

from vpunn.web.opening import open_model
from vpunn.web.server import Running, warm

QUESTION = "a small yellow bird that sings in a cage"


def main(model: str, picture: str) -> None:
    """Ask, wait until nothing moves, and write the picture."""
    browser_path = shutil.which(os.environ.get("VPUNN_BROWSER") or "chromium")
    if browser_path is None:
        sys.exit("no Chromium on the path and none in VPUNN_BROWSER; `make browser` installs it")
    subject = open_model(Path(model))
    with Running(subject) as url, sync_playwright() as driver:
        warm(subject).join()
        browser = driver.chromium.launch(
            executable_path=browser_path, args=["--headless", "--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_context(viewport={"width": 1400, "height": 860}, color_scheme="light").new_page()
        page.goto(f"{url}#{urlencode({'tab': 'ask', 'text': QUESTION, 'risk': 0.1})}")
        page.wait_for_selector("#stopped", timeout=120_000)
        page.wait_for_timeout(3000)
        shot = Image.open(io.BytesIO(page.screenshot()))
        browser.close()
    shot.convert("RGB").quantize(128).save(picture, optimize=True)
    print(f"written: {picture}, {Path(picture).stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(*sys.argv[1:3])

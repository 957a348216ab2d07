"""Screenshots of the explorer for its how-to, by Playwright and Chromium: ``python docs/make/screenshots.py``."""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from PIL import Image
from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

import elegans as el
from elegans.explorer.report import write_report

IMAGES = Path(__file__).parents[1] / "images"
QUIET = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")
SIZE: ViewportSize = {"width": 900, "height": 640}
"""Pixels of a window."""
SIZES: dict[str, ViewportSize] = {
    "cell": {"width": 1100, "height": 780},
    "curves": {"width": 900, "height": 780},
    "parameters": {"width": 900, "height": 1000},
}


def train(place: Path) -> None:
    """Train a sweep of two thousand small networks with a probe."""
    trial = el.Trial(
        task=el.SparseParity(n=14, k=2),
        regime=el.Sample(100),
        model=el.MLP(width=10),
        training=el.SGD(steps=1000, weight_decay=0.01, stopping=el.StoppingRule(every=50, examples=500)),
    )
    axes = {
        "model.width": [4, 8, 16, 32, 64, 128],
        "regime.size": [20, 40, 60, 80, 120, 160, 320, 640],
        "model.init": ["dense", "sparse:2"],
    }
    el.run(el.grid(trial, axes, seeds=20), place, probes=[el.probes.FourierGap(every=50)], progress=False)


@contextmanager
def served(place: Path) -> Iterator[str]:
    """Yield the address of the explorer."""
    command = [sys.executable, "-m", "elegans", "explore", str(place), "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        found = re.search(r"http://\S+", server.stdout.readline())
        assert found
        yield found[0]
        server.terminate()


def taken(browser: Browser, address: str, name: str, scheme: Literal["light", "dark"], wait: str) -> None:
    """Take a picture of a page as it looks in a window."""
    page: Page = browser.new_page(viewport=SIZES.get(name, SIZE), color_scheme=scheme, device_scale_factor=1.25)
    page.set_default_timeout(120_000)
    page.goto(address)
    page.wait_for_selector(wait)
    page.wait_for_timeout(1500)
    file = IMAGES / f"explore-{name}-{scheme}.png"
    page.screenshot(path=file)
    Image.open(file).convert("RGB").quantize(256).save(file, optimize=True)  # a third of the size
    page.close()


def main() -> None:
    """Write two pictures of each view, in light and in dark colours."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        store = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(folder) / "runs.db"
        if not store.exists():
            train(store)
        report = Path(folder) / "report.html"
        write_report(store, report)
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=QUIET)
        with served(store) as address:
            schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
            for scheme in schemes:
                drawn = "main .js-plotly-plot .main-svg"
                taken(browser, address, "map", scheme, drawn)
                taken(browser, f"{address}?view=cell&cell=21", "cell", scheme, f"section:nth-of-type(2) {drawn[5:]}")
                taken(browser, f"{address}?view=curves&cells=19,21,23,25", "curves", scheme, drawn)
                parallel = f"section[aria-label^=Each] {drawn[5:]}"
                taken(browser, f"{address}?view=parameters", "parameters", scheme, parallel)
                taken(browser, f"{address}?view=compare&by=model.init", "compare", scheme, drawn)
                taken(browser, f"{report.as_uri()}#view=overview", "report", scheme, "main section")
        browser.close()


if __name__ == "__main__":
    main()

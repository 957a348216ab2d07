"""Look at the built site in a browser: ``python docs/make/crawl.py SITE [PAGE…]``, with Playwright and Chromium.

Each page is opened at two widths and in two colour schemes. What is wrong is printed, and makes the exit status 1: a
page that is wider than its window, an error in its console, a request to another host.
"""

import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Page, sync_playwright
from screenshots import QUIET

WIDTHS = (1400, 400)
"""Pixels of a window on a desk and on a phone."""
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
PATIENCE = 180_000
"""Milliseconds that a page may take: the machine may be busy."""
WIDER = """() => {
  const room = document.documentElement.clientWidth;
  const all = [...document.querySelectorAll("body *")];
  const scrolled = (one) => one && (getComputedStyle(one).overflowX !== "visible" || scrolled(one.parentElement));
  const outside = all.find((one) => one.getBoundingClientRect().right > room + 1 && !scrolled(one.parentElement));
  return document.documentElement.scrollWidth > room ? (outside ?? document.body).outerHTML.slice(0, 120) : "";
}"""
"""Returns the beginning of what makes a page wider than its window, or nothing."""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Say nothing about requests."""


@contextmanager
def served(site: Path) -> Iterator[str]:
    """Yield the address of a folder, which a thread serves."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def complaints(page: Page, address: str, name: str) -> list[str]:
    """Return what is wrong with a page of the site."""
    found: list[str] = []
    page.on("pageerror", lambda error: found.append(f"error: {error}"))
    page.on("console", lambda message: found.append(f"console: {message.text}") if message.type == "error" else None)
    page.on("request", lambda request: None if _inside(request.url, address) else found.append(f"asks {request.url}"))
    page.goto(address + name)
    page.wait_for_load_state("networkidle")
    wider = page.evaluate(WIDER)
    return [*found, *([f"wider than its window: {wider}"] if wider else [])]


def _inside(url: str, address: str) -> bool:
    return url.startswith((address, "data:", "blob:"))


def main(site: Path, names: list[str]) -> int:
    """Print what is wrong with pages of a site, all of them by default; return 1 if anything is."""
    names = names or sorted(str(path.parent.relative_to(site)) for path in site.rglob("index.html"))
    wrong = 0
    with sync_playwright() as playwright, served(site) as address:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=QUIET)
        for width, scheme in product(WIDTHS, SCHEMES):
            context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
            context.set_default_timeout(PATIENCE)
            for name in names:
                page = context.new_page()
                for found in complaints(page, address, "" if name == "." else f"{name}/"):
                    print(f"{name} at {width} in {scheme}: {found}")
                    wrong += 1
                page.close()
        browser.close()
    print(f"{len(names)} pages, {wrong} complaints")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))

"""Look at the built site in a browser: ``make crawl``, or ``python docs/make/crawl.py SITE [PAGE…]``.

It needs Chromium. Each page is opened at two widths and in two colour schemes; a page may also be an address, such as
the explorer's. What is wrong is printed, and makes the exit status 1: a page that is wider than its window, an error in
its console, a request to another host, text of little contrast, and what the keyboard does not reach or show.
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
WRONG = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")
"""Returns what is wrong with the open page."""
FOCUS = """() => {
  const one = document.activeElement;
  const stays = one === window.lastFocused && one !== document.body;
  window.lastFocused = one;
  const shown = (all) => all.some((each) => each && each.matches(":focus-visible, :focus-visible *, :focus-visible + *")
    && (getComputedStyle(each).outlineStyle !== "none" || getComputedStyle(each).boxShadow !== "none"));
  const seen = one === document.body || shown([one, one.nextElementSibling, one.firstElementChild]);
  return [one.outerHTML.slice(0, 100), seen, stays];
}"""
"""Returns the beginning of what the keyboard is on, whether one sees that it is, and whether it was there before."""
CONTENT = """() => {
  const article = document.querySelector("article") ?? document.body;
  article.tabIndex = -1;
  article.focus();
}"""
"""Puts the keyboard before the text of a page, below its navigation."""
TABS = 15
"""How many times the key Tab is pressed: from the top of a page, and again from the top of its text."""


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


def complaints(page: Page, address: str) -> list[str]:
    """Return what is wrong with a page."""
    host = "/".join(address.split("/")[:3])
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    page.on("console", lambda message: wrong.append(f"console: {message.text}") if message.type == "error" else None)
    page.on("request", lambda request: None if _inside(request.url, host) else wrong.append(f"asks {request.url}"))
    page.goto(address)
    page.wait_for_load_state("networkidle")
    return [*wrong, *page.evaluate(WRONG), *_unseen(page)]


def _unseen(page: Page) -> list[str]:
    """Return what has the keyboard's focus without showing it, and where the focus stays."""
    wrong = []
    for pressed in range(2 * TABS):
        if pressed == TABS:
            page.evaluate(CONTENT)
        page.keyboard.press("Tab")
        focused, seen, stays = page.evaluate(FOCUS)
        if not seen:
            wrong.append(f"focus cannot be seen: {focused}")
        if stays:
            wrong.append(f"Tab does not leave: {focused}")
    return wrong


def _inside(url: str, host: str) -> bool:
    return url.startswith((f"{host}/", "data:", "blob:"))


def main(site: Path, names: list[str]) -> int:
    """Print what is wrong with pages of a site, all of them by default; return 1 if anything is."""
    pages = sorted(str(path.parent.relative_to(site)) for path in site.rglob("index.html"))
    if unknown := [name for name in names if "://" not in name and str(Path(name)) not in pages]:
        print(f"pages must be folders of {site} with an index.html, as experiments/grokking: {', '.join(unknown)}")
        return 2
    names = names or pages
    wrong = 0
    with sync_playwright() as playwright, served(site) as address:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=QUIET)
        for width, scheme in product(WIDTHS, SCHEMES):
            context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
            context.set_default_timeout(PATIENCE)
            for name in names:
                page = context.new_page()
                whole = name if "://" in name else address if name == "." else f"{address}{name.rstrip('/')}/"
                for found in complaints(page, whole):
                    print(f"{name} at {width} in {scheme}: {found}", flush=True)
                    wrong += 1
                page.close()
        browser.close()
    print(f"{len(names)} pages, {wrong} complaints")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))

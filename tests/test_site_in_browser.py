"""The site's script and styles in a headless Chromium."""

import shutil
from pathlib import Path

import pytest

driver = pytest.importorskip("playwright.sync_api", reason="needs Playwright for Python")
crawl = pytest.importorskip("crawl")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium, as in `apt-get install chromium`"),
    pytest.mark.timeout(600),
]
ASSETS = Path(__file__).parents[1] / "docs" / "assets"
WIDE = "<span style='display: inline-block; width: 60rem'>wide</span>"
PAGE = f"""<!doctype html><label class="md-header__button" for="__drawer"></label><article class="md-typeset">
<p class="formula">{WIDE}</p>
<div class="md-typeset__scrollwrap" style="overflow-x: auto"><table><tr><td>{WIDE}</td></tr></table></div>
<p class="narrow formula">narrow</p>
<details><summary>Folded</summary><pre style="overflow-x: auto">{WIDE}</pre></details>
</article>"""


@pytest.mark.slow
def test_what_scrolls_sideways_is_reached_by_the_keyboard_only_while_it_scrolls() -> None:
    with driver.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=("--no-sandbox", "--disable-gpu"))
        page = browser.new_page(viewport={"width": 400, "height": 900})
        page.set_content(PAGE)
        for name in ("site.css", "calculators.css"):
            page.add_style_tag(path=ASSETS / name)
        page.add_script_tag(path=ASSETS / "site.js")
        page.evaluate("dispatchEvent(new Event('load'))")
        page.locator("summary").click()
        page.wait_for_selector("pre[tabindex='0']")
        assert page.locator("article [tabindex='0']").count() == 3
        assert page.evaluate(crawl.WRONG) == []
        page.set_viewport_size({"width": 1400, "height": 900})
        page.wait_for_function("!document.querySelector('article [tabindex]')")
        browser.close()


def test_names_that_are_no_pages_are_refused_before_a_browser_is_started(tmp_path, capsys):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "index.html").touch()
    assert crawl.main(tmp_path, ["home/", "away"]) == 2
    assert capsys.readouterr().out.rstrip().endswith(": away")

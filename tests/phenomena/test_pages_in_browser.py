"""The pages that ``elegans show`` writes, opened from disk in a headless Chromium without a network."""

import shutil

import phenomena as site
import pytest

driver = pytest.importorskip("playwright.sync_api", reason="needs Playwright for Python")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium, as in `apt-get install chromium`"),
    pytest.mark.timeout(600),
]
UNCLEAR = """[...document.querySelectorAll('figure')].filter((figure) => {
  const card = figure.getBoundingClientRect(), title = figure.querySelector('h2').getBoundingClientRect();
  const texts = [...figure.querySelectorAll('svg text')], boxes = texts.map((text) => text.getBoundingClientRect());
  return texts.filter((text) => /^.?\\d/.test(text.textContent)).length < 2 ||
    boxes.some((box) => box.top < title.bottom - 4 || box.left < card.left || box.right > card.right);
}).map((figure) => figure.textContent)"""
"""The pictures whose axes have no numbers, or a label that leaves its card or runs into the title."""


@pytest.mark.slow
def test_every_page_opens_from_disk_without_a_network(tmp_path):
    with driver.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=("--no-sandbox", "--disable-gpu"))
        for width, scheme in ((1400, "light"), (400, "dark")):
            context = browser.new_context(
                viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True, reduced_motion="reduce"
            )
            context.set_default_timeout(120_000)
            for name, content in site.pages().items():
                file = tmp_path / f"{name}.html"
                file.write_text(content, encoding="utf-8")
                wrong, page = [], context.new_page()
                page.on("pageerror", lambda error, wrong=wrong: wrong.append(str(error)))
                page.on("console", lambda said, wrong=wrong: said.type == "error" and wrong.append(said.text))
                page.on("request", lambda asked, wrong=wrong: wrong.append(asked.url))
                page.goto(file.as_uri())
                assert page.title() and page.locator("svg, canvas").count() > 0
                slider = page.locator("input[type=range]").first
                slider.press("End")
                assert int(slider.input_value()) > 0
                assert page.evaluate("document.documentElement.scrollWidth") <= width, name
                assert page.evaluate(UNCLEAR) == [], (name, width)
                assert "`" not in page.inner_text("body"), name
                own = (file.as_uri(), "data:", "blob:")
                assert [each for each in wrong if not each.startswith(own)] == [], name
                page.close()
        browser.close()

"""The explorer's page and the report's in a real browser: a headless Chromium, driven by Playwright."""

import re
import shutil
from urllib.parse import parse_qs, urlsplit

import pytest
from invented import AXES, TRIAL, fill, fill_many, outcome, serving, sweep

import elegans as el
from elegans.explorer.report import write_report
from elegans.store import Store

driver = pytest.importorskip("playwright.sync_api", reason="needs Playwright for Python")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium, as in `apt-get install chromium`"),
    pytest.mark.timeout(600),
]
QUIET = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
PATIENCE = 60_000
"""Milliseconds that a page may take to show something: the machine may be busy."""
TRACEBACK = 'Traceback (most recent call last):\n  File "own.py", line 3, in draw\nValueError: no such <b>table</b>\n'


@pytest.fixture(scope="module")
def chromium():
    with driver.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def windows():
    """Windows whose test has ended: a page in a new one takes five times as long."""
    return []


@pytest.fixture
def opened(chromium, windows):
    """Open an address in a window; errors of its scripts fail the test, a server that has ended does not."""
    pages, wrong = [], []

    def fails(error):
        wrong.append(str(error))

    def says(message):
        if message.type == "error":
            wrong.append(message.text)

    def opens(address, width=1100, color_scheme="light", offline=False):
        page = windows.pop() if windows else chromium.new_context().new_page()
        pages.append(page)
        page.set_default_timeout(PATIENCE)
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme=color_scheme)
        page.context.set_offline(offline)
        page.on("pageerror", fails)
        page.on("console", says)
        page.goto(address)
        return page

    yield opens
    for page in pages:
        page.remove_listener("pageerror", fails)
        page.remove_listener("console", says)
        page.context.set_offline(False)
        page.goto("about:blank")
    windows += pages
    assert not [text for text in wrong if "ERR_" not in text]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return fill(tmp_path_factory.mktemp("explored") / "runs.db", sweep(), {5: TRACEBACK})


@pytest.fixture(scope="module")
def address(store):
    with serving(store) as address:
        yield address


def state(page):
    """Return the view that the address of a page describes."""
    parts = urlsplit(page.url)
    return {name: value[0] for name, value in parse_qs(parts.query or parts.fragment, keep_blank_values=True).items()}


MAP = "main[data-view=map] .js-plotly-plot .main-svg"
COLOURED = (
    "document.querySelector('.js-plotly-plot')._fullData.filter(one => one.type === 'heatmap')"
    ".flatMap(one => [...one.z].flatMap(row => [...row])).filter(z => Number.isFinite(z)).length"
)


def squares(page):
    """Return how many squares of the map have a colour, once it is drawn."""
    page.wait_for_selector(MAP)
    return page.evaluate(COLOURED)


def click_square(page, row, column):
    """Click a square of the first panel."""
    where = page.evaluate(
        """([row, column]) => {
            const plot = document.querySelector(".js-plotly-plot"), { xaxis, yaxis } = plot._fullLayout;
            const box = plot.getBoundingClientRect();
            return [box.left + xaxis._offset + xaxis.d2p(column), box.top + yaxis._offset + yaxis.d2p(row)];
        }""",
        [row, column],
    )
    page.mouse.move(*where)
    page.mouse.click(*where)


def test_a_click_on_a_square_opens_its_curves(opened, address):
    page = opened(address)
    assert squares(page) > 0
    click_square(page, 1, 2)
    page.wait_for_selector("h1:has-text('m = 1000, width 30')")
    assert page.locator("h1").inner_text().startswith("m = 1000, width 30")  # a symbol keeps its case
    page.wait_for_selector("section.figure .js-plotly-plot .trace.scatter")
    assert {"learning curves", "times to solve"} <= {
        one.lower() for one in page.locator("section.figure h2").all_inner_texts()
    }
    assert page.locator("tbody tr").count() == 8
    assert "el.Trial" in page.locator("pre", has_text="import elegans").first.inner_text()
    page.go_back()
    assert squares(page) > 0 and state(page)["view"] == "map"


def test_a_failed_trials_traceback_is_shown_as_text(opened, address):
    page = opened(f"{address}?view=overview")
    page.locator("td a").first.click()
    shown = page.locator("details", has_text="seed 5").locator("pre").inner_text()
    assert shown.strip() == TRACEBACK.strip()


def test_axes_change_by_keyboard_and_arrow_keys_walk_the_map(opened, address):
    page = opened(address)
    squares(page)
    before = state(page)
    page.locator("#choose-x").focus()
    page.keyboard.press("ArrowDown")
    page.wait_for_function("before => !location.search.includes(`x=${before}`)", arg=before["x"])
    page.wait_for_function(
        "name => document.querySelector('.js-plotly-plot').layout.xaxis.title.text === name", arg=state(page)["x"]
    )
    assert page.evaluate("document.activeElement.id") == "choose-x"
    page.locator(".chart").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowUp")
    reading = page.locator(".reading").inner_text()
    place = page.evaluate("document.querySelector('.js-plotly-plot')._fullData[0].customdata[1][1]")
    assert re.search(r"trials", reading)
    page.keyboard.press("Enter")
    page.wait_for_selector("main[data-view=cell] h1")
    assert state(page)["cell"] == str(place)


def test_a_link_reopens_the_same_view_and_back_returns(opened, address):
    page = opened(address)
    squares(page)
    first = state(page)
    page.select_option("#choose-stat", "seconds")
    page.wait_for_function("() => location.search.includes('stat=seconds')")
    slider = page.locator("input[type=range]").first
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => location.search.includes('learning_rate=0.1')")
    link = page.url
    again = opened(link)
    squares(again)
    assert state(again) == state(page) and state(again)["stat"] == "seconds"
    assert again.locator("#choose-stat").input_value() == "seconds"
    page.go_back()
    page.wait_for_function("() => location.search.includes('stat=rate')")
    assert state(page) == first


@pytest.mark.slow
def test_squares_fill_in_while_a_sweep_runs(opened, tmp_path):
    place, trials = tmp_path / "runs.db", sweep({"model.width": [10, 30], "regime.size": [100, 300]}, seeds=4)
    with Store(place) as store:
        run, _ = store.begin(trials, name="in progress")
        claimed = run.claim(trials)
        run.record([outcome(claimed[0])])
        with serving(place) as address:
            page = opened(address)
            assert squares(page) == 1
            page.wait_for_selector("text=1 of 16 trials")
            hatched = "document.querySelector('.js-plotly-plot')._fullData.filter(one => one.name === 'running')"
            assert page.evaluate(f"{hatched}.reduce((sum, one) => sum + one.x.length, 0)") == 4
            run.record([outcome(one) for one in claimed[1:]])
            rows = "[...document.querySelector('.js-plotly-plot')._fullData[0].z]"
            page.wait_for_function(f"() => {rows}.every(row => row.every(Number.isFinite))")
            run.release()
            page.wait_for_function(f"() => {hatched}.length === 0")


@pytest.mark.slow
def test_a_sweep_beside_the_page_is_seen_to_its_end(opened, tmp_path):
    trial = TRIAL.model_copy(update={"training": el.SGD(steps=20)})
    grid = el.grid(trial, {"model.width": [4, 8]}, seeds=2)
    el.run(grid, tmp_path / "runs.db", workers=1, progress=False)
    with serving(tmp_path / "runs.db") as address:
        page = opened(f"{address}?view=overview")
        page.wait_for_selector("text=4 trials in 2 cells")
        el.run(el.grid(trial, {"model.width": [4, 8, 16]}, seeds=3), tmp_path / "runs.db", workers=1, progress=False)
        page.wait_for_selector("text=9 trials in 3 cells")


@pytest.mark.slow
def test_a_server_that_is_gone_is_said_and_waited_for(opened, store):
    with serving(store) as address:
        page = opened(address)
        assert squares(page) > 0
        port = urlsplit(address).port
    page.wait_for_selector("#lost:has-text('The server has stopped')")
    assert squares(page) > 0
    with serving(store, port=port):
        page.wait_for_selector("#lost", state="hidden")
        page.select_option("#choose-stat", "seconds")
        page.wait_for_function("() => document.querySelector('h2').textContent.includes('seconds')")


def test_two_values_of_an_axis_are_compared_with_intervals(opened, address):
    page = opened(f"{address}?view=compare")
    page.wait_for_selector("section.figure .js-plotly-plot")
    page.select_option("#choose-by", "model.init")
    page.wait_for_function("() => location.search.includes('by=model.init')")
    page.wait_for_selector("th:has-text('95% interval')")
    heads = page.locator("thead th").all_inner_texts()
    assert {"dense", "sparse:2", "difference (points)"} <= set(heads)
    assert page.locator("tbody tr").count() > 1


TITLE_BESIDE_NUMBERS = """() => {
    const box = (one) => one.getBoundingClientRect();
    const title = box(document.querySelector(".ytitle"));
    const numbers = [...document.querySelectorAll(".ytick text")].map((one) => box(one).left);
    return innerWidth === 400 && title.left >= 0 && numbers.length > 2 && Math.min(...numbers) >= title.right;
}"""


def test_differences_along_one_axis_are_points_without_the_keys_of_a_map(opened, tmp_path):
    axes = {"model.width": [10, 20], "regime.size": [100, 300]}
    with serving(fill(tmp_path / "runs.db", el.grid(TRIAL, axes, seeds=2))) as address:
        page = opened(f"{address}?view=compare")
        page.wait_for_selector(".js-plotly-plot .point")
        assert page.locator(".hint", has_text="Click a point to see its trials, or follow its link").count() == 1
        assert page.locator(".chart[tabindex], .chart[role]").count() == 0
        page.set_viewport_size({"width": 400, "height": 800})
        page.wait_for_function(TITLE_BESIDE_NUMBERS)
        page.locator("[aria-label=Differences]").focus()
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.wait_for_selector("main[data-view=cell] h1:has-text('m = 100, width 10')")
        page = opened(f"{address}?view=map")
        page.wait_for_selector(".chart[tabindex='0'][role=application][aria-label^=Map]")


LEGEND = """() => {
    const box = (node) => node.getBoundingClientRect();
    const [legend, plot, chart] = [".legend", ".bglayer", ".main-svg"].map((one) => box(document.querySelector(one)));
    const labels = [...document.querySelectorAll(".annotation")].map((one) => box(one).top);
    return [legend.bottom <= Math.min(plot.top, ...labels), legend.right <= chart.right, plot.height];
}"""


@pytest.fixture(scope="module")
def crossed(tmp_path_factory):
    """The address of a store whose map has many lines of theory."""
    axes = {"model.width": [10, 1000], "regime.size": [300, 1000], "model.init": ["dense", "sparse:2"]}
    trial = TRIAL.model_copy(update={"task": el.SparseParity(n=50, k=4)})
    folder = tmp_path_factory.mktemp("crossed")
    with serving(fill(folder / "runs.db", el.grid(trial, axes, seeds=2), name="success-frontier")) as address:
        yield address


@pytest.mark.slow
@pytest.mark.parametrize(("width", "facet"), [(400, ""), (400, "model.init"), (700, "model.init"), (1100, "")])
def test_a_long_legend_lies_above_the_map_and_its_labels(opened, crossed, width, facet):
    page = opened(f"{crossed}?view=map&theory=1&facet={facet}", width)
    page.wait_for_function("() => document.querySelectorAll('.legend .traces').length > 4")
    above, inside, height = page.evaluate(LEGEND)
    assert above and inside and height > 80


def test_a_slider_shows_an_array_at_each_step(opened, address):
    page = opened(f"{address}?view=cell&cell=42")
    page.wait_for_selector("section.figure .js-plotly-plot .trace.scatter")
    page.select_option("#choose-measure", "weights.map")
    section = page.locator("section.figure", has=page.locator("h2:text-is('weights.map')"))
    shown = (
        "() => [...document.querySelectorAll('.js-plotly-plot')].at(-1)._fullData[0].z.flat().reduce((a, b) => a + b)"
    )
    touched = section.locator(".slider-rail-touch-rect")
    touched.scroll_into_view_if_needed()
    last, rail = page.evaluate(shown), touched.bounding_box()
    page.mouse.click(rail["x"] + 2, rail["y"] + rail["height"] / 2)
    page.wait_for_function(f"last => ({shown})() < last / 4", arg=last)


def test_charts_are_saved_as_svg_png_and_csv(opened, address, tmp_path):
    page = opened(address)
    squares(page)
    for name, begin in (("SVG", b"<svg"), ("PNG", b"\x89PNG"), ("CSV", b"")):
        with page.expect_download() as download:
            page.locator(".tools button", has_text=name).first.click()
        file = tmp_path / download.value.suggested_filename
        download.value.save_as(file)
        assert file.suffix == f".{name.lower()}" and file.read_bytes().startswith(begin)
    rows = file.read_text().splitlines()
    assert "model.width" in rows[0] and len(rows) > len(AXES["model.width"]) * len(AXES["regime.size"])


@pytest.mark.parametrize(
    ("view", "scheme"),
    [
        *(("overview", "light"), ("map", "dark"), ("cell&cell=3", "dark"), ("compare", "light")),
        *(("trials", "light"), ("curves&cells=1,2,30", "dark"), ("parameters", "light")),
    ],
)
def test_no_view_is_wider_than_a_phone(opened, address, view, scheme):
    page = opened(f"{address}?view={view}", width=400, color_scheme=scheme)
    page.wait_for_selector("main > *")
    page.wait_for_timeout(500)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    cut = "[...document.querySelectorAll('.js-plotly-plot')].filter(one => one.clientWidth > innerWidth).length"
    assert page.evaluate(cut) == 0


NUMBER = ".scatterlayer .textpoint text"
CONTRASTS = """() => {
    const plot = document.querySelector(".js-plotly-plot"), canvas = document.createElement("canvas").getContext("2d");
    const luminance = (rgb) => [0.2126, 0.7152, 0.0722].reduce((sum, weight, place) => {
        const part = rgb[place] / 255;
        return sum + weight * (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    }, 0);
    const drawn = plot.querySelector(".heatmaplayer image"), box = drawn.getBoundingClientRect();
    canvas.canvas.width = box.width;
    canvas.canvas.height = box.height;
    const image = Object.assign(document.createElement("img"), { src: drawn.href.baseVal });
    canvas.drawImage(image, 0, 0, box.width, box.height);
    return [...plot.querySelectorAll(".scatterlayer .textpoint text")].map((text) => {
        const place = text.getBoundingClientRect();
        const corner = [place.left - 3 - box.left, (place.top + place.bottom) / 2 - box.top].map(Math.round);
        const ground = canvas.getImageData(...corner, 1, 1).data;
        const ink = getComputedStyle(text).fill.match(/\\d+/g).map(Number);
        const [dark, light] = [luminance(ground), luminance(ink)].sort((a, b) => a - b);
        return ground[3] === 255 ? (light + 0.05) / (dark + 0.05) : null;
    });
}"""


@pytest.mark.parametrize(
    ("view", "scheme"), [("map&stat=test_error&facet=", "light"), ("compare&by=model.init", "dark")]
)
def test_squares_have_legible_numbers_where_there_is_room(opened, address, view, scheme):
    page = opened(f"{address}?view={view}", color_scheme=scheme)
    page.wait_for_selector(NUMBER)
    assert re.fullmatch(r"\N{MINUS SIGN}?\d+%", page.locator(NUMBER).first.text_content())
    page.wait_for_function(f"() => ({CONTRASTS})().every(Number.isFinite)")  # its image is loaded
    contrasts = page.evaluate(CONTRASTS)
    assert len(contrasts) == 20 and min(contrasts) >= 4.5


def test_trials_are_searched_sorted_and_paged_and_open_their_cell(opened, address):
    page = opened(f"{address}?view=trials")
    page.wait_for_selector("h2:has-text('1 to 100 of 640 trials')")
    page.click("#page-next")
    page.wait_for_selector("h2:has-text('101 to 200 of 640 trials')")
    page.click("#sort-seconds")
    page.wait_for_selector("th[aria-sort=ascending]:has-text('seconds')")
    page.click("#sort-seconds")
    page.wait_for_selector("th[aria-sort=descending]")
    assert page.evaluate("document.activeElement.id") == "sort-seconds"
    page.fill("#search", "width=300 seed<2 unsolved")
    page.wait_for_function("() => location.search.includes('q=width')")
    page.wait_for_function("() => !document.querySelector('main h2').textContent.includes('640')")
    assert set(page.locator("tbody td:nth-child(1)").all_inner_texts()) <= {"100", "300"}
    page.locator("tbody a").first.click()
    page.wait_for_selector("main[data-view=cell] h1:has-text('width 300')")
    page.go_back()
    page.wait_for_selector("main[data-view=trials]")
    assert page.locator("#search").input_value() == "width=300 seed<2 unsolved"
    with page.expect_download() as download:
        page.locator(".tools button").click()
    assert download.value.suggested_filename == "trials.csv"


def test_cells_chosen_by_shift_or_space_are_drawn_together(opened, address):
    page = opened(address)
    squares(page)
    page.keyboard.down("Shift")
    click_square(page, 1, 2)
    page.keyboard.up("Shift")
    page.wait_for_selector("text=1 cell chosen")
    page.locator(".chart").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press(" ")
    page.wait_for_selector("text=2 cells chosen")
    assert page.locator(".chart .picked").count() == 2
    page.click("#open-curves")
    page.wait_for_selector("main[data-view=curves] .js-plotly-plot .legendtext")
    legend = page.locator(".legendtext").all_text_contents()
    assert len(legend) == 2 and all(re.fullmatch(r"(m = \d+|width \d+|, )+ \(7 trials\)", one) for one in legend)
    assert page.locator("tbody tr").count() == 2
    page.go_back()
    page.wait_for_selector("text=2 cells chosen")
    page.click("#clear-picked")
    page.wait_for_selector(".chart .picked", state="detached")


def test_parameters_are_ranked_and_a_filter_leaves_the_rest(opened, address):
    page = opened(f"{address}?view=parameters")
    page.wait_for_selector("section[aria-label^='Each line is a cell'] .js-plotly-plot .scatter")
    assert "random forest" in page.locator("main").inner_text()
    page.select_option("#choose-at-model\\.init", "dense")
    bars = "[...document.querySelectorAll('.js-plotly-plot')][0]._fullData[0].y.length"
    page.wait_for_function(f"() => {bars} === 3")


def test_where_too_few_cells_are_left_to_rank_parameters_the_filters_stay(opened, address):
    """The fixture fails if the console has an error."""
    page = opened(f"{address}?view=parameters&at.model.width=10")
    page.wait_for_selector("section[aria-label^='Each line is a cell'] .js-plotly-plot")
    page.select_option("#choose-at-regime\\.size", "100")
    page.wait_for_selector("text=at least 12 cells with a success rate are needed: 4.")
    assert not page.query_selector(".js-plotly-plot")
    page.select_option("#choose-at-regime\\.size", "")
    page.wait_for_selector("section[aria-label^='Each line is a cell'] .js-plotly-plot")


def test_what_is_missing_is_said_with_a_way_on(opened, address):
    for view, missing in (
        ("cell", "Choose a cell first"),
        ("curves", "Choose cells first"),
    ):
        page = opened(f"{address}?view={view}")
        page.wait_for_selector(f"[role=alert] h2:has-text('{missing}')")
        page.locator("[role=alert] a").click()
        assert squares(page) > 0


def test_a_page_without_a_store_says_so_and_shows_the_store_once_it_is_there(opened, tmp_path):
    with serving(tmp_path) as address:
        page = opened(address)
        page.wait_for_selector("h1:has-text('Waiting for the first trials')")
        assert f"--store {tmp_path}/runs.db" in page.locator(".copied pre").inner_text()
        page.wait_for_selector(".copied button:has-text('Copy')")
        fill(tmp_path / "runs.db", sweep({"model.width": [10, 30], "regime.size": [100, 300]}, seeds=2))
        page.wait_for_selector(MAP)
        page.wait_for_function(f"() => {COLOURED} === 4")  # it may be drawn before all trials are there


HOSTILE = "<script>window.owned = 1</script><img src=x onerror='window.owned = 1'>"


class Hostile(el.SparseParity):
    """A parity with a name from someone else."""

    origin: str = HOSTILE


@pytest.mark.slow
def test_names_and_tracebacks_of_a_hostile_store_do_nothing(opened, tmp_path):
    tasks = [Hostile(n=20, k=2, origin=f"{place} {HOSTILE}") for place in range(2)]
    trials = el.grid(TRIAL, {"task": tasks, "model.width": [10, 30]}, seeds=3)
    place = fill(tmp_path / "runs.db", trials, {1: f"ValueError: {HOSTILE}\n"}, name=HOSTILE)
    write_report(place, tmp_path / "report.html")
    with serving(place) as address:
        for page in (opened(address), opened((tmp_path / "report.html").as_uri())):
            for view in ("Overview", "Map"):
                page.locator("nav a", has_text=view).click()
                page.wait_for_timeout(300)
            squares(page)
            click_square(page, 0, 0)
            page.wait_for_selector("details pre")
            assert HOSTILE in page.locator("details pre").first.text_content()
            assert page.evaluate("[window.owned, document.querySelectorAll('main script, main img').length]") == [
                None,
                0,
            ]


@pytest.mark.slow
def test_a_report_opens_from_disk_without_network(opened, store, tmp_path):
    file = tmp_path / "report.html"
    written = write_report(store, file)
    assert written.size == file.stat().st_size < 12_000_000
    page = opened(file.as_uri(), offline=True)
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    assert squares(page) > 0
    page.select_option("#choose-stat", "seconds")
    page.wait_for_function("() => location.hash.includes('stat=seconds')")
    click_square(page, 1, 2)
    page.wait_for_selector("section.figure .js-plotly-plot .trace.scatter")
    page.locator("nav a", has_text="Overview").click()
    page.wait_for_selector("h2:has-text('Record')")
    page.go_back()
    page.wait_for_selector("main[data-view=cell] h1")
    again = opened(page.url, offline=True)
    again.wait_for_selector("main[data-view=cell] h1")
    assert not [one for one in asked if not one.startswith(("data:", "blob:", "file:"))]


@pytest.mark.slow
def test_a_million_trials_are_shown_as_ten_thousand_squares(opened, tmp_path):
    with serving(fill_many(tmp_path / "runs.db")) as address:
        page = opened(address)
        assert squares(page) == 10_000
        assert page.locator(NUMBER).count() == 0
        page.wait_for_function("() => document.getElementById('live').textContent === 'live'")
        click_square(page, 95, 50)  # in the upper part, which the window shows
        page.wait_for_selector("text=100 trials")
        page.locator("nav a", has_text="Overview").click()
        page.wait_for_selector("text=1,000,000 trials in 10,000 cells")
        page.locator("nav a", has_text="Trials").click()
        page.wait_for_selector("h2:has-text('1 to 100 of 1,000,000 trials')")
        page.click("#sort-solved_at")
        page.click("#page-last")
        page.wait_for_selector("h2:has-text('999,901 to 1,000,000 of 1,000,000 trials')")
        page.locator("nav a", has_text="Overview").click()
        with Store(tmp_path / "runs.db") as store:
            more = el.grid(TRIAL, {"model.width": [10], "regime.size": [100]}, seeds=101)
            run, _ = store.begin(more)
            run.record([outcome(one) for one in run.claim(more)])
            run.release()
        page.wait_for_selector("text=1,000,001 trials in 10,000 cells")

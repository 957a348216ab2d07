"""Checks the form of experiments' pages, and adds badges, verdicts and provenance from the evidence."""

import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from PIL import Image

sys.path.insert(0, str(Path(__file__).parent))

import calculators
import listing
import numerals
import phenomena
import quoted

from elegans import discovery
from elegans.experiments.evidence import collected
from elegans.experiments.registry import Entry, entries

IMAGES = Path(__file__).parents[1] / "images"
PARTS = (
    ("\n\n**Answer.**",),
    ("](../images/", "{{ checks() }}", "{{ rows("),
    ("\n\n*",),
    ("\n\n**Claim.**",),
    ("\n## Findings\n",),
    ('\n??? note "Protocol and scales"\n',),
    ('\n??? note "Differences from the source"\n',),
)
"""The parts of an experiment's page, in this order, each in one of its forms; the third is the figure's caption."""
OPEN = re.compile(r"\bundecided\b|\bnot (?:yet )?(?:been )?(?:judged|decided)\b")
"""What nobody reads first: a verdict that is missing."""
TYPED = re.compile(r"\d[\d.,]*\s?%|\d\.\d|\b\d[\d,]* of \d|\(\d[^()]* to \d[^()]*\)|\b\d+ times\b|\bfactor of \d")
"""Numbers that look like results."""
CHOSEN = ("Protocol and scales", "What the source leaves open, and what is chosen here")
"""The folded blocks that describe choices, whose tables are typed."""
QUOTED = re.compile(r"\{\{.*?\}\}|\$[^$]*\$|`[^`]*`|\]\([^)]*\)|\[[^\]]*\]\[[^\]]*\]|https?://\S+", re.DOTALL)
"""Parts that may contain numbers: macros, formulas, code and links."""


FIGURE = re.compile(r'<img (?P<rest>[^>]*src="(?:\.\./)*images/(?P<name>(?!explore-)[\w.-]+)"[^>]*)>')
"""An image that is a figure; pictures of the explorer are none."""


def complaints(name: str, text: str) -> list[str]:
    """Return the missing parts of an experiment's page, and the results in it that were typed by hand."""
    found = []
    last = 0
    for forms in PARTS:
        places = [place for form in forms if (place := text.find(form, last)) >= 0]
        if not places:
            found.append(f"{' or '.join(repr(form.strip()) for form in forms)} is missing, or comes too early")
        last = min(places, default=last)
    if typed := OPEN.search(text[: min((place for form in PARTS[1] if (place := text.find(form)) >= 0), default=0)]):
        found.append(f"{typed[0]!r} stands before the figure")
    title = text.partition("\n")[0].removeprefix("# ").strip()
    if title == name:
        found.append("the title is the experiment's name instead of its finding")
    found += [f"{block}: its table is typed by hand" for block in _typed_tables(text)]
    for heading, body in _prose(text):
        found += [f"{heading}: {typed!r} is typed by hand" for typed in TYPED.findall(QUOTED.sub("", body))]
    return found


def _prose(text: str) -> list[tuple[str, str]]:
    """Return the parts of a page that state results: the answer and the findings."""
    answer = text.partition("**Answer.**")[2].partition("\n\n")[0]
    findings = text.partition("\n## Findings\n")[2].partition("\n## ")[0].partition("\n??? ")[0]
    return [("answer", answer), ("findings", findings)]


def _typed_tables(text: str) -> list[str]:
    """Return the titles of folded blocks with a typed table, but for those on the protocol and on choices."""
    blocks = re.findall(r'^\?\?\? \w+ "([^"]*)"\n((?:\n|    .*\n)*)', text + "\n", re.MULTILINE)
    return [title for title, body in blocks if title not in CHOSEN and re.search(r"^    \| ?-", body, re.MULTILINE)]


def on_startup(**_: Any) -> None:
    """Leave out the studies that other distributions register: the site has pages for the repository's own."""
    discovery.entry_points = lambda **_: ()  # type: ignore[assignment, attr-defined, unused-ignore]
    discovery.studies.cache_clear()


@event_priority(100)  # before the plugin that checks links lists all files
def on_files(files: Files, *, config: Any) -> Files:
    """Add the pages of the phenomena, which are made from the kept records and one template."""
    for name, text in phenomena.pages().items():
        files.append(File.generated(config, f"phenomena/{name}.html", content=text))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Check the page of an experiment, and add its badges, verdicts and provenance; link the calculators of theory."""
    folder, _, name = page.file.src_uri.removesuffix(".md").rpartition("/")
    if folder == calculators.FOLDER or page.file.src_uri == "errata.md":
        return calculators.with_links(markdown)
    if folder != "experiments" or name not in entries():
        return markdown
    if found := complaints(name, page.file.content_string):
        raise PluginError(f"{page.file.src_uri}: " + "; ".join(found))
    return with_evidence(entries()[name], markdown)


def on_page_content(html: str, *, page: Any, **_: Any) -> str:
    """Set minus signs and sizes of figures; in notebooks, link pages instead of files and say what a figure is.

    Anchors of the bibliography are no links: the keyboard would stop at each.
    """
    if not page.file.src_uri.endswith(".ipynb"):
        html = re.sub(r'<a href="" id="(\w+)"></a>', r'<span id="\1"></span>', html)
        return FIGURE.sub(_sized, numerals.signed(html))
    html = html.replace("No description has been provided for this image", "The figure that the cell above draws")
    return re.sub(r'href="([\w./-]+)\.(?:ipynb|md)"', r'href="../\1/"', html)


def _sized(found: re.Match[str]) -> str:
    """Return a figure with its class and natural size, at which its smallest text can be read, and its dark twin."""
    path = IMAGES / found["name"]
    width, height = _size(path)
    tag = found[0] if "class=" in found[0] else found[0].replace("<img ", '<img class="" ')
    tag = tag.replace(">", f' width="{width}" height="{height}">')
    twin = path.with_stem(f"{path.stem}-dark")
    if not twin.exists():
        return tag.replace('class="', 'class="figure ')
    dark = tag.replace(path.name, twin.name)
    dark = dark if "loading=" in dark else dark.replace("<img ", '<img loading="lazy" ')
    return "".join(
        one.replace('class="', f'class="figure {kind} ') for one, kind in ((tag, "by-day"), (dark, "by-night"))
    )


@cache
def _size(path: Path) -> tuple[int, int]:
    """Return width and height of an image in pixels of CSS, of which an inch has 96."""
    if path.suffix == ".svg":
        head = path.read_text(encoding="utf-8")[:2000]
        points = re.search(r' width="([\d.]+)pt" height="([\d.]+)pt"', head)
        assert points, path
        return round(float(points[1]) * 4 / 3), round(float(points[2]) * 4 / 3)
    with Image.open(path) as image:
        scale = 96 / image.info.get("dpi", (96, 96))[0]
        return round(image.width * scale), round(image.height * scale)


def with_evidence(entry: Entry, markdown: str) -> str:
    """Return a page with badges and verdicts above its findings, smaller runs below them, and provenance at its end."""
    opening, _, rest = markdown.strip().partition("\n## Findings\n")
    findings, folded, details = rest.strip().partition("\n??? ")
    runs = [one for one in collected() if one.experiment == entry.name]
    parts = [opening.strip(), listing.badges(entry)]
    parts += ["## How it was decided", listing.table(entry.claims)] if entry.claims else []
    parts += ["## Findings", findings.strip(), listing.other_runs(entry), (folded + details).strip()]
    for one in sorted(runs, key=lambda one: one.rank):
        options = "".join(f", {name} {value}" for name, value in one.content["options"].items())
        listed = quoted.provenance(one).replace("\n", "\n    ")
        parts.append(f'??? info "Provenance: scale {one.scale}{options}"\n\n    {listed}')
    return "\n\n".join(filter(None, parts)) + "\n"

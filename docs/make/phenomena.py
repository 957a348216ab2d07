"""Trains every phenomenon and keeps what it showed: ``python docs/make/phenomena.py [NAME]…``.

The site's pages are written from these records and the one template when it is built.
"""

import json
import sys
from pathlib import Path

from elegans.discovery import load
from elegans.phenomena import phenomena, show
from elegans.phenomena.showing import page

RECORDS = Path(__file__).parents[1] / "phenomena"


def pages() -> dict[str, str]:
    """Return the page of each phenomenon whose record is kept, by name."""
    kept = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(RECORDS.glob("*.json"))}
    return {name: page(load(phenomena()[name].module, phenomena()[name].attribute), kept[name]) for name in kept}


if __name__ == "__main__":
    for name in sys.argv[1:] or phenomena():
        shown = show(name)
        record = json.dumps(shown.measured(), allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        (RECORDS / f"{name}.json").write_text(record + "\n", encoding="utf-8")
        print(name, f"{shown.seconds:.1f} s")

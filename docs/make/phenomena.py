"""Trains every phenomenon and writes its page into docs/phenomena: ``python docs/make/phenomena.py [NAME]…``."""

import sys
from pathlib import Path

from elegans.phenomena import phenomena, show

PAGES = Path(__file__).parents[1] / "phenomena"

if __name__ == "__main__":
    for name in sys.argv[1:] or phenomena():
        shown = show(name)
        print(shown.write(PAGES / f"{name}.html"), f"{shown.seconds:.1f} s")

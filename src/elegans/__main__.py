"""The command line, as ``python -m elegans``."""

import sys

from elegans.cli import main

sys.exit(main())

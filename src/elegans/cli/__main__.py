"""The same commands by ``python -m elegans.cli``."""

import sys

from elegans.cli import main

sys.exit(main())

"""`python -m pennon.cli` is the command `pennon`."""

import sys

from pennon.cli import main

sys.exit(main())

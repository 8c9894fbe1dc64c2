"""Jobs as a program of their own, for `python -m pennon.spark.jobs compact ...` and for spark-submit with this file."""

import sys
from pathlib import Path

if __name__ == "__main__":
    # As a script, Python puts this directory first: modules here must not hide others of their names.
    here = str(Path(__file__).parent)
    sys.path[:] = [one for one in sys.path if one != here]
    from pennon.cli import main

    sys.exit(main(["jobs", *sys.argv[1:]]))

"""The program behind `python -m pennon.spark.jobs compact ...`; spark-submit takes this file."""

import sys
from pathlib import Path

if __name__ == "__main__":
    # Python puts the directory of a script first on the path, where its modules would hide others of the same name.
    here = str(Path(__file__).parent)
    sys.path[:] = [one for one in sys.path if one != here]
    from pennon.cli import main

    sys.exit(main(["jobs", *sys.argv[1:]]))

"""`python -I -m watcher` is the same program as `runwatch`."""

import sys

from watcher.cli.main import main

if __name__ == "__main__":
    sys.exit(main())

"""One line an event on standard error; systemd or the container keeps it. Repeats are not logged by their writers."""

from __future__ import annotations

import logging
import os
import sys


def set_up_logging(level: str = "INFO") -> None:
    """Times are left out where the journal adds its own."""
    shape = "%(levelname)s %(name)s %(message)s"
    if not os.environ.get("JOURNAL_STREAM"):
        shape = "%(asctime)s " + shape
    logging.basicConfig(level=level, format=shape, stream=sys.stderr, datefmt="%Y-%m-%dT%H:%M:%S")
    for noisy in ("apscheduler", "aiohttp.access", "urllib3", "uvicorn.error"):
        logging.getLogger(noisy).setLevel(logging.WARNING)

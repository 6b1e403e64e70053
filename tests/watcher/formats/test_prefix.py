"""What stands in front of a line is taken off, told, and never hides the line."""

from __future__ import annotations

import pytest

from watcher.formats._prefix import split_prefix, strip_control
from watcher.formats._reader import LogReader

RECORD = (
    " iteration        7/      50 | consumed samples: 56 | elapsed time per iteration (ms): 1000.0 | lm loss: 2.0E+00 |"
)

CASES = [
    ("kubectl --timestamps", "2025-03-01T10:00:00.5Z ", None, None, 1740823200.5),
    ("a container runtime", "2025-03-01T10:00:00.5+01:00 stdout F ", None, None, 1740819600.5),
    ("srun --label", "12: ", 12, None, None),
    ("srun --label, padded", "  3: ", 3, None, None),
    ("torchrun's role and local rank", "[default3]:", None, None, None),
    ("PyTorch's global rank", "[rank5]: ", 5, None, None),
    ("pdsh", "gpu-node-07: ", None, "gpu-node-07", None),
    ("mpirun --tag-output", "[1,4]<stdout>:", 4, None, None),
    ("kubectl logs --prefix", "[pod/train-worker-3/pytorch] ", None, "train-worker-3", None),
    ("Ray", "(RayTrainWorker pid=41, ip=10.0.0.9) ", None, "10.0.0.9", None),
    ("torchx", "ining-demo/0 ", None, None, None),
    ("Python's logging", "2025-03-01 10:00:00,500 - root - INFO - ", None, None, 1740823200.5),
    ("logging.basicConfig", "INFO:train:", None, None, None),
    ("loguru", "2025-03-01 10:00:00.500 | INFO     | __main__:main:12 - ", None, None, 1740823200.5),
    ("hydra", "[2025-03-01 10:00:00,500][train][INFO] - ", None, None, 1740823200.5),
    ("transformers", "[INFO|trainer.py:12] 2025-03-01 10:00:00,500 >> ", None, None, 1740823200.5),
    ("NeMo", "[NeMo I 2025-03-01 10:00:00 log:1] ", None, None, 1740823200.0),
    ("several of them", "2025-03-01T10:00:00Z stdout F 3: [rank7]:[titan] ", 7, None, 1740823200.0),
]


@pytest.mark.parametrize(("what", "front", "rank", "host", "at"), CASES, ids=[case[0] for case in CASES])
def test_a_prefix_tells_what_it_knows_and_hides_no_record(
    what: str, front: str, rank: int | None, host: str | None, at: float | None
) -> None:
    prefix = split_prefix(front + RECORD)
    assert (prefix.rank, prefix.host, prefix.logged_at) == (rank, host, at), what
    reader = LogReader()
    events = reader.feed(front + RECORD, 1) + reader.flush()
    assert [(event.step, event.loss) for event in events] == [(7, 2.0)], what
    assert (events[0].rank, events[0].host, events[0].logged_at) == (rank, host, at), what


@pytest.mark.parametrize(
    "line", ["step10: loss 3.0", "epoch3: 12", "loss: 3.0", '  File "x.py", line 3, in f', "12:30 now"]
)
def test_what_only_looks_like_a_prefix_stays(line: str) -> None:
    prefix = split_prefix(line)
    assert prefix.text == line
    assert not prefix.told


def test_the_indentation_of_a_labelled_line_stays() -> None:
    assert split_prefix('7:   File "x.py", line 3').text == '  File "x.py", line 3'


def test_colours_backspaces_and_nul_bytes_are_dropped() -> None:
    assert strip_control("\x1b[31mstep:\x1b[0m 1\x08\x00") == "step: 1"

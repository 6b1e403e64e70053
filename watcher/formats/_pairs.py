"""Lines of `key: number | key: number | ...` as Megatron and its relatives print them."""

from __future__ import annotations

import functools
import re
from typing import Any

from watcher.formats._numbers import NUMBER, number, whole

_PAIR = re.compile(rf"\s{{0,20}}([A-Za-z][\w \-./()]{{0,60}}?)\s{{0,10}}:\s{{0,20}}({NUMBER})\s?([KMBTG](?![A-Za-z]))?")
_BARE = re.compile(rf"\s{{0,9}}([A-Za-z][A-Za-z ]{{1,40}}?)\s{{1,9}}({NUMBER})\s{{0,9}}$")
_UNIT_LEFT = re.compile(r"^(?:s|ms|sec) ")
_NO_LOSS = re.compile(r"balanc|mtp|\bz\b|aux|router|consumed|scale|skipped")

# the first of the keys that is there; keys are lower case with blanks for _ and -
_FLOATS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("loss", ("lm loss", "loss", "total loss", "reduced train loss", "train loss")),
    ("grad norm", ("grad norm", "gradient norm", "gnorm")),
    ("learning_rate", ("learning rate", "lr")),
    ("loss_scale", ("loss scale",)),
    ("samples_per_second", ("samples per second", "samples/sec", "samples/s")),
    ("tokens_per_second", ("tokens per second", "tokens/sec", "tokens per sec", "tokens/s")),
    ("tflops_per_gpu", ("throughput per gpu (tflop/s/gpu)", "tflops", "approx flops per gpu", "model tflops per gpu",
                        "tflops/gpu", "throughput (tflop/s/gpu)", "hardware tflops per gpu")),
)  # fmt: skip
_PER_GPU_TOKENS = ("tokens/sec/gpu", "tokens per sec per gpu", "tokens per gpu per second", "tokens/s/gpu", "tgs")
_SECONDS: tuple[tuple[str, float], ...] = (
    ("elapsed time per iteration (s)", 1.0), ("elapsed time per iteration (ms)", 1000.0),
    ("time per iteration ms", 1000.0), ("time per iteration (ms)", 1000.0), ("iter time (s)", 1.0),
)  # fmt: skip


@functools.lru_cache(maxsize=4096)
def _key(text: str) -> str:
    return _UNIT_LEFT.sub("", text.lower().replace("_", " ").replace("-", " ").strip())


def pairs(text: str) -> dict[str, float]:
    """All pairs of a line by lower-case key; the first of a key counts."""
    out: dict[str, float] = {}
    for cell in text[:8000].split("|"):
        for match in _PAIR.finditer(cell):
            key = _key(match[1])
            value = number(match[2] + (match[3] or ""))
            if value is not None:
                out.setdefault(key, value)
        if ":" not in cell and (bare := _BARE.match(cell)) and (value := number(bare[2])) is not None:
            out.setdefault(bare[1].lower(), value)  # the oldest layout: `learning rate 1.500E-04`
    return out


def fields(found: dict[str, float]) -> dict[str, Any]:
    """The fields of a step event that the pairs tell."""
    out: dict[str, Any] = {}
    for name, keys in _FLOATS:
        value = next((found[key] for key in keys if key in found), None)
        if value is not None:
            out[name.replace(" ", "_")] = value
    if "loss" not in out:
        other = next((v for k, v in found.items() if k.endswith(" loss") and not _NO_LOSS.search(k)), None)
        out |= {} if other is None else {"loss": other}
    for key, parts in _SECONDS:
        if key in found:
            out["step_seconds"] = found[key] / parts
            break
    per_gpu = next((found[key] for key in _PER_GPU_TOKENS if key in found), None)
    if per_gpu is not None and "tokens_per_second" not in out:
        out["tokens_per_second"], out["throughput_scope"] = per_gpu, "per_device"
    elif "samples_per_second" in out or "tokens_per_second" in out:
        out["throughput_scope"] = "global"
    for name, key in (
        ("batch_size", "global batch size"), ("skipped_steps", "number of skipped iterations"),
        ("nan_steps", "number of nan iterations"),
    ):  # fmt: skip
        count = whole(found.get(key))
        if count is not None:
            out[name] = count
    return out

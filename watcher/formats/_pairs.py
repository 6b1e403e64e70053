"""Lines of `key: number | key: number | ...` as Megatron and its relatives print them."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Any

from watcher.formats._numbers import NUMBER, number

_PAIR = re.compile(rf"\s{{0,20}}([A-Za-z][\w \-./()]{{0,60}}?)\s{{0,10}}:\s{{0,20}}({NUMBER})\s?([KMBTG](?![A-Za-z]))?")
_BARE = re.compile(rf"\s{{0,9}}([A-Za-z][A-Za-z ]{{1,40}}?)\s{{1,9}}({NUMBER})\s{{0,9}}$")
_KEY = re.compile(r"\s{0,20}[A-Za-z][\w \-./()]{0,60}?\s{0,10}")
_UNIT_LEFT = re.compile(r"^(?:s|ms|sec) ")
_NO_LOSS = re.compile(r"balanc|mtp|\bz\b|aux|router|consumed|scale|skipped")

# the first of the keys that is there; keys are lower case with blanks for _ and -
_FLOATS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("loss", ("lm loss", "loss", "total loss", "reduced train loss", "train loss")),
    ("grad_norm", ("grad norm", "gradient norm", "gnorm")),
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
_COUNTS = (
    ("batch_size", "global batch size"), ("skipped_steps", "number of skipped iterations"),
    ("nan_steps", "number of nan iterations"),
)  # fmt: skip


@functools.lru_cache(maxsize=4096)
def _key(text: str) -> str:
    return _UNIT_LEFT.sub("", text.lower().replace("_", " ").replace("-", " ").strip())


@functools.lru_cache(maxsize=4096)
def _plain_key(text: str) -> str | None:
    """The key where it fills the whole left side of a cell, as it nearly always does."""
    return _key(text) if _KEY.fullmatch(text) else None


def pairs(text: str) -> dict[str, float]:
    """All pairs of a line by lower-case key; the first of a key counts."""
    out: dict[str, float] = {}
    for cell in text[:8000].split("|"):
        left, colon, right = cell.partition(":")
        if colon and (plain := _plain_key(left)) is not None:
            try:
                out.setdefault(plain, float(right))
                continue
            except ValueError:
                pass
        for match in _PAIR.finditer(cell):
            key = _key(match[1])
            value = number(match[2] + (match[3] or ""))
            if value is not None:
                out.setdefault(key, value)
        if not colon and (bare := _BARE.match(cell)) and (value := number(bare[2])) is not None:
            out.setdefault(bare[1].lower(), value)  # the oldest layout: `learning rate 1.500E-04`
    return out


def fields(found: dict[str, float]) -> dict[str, Any]:
    """The fields of a step event that the pairs tell."""
    plan = _plan(tuple(found))
    out: dict[str, Any] = {name: found[key] / parts for name, key, parts in plan.floats}
    for name, key in plan.counts:
        if (value := found[key]).is_integer() and abs(value) < 1e15:
            out[name] = int(value)
    if plan.scope is not None:
        out["throughput_scope"] = plan.scope
    return out


@dataclass(frozen=True, slots=True)
class _Plan:
    """Which pair is which field: worked out once for all lines that have the same keys."""

    floats: tuple[tuple[str, str, float], ...]  # field, key, divisor
    counts: tuple[tuple[str, str], ...]
    scope: str | None


@functools.lru_cache(maxsize=512)
def _plan(keys: tuple[str, ...]) -> _Plan:
    floats: dict[str, tuple[str, float]] = {}
    for name, candidates in _FLOATS:
        for key in candidates:
            if key in keys:
                floats[name] = (key, 1.0)
                break
    if "loss" not in floats:
        other = next((key for key in keys if key.endswith(" loss") and not _NO_LOSS.search(key)), None)
        if other is not None:
            floats["loss"] = (other, 1.0)
    for key, parts in _SECONDS:
        if key in keys:
            floats["step_seconds"] = (key, parts)
            break
    per_gpu = next((key for key in _PER_GPU_TOKENS if key in keys), None)
    scope = None
    if per_gpu is not None and "tokens_per_second" not in floats:
        floats["tokens_per_second"], scope = (per_gpu, 1.0), "per_device"
    elif "samples_per_second" in floats or "tokens_per_second" in floats:
        scope = "global"
    return _Plan(
        tuple((name, key, parts) for name, (key, parts) in floats.items()),
        tuple((name, key) for name, key in _COUNTS if key in keys),
        scope,
    )

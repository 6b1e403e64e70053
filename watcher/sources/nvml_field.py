"""What a field of a GPU reading is, and NVML's ways to say that there is no value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

Nvml = Any  # the module `pynvml`
Handle = Any
NOT_AVAILABLE = {0xFFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF}  # NVML's word for "no value" where it reports success
SELDOM, RARELY = 3, 6  # readings
# invalid argument, not supported, function not found, another version of the structure: an older call may know it
NOT_SO = {2, 3, 13, 25}


class Unsupported(Exception):
    """The card or the driver has no such value."""


class Field(NamedTuple):  # a dataclass would cost each reader process 1.5 MB for `inspect`
    """`read(nvml, handle)` answers values by the name they have in GpuReading."""

    name: str  # what is remembered as not supported, and named in messages
    read: Callable[[Nvml, Handle], dict[str, Any]]
    every: int = 1  # readings; between them its last answer stands


def number(value: Any, divisor: int) -> float | None:
    return None if value in NOT_AVAILABLE else value / divisor


def count(value: Any) -> int | None:
    return None if value in NOT_AVAILABLE else int(value)


def text(value: Any) -> str:
    out = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return out[:200]


def newest(nvml: Nvml, *calls: Callable[[], Any]) -> Any:
    """The answer of the first call that bindings and driver both have. Raises what the last one does."""
    for call in calls[:-1]:
        try:
            return call()
        except AttributeError:
            continue
        except nvml.NVMLError as error:
            if error.value not in NOT_SO:
                raise
    return calls[-1]()

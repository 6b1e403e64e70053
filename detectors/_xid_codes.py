"""XID codes of the NVIDIA driver as data: whose fault, how bad, what to do, and whether it is a strike on the node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from detectors.verdict import Severity

INFO, WARNING, CRITICAL = Severity.INFO, Severity.WARNING, Severity.CRITICAL


@dataclass(frozen=True, slots=True)
class XidCode:
    """`whose`: application codes are mostly the program's doing. `strike`: stands in the ledger; `counted` there.
    `said_by`: the signature that tells the same from another source."""

    whose: Literal["hardware", "application"]
    severity: Severity
    meaning: str
    advice: str
    strike: bool = False
    counted: bool = True
    said_by: str = ""


RESET = "Reset the GPU before its next run."
DRAIN = "Drain the node; reset or reboot, and return the card if it comes back."
PROGRAM = "Look at the program first; the same GPU again is hardware."

CODES: dict[int, XidCode] = {
    13: XidCode("application", INFO, "graphics engine exception", PROGRAM),
    31: XidCode("application", INFO, "memory page fault", PROGRAM),
    32: XidCode("application", INFO, "invalid or corrupted push buffer", PROGRAM),
    43: XidCode("application", INFO, "channel reset, GPU goes on", PROGRAM),
    45: XidCode("application", INFO, "channels cleaned up after the end of a process", "A consequence, mostly."),
    68: XidCode("application", INFO, "video decoder exception", PROGRAM),
    69: XidCode("application", INFO, "class error in the graphics engine", PROGRAM),
    109: XidCode("application", INFO, "context switch timed out", PROGRAM),
    46: XidCode("hardware", WARNING, "GPU stopped processing", DRAIN),
    48: XidCode("hardware", WARNING, "double-bit ECC error", RESET, strike=True, said_by="ecc_uncorrectable"),
    61: XidCode("hardware", WARNING, "internal micro-controller warning", RESET),
    62: XidCode("hardware", CRITICAL, "internal micro-controller halt", DRAIN),
    63: XidCode("hardware", INFO, "row remapping recorded", RESET, strike=True, counted=False),
    64: XidCode("hardware", CRITICAL, "row remapping failed", DRAIN, strike=True, said_by="row_remap_failed"),
    74: XidCode("hardware", WARNING, "NVLink error", "Look at nvidia-smi nvlink -e; twice: reseat or return it."),
    79: XidCode("hardware", CRITICAL, "GPU has fallen off the bus", DRAIN, said_by="gpu_lost"),
    92: XidCode("hardware", INFO, "high rate of single-bit ECC errors", "Watch it.", strike=True, counted=False),
    94: XidCode("hardware", WARNING, "contained ECC error", RESET, said_by="ecc_uncorrectable"),
    95: XidCode("hardware", CRITICAL, "uncontained ECC error", DRAIN, strike=True, said_by="ecc_uncorrectable"),
    119: XidCode("hardware", CRITICAL, "GSP firmware does not answer", DRAIN),
    120: XidCode("hardware", CRITICAL, "GSP firmware error", DRAIN),
    140: XidCode("hardware", WARNING, "unrecovered ECC error", RESET, said_by="ecc_uncorrectable"),
    143: XidCode("hardware", CRITICAL, "GPU cannot be initialised", DRAIN),
    149: XidCode("hardware", WARNING, "NVLink error", "Look at nvidia-smi nvlink -e; twice: reseat or return it."),
    154: XidCode("hardware", WARNING, "recovery action has changed", "nvidia-smi -q says which: reset or reboot."),
}
UNKNOWN = XidCode("hardware", WARNING, "not in our table", "Look it up in NVIDIA's XID catalogue.")


def xid_code(code: int) -> XidCode:
    return CODES.get(code, UNKNOWN)

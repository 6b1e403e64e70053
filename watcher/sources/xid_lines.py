"""XIDs in lines of the kernel log, and cards that fell off the bus without a number."""

from __future__ import annotations

import re

FALLEN = 79
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)[^)]*\): (\d+)(?:, (.*))?")
_FALLEN = re.compile(r"NVRM: GPU (?:at PCI:)?([0-9a-fA-F:.]+?)(?:\.\d)?: GPU.* has fallen off the bus")
_FALLEN_BELOW = re.compile(r"NVRM: The NVIDIA GPU ([0-9a-fA-F:.]+)")  # its text goes on in the lines below


class XidLines:
    """Remembers the card of a message that spans lines."""

    def __init__(self) -> None:
        self._candidate: str | None = None

    def understand(self, text: str) -> tuple[int, str, str] | None:
        """(code, PCI address, message), where the line says one."""
        if "NVRM" not in text:
            return None
        if match := _XID.search(text):
            return int(match[2]), match[1], (match[3] or "")[:500]
        if match := _FALLEN.search(text):
            return FALLEN, match[1], text[:500]
        if match := _FALLEN_BELOW.search(text):
            self._candidate = match[1]
        elif self._candidate is not None and "fallen off the bus" in text:
            pci, self._candidate = self._candidate, None
            return FALLEN, pci, text[:500]
        return None

"""What each channel has been told of an incident. It is stored in the same transaction as the message itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from alerts._face import Face
from detectors.verdict import Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One incident on one channel. `dedup_keys`: every key it was told under; all of them get the resolve.
    `faces`: what each of them stood for, in the same order."""

    incident_id: str
    dedup_keys: tuple[str, ...]
    severity: Severity
    signature: str
    first_at: float
    last_at: float
    times: int = 1
    acknowledged: bool = False
    ended: bool = False
    faces: tuple[Face, ...] = ()

    def face(self, dedup_key: str) -> Face | None:
        """None where an older version did not write it down."""
        return dict(zip(self.dedup_keys, self.faces, strict=False)).get(dedup_key)


ToldMap = Mapping[str, Mapping[str, Told]]  # incident key -> channel -> Told


class Ledger:
    """A copy of a ToldMap that one decision writes into."""

    def __init__(self, told: ToldMap) -> None:
        self._told = {key: dict(channels) for key, channels in told.items()}

    def of(self, key: str, channel: str) -> Told | None:
        return self._told.get(key, {}).get(channel)

    def live(self, key: str, channel: str) -> Told | None:
        told = self.of(key, channel)
        return told if told is not None and not told.ended else None

    def put(self, key: str, channel: str, told: Told) -> None:
        self._told.setdefault(key, {})[channel] = told

    def first_at(self, key: str) -> float | None:
        return min((told.first_at for told in self._told.get(key, {}).values() if not told.ended), default=None)

    def holders(self, channel: str) -> dict[str, int]:
        """How many incidents that are not over were told under each dedup key."""
        count: dict[str, int] = {}
        for channels in self._told.values():
            told = channels.get(channel)
            if told is not None and not told.ended:
                for key in told.dedup_keys:
                    count[key] = count.get(key, 0) + 1
        return count

    def pages_within(self, channel: str, seconds: float, now: float) -> int:
        """Different keys under which this channel was paged in the last `seconds`, ended ones too. What lies ahead
        of `now` was told by a clock that was set back since."""
        return len(
            {
                key
                for channels in self._told.values()
                if channel in channels and 0 <= now - channels[channel].first_at <= seconds
                for key in channels[channel].dedup_keys
            }
        )

    def only(self, keys: Mapping[str, object]) -> dict[str, dict[str, Told]]:
        return {key: channels for key, channels in self._told.items() if key in keys}

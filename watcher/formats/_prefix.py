"""What stands in front of a log line: who wrote it and when. Prefixes stack (`0: [rank0]:[titan] 2025-...`)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[()][0-9A-B])|[\x00\x08]")


@dataclass(frozen=True, slots=True)
class Prefix:
    """`text` = the line without what was recognised in front. `rank` is global, `local_rank` counts within a host.

    `label` is the task number of `srun --label`: the rank where one task drives one GPU, which is taken for granted
    unless the line says its rank itself (`says_rank`).
    """

    text: str
    rank: int | None = None
    host: str | None = None
    logged_at: float | None = None
    local_rank: int | None = None
    label: int | None = None
    level: str | None = None
    says_rank: bool = False

    @property
    def told(self) -> bool:
        """Whether it says who wrote the line or when."""
        return self.rank is not None or self.host is not None or self.logged_at is not None


_STAMP = (
    r"(?P<date>\d{4}[-/]\d\d[-/]\d\d)[T ](?P<time>\d\d:\d\d:\d\d)(?P<fraction>[.,]\d{1,9})?"
    r"(?P<zone>Z| ?[+-]\d\d:?\d\d)?"
)
_LEVEL = r"(?P<level>DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)"
_NO_HOST = (
    r"(?!(?:epoch|step|iter|gpu|cuda|rank|layer|loss|train|val|test|eval|batch|node_?rank|top|acc|v|"
    r"nvidia-nvswitch)\d+:)"
)
# by the first character that is no blank; each takes something away, so a line is done in as many turns as it has
# prefixes
_DIGIT_FORMS = (
    rf"{_STAMP}\s+(?:std(?:out|err) [FP] )?(?:\| ?)?",  # kubectl --timestamps, CRI, plain logging
    r"(?P<label>\d{1,5}): (?=\s{0,200}\S)",
)
_BRACKET_FORMS = (
    rf"\[{_STAMP}\]\s*(?:\[(?:{_LEVEL}|[\w.]{{2,60}})\]\s?){{0,2}}(?:- )?",
    r"\[rank(?P<rank>\d{1,6})\]:\s?",
    r"\[(?:default|trainer|worker|node)_?(?P<local>\d{1,4})\]:\s?",
    rf"\[{_LEVEL}\|[\w./-]{{1,80}}:\d{{1,6}}\]\s*(?:{_STAMP})?\s*>>\s*",  # transformers
    rf"\[NeMo (?P<letter>[IWED]) {_STAMP} [\w./-]{{1,80}}:\d{{1,6}}\]\s?",
    r"\[(?P<letter>[IWEDC])\]\[[\w./:<>-]{1,120}\]\s?",
    r"\[[\w./-]{1,80}\.py:\d{1,6}(?::\w{1,80})?\]\s?",
    r"\[(?:titan|launcher)\]\s?",
    r"\[\d{1,6},(?P<rank>\d{1,6})\]<std(?:out|err)>:\s?",  # mpirun --tag-output
    r"\[pod/(?P<host>[\w.-]{1,253})/[\w.-]{1,253}\]\s",  # kubectl logs --prefix
)
_WORD_FORMS = (
    rf"(?P<host>{_NO_HOST}(?:[a-zA-Z][\w-]{{0,62}}(?:\.[\w-]{{1,62}}){{0,6}})):\s(?=.)",  # pdsh
    rf"{_LEVEL}:[\w.]{{1,80}}:\s?",
    rf"{_LEVEL}\s+(?:[|:>-]{{1,2}}\s+)?(?=\S)",
    r"[\w.]{1,60}:[\w<>]{1,60}:\d{1,6} - (?=\S)",  # loguru
    r"[\w.-]{1,60}/\d{1,4} (?=\S)",  # torchx: the tail of the job name and a replica
)
_OTHER_FORMS = (
    r"\((?:[\w.:/-]{1,60})?(?:,? ?pid=\d+)(?:, ip=(?P<ip>[\d.a-fA-F:]+))?(?:, rank=\d+)?\)\s",  # Ray
    rf"-\s+[\w.]{{1,60}}\s+-\s+{_LEVEL}\s+-\s+",  # ` - root - INFO - ` after its time
    rf"\|\s*{_LEVEL}\s*\|\s*",
)


def _compile(forms: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(r"\s{0,40}" + form) for form in forms)


_FORMS = {"digit": _compile(_DIGIT_FORMS), "[": _compile(_BRACKET_FORMS), "word": _compile(_WORD_FORMS)}
_FORMS["other"] = _compile(_OTHER_FORMS)
_LETTERS = {"I": "INFO", "W": "WARNING", "E": "ERROR", "D": "DEBUG", "C": "CRITICAL"}
_HOSTISH = re.compile(r"[\w-]*\d")
_QUICK = re.compile(r"\s{0,40}(?:[\d\[(|-]|[A-Za-z_][\w.-]{0,80}(?:[:/]|\s{1,9}[|:>-]?))")
MAX_PREFIXES = 8


def strip_control(text: str) -> str:
    """Without colours, cursor movements and backspaces."""
    return ANSI.sub("", text) if "\x1b" in text or "\x08" in text or "\x00" in text else text


def _forms(text: str) -> tuple[re.Pattern[str], ...]:
    first = text.lstrip()[:1]
    if first.isdigit():
        return _FORMS["digit"]
    if first == "[":
        return _FORMS["["]
    return _FORMS["word"] if first.isalpha() or first == "_" else _FORMS["other"]


def split_prefix(text: str) -> Prefix:
    """Takes the known prefixes off. The outermost time and host win; unknown text is left as it is."""
    if not _QUICK.match(text):
        return Prefix(text)
    rank = host = logged_at = local = label = level = None
    rest = text
    for _ in range(MAX_PREFIXES):
        for form in _forms(rest):
            match = form.match(rest)
            if match is None or match.end() == 0:
                continue
            found = match.groupdict()
            if found.get("host") is not None and not _HOSTISH.match(found["host"]):
                continue
            if found.get("date") and logged_at is None:
                logged_at = _instant(found["date"], found["time"], found["fraction"], found["zone"])
            if found.get("rank"):
                rank = int(found["rank"]) if rank is None else rank
            if found.get("local"):
                local = int(found["local"])
            if found.get("label"):
                label = int(found["label"]) if label is None else label
            level = found.get("level") or _LETTERS.get(found.get("letter") or "") or level
            host = host or found.get("host") or found.get("ip")
            rest = rest[match.end() :]
            break
        else:
            break
    return Prefix(rest, rank if rank is not None else label, host, logged_at, local, label, level, rank is not None)


def _instant(date: str, time: str, fraction: str | None, zone: str | None) -> float | None:
    """Unix seconds; a time without a zone is taken as UTC."""
    try:
        year, month, day = (int(part) for part in re.split("[-/]", date))
        hour, minute, second = (int(part) for part in time.split(":"))
        tz: timezone = UTC
        if zone and zone.strip() != "Z":
            sign = -1 if zone.strip()[0] == "-" else 1
            digits = zone.strip()[1:].replace(":", "")
            tz = timezone(sign * timedelta(hours=int(digits[:2]), minutes=int(digits[2:])))
        whole = datetime(year, month, day, hour, minute, min(second, 59), tzinfo=tz).timestamp()
    except (ValueError, OverflowError):
        return None
    return whole + (float("0." + fraction[1:]) if fraction else 0.0)

"""Which metrics of the job tell of its progress."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field, field_validator

from watcher.telemetry._sections import ApiSection, AuthSection, plain_url

SELECTOR = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(?:\{([^{}\n]*)\})?")
MATCHER = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)')
BESIDE = (
    "total_steps", "loss", "grad_norm", "learning_rate", "step_seconds", "tokens_per_second", "samples_per_second",
    "tflops_per_gpu",
)  # fmt: skip


class MetricNames(AuthSection):
    """Each is a plain selector, as in train_step{job="llm"}; of several series the furthest step counts."""

    step: str = Field(max_length=1_000)
    total_steps: str | None = Field(default=None, max_length=1_000)
    loss: str | None = Field(default=None, max_length=1_000)
    grad_norm: str | None = Field(default=None, max_length=1_000)
    learning_rate: str | None = Field(default=None, max_length=1_000)
    step_seconds: str | None = Field(default=None, max_length=1_000)
    tokens_per_second: str | None = Field(default=None, max_length=1_000)
    samples_per_second: str | None = Field(default=None, max_length=1_000)
    tflops_per_gpu: str | None = Field(default=None, max_length=1_000)

    @field_validator("step", *BESIDE)
    @classmethod
    def _plain(cls, value: str | None) -> str | None:
        if value is not None and not SELECTOR.fullmatch(value.strip()):
            raise ValueError(
                'must be a plain selector, as in train_step{job="llm"}: only then it is known when a sample was taken'
            )
        return value.strip() if value is not None else None

    def wanted(self) -> dict[str, str]:
        """field of LogEvent -> selector."""
        return {name: text for name in ("step", *BESIDE) if (text := getattr(self, name)) is not None}


class EngineProgressSection(ApiSection, MetricNames):
    """`window_seconds`: how far back to look for samples; more than two scrapes."""

    window_seconds: float = Field(default=150.0, ge=10, le=900)


class EndpointSection(MetricNames):
    """The job's own /metrics. Labels of a selector are compared for equality."""

    url: Annotated[str, AfterValidator(plain_url)] = Field(max_length=2_000)

    @field_validator("step", *BESIDE)
    @classmethod
    def _equal(cls, value: str | None) -> str | None:
        if value is not None:
            parse_selector(value)
        return value


def parse_selector(text: str) -> tuple[str, dict[str, str]]:
    """Name and labels. Raises ValueError where a label is not compared by a plain `=`."""
    found = SELECTOR.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no selector")
    inside, labels, place = (found[2] or "").strip(), {}, 0
    while place < len(inside):
        matcher = MATCHER.match(inside, place)
        if matcher is None:
            raise ValueError(f'{text!r}: labels of an endpoint are compared by label="value" alone')
        labels[matcher[1]] = matcher[2].replace('\\"', '"').replace("\\\\", "\\")
        place = matcher.end()
    return found[1], labels

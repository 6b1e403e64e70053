"""Who differs in a run that stands still: the GPU, node or rank that is not like the others, or honestly no one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from detectors._shape import Shape
from detectors.frame import Frame

FEW = 0.25  # more than this share differing is no odd one out
NAMED = 3
RANK_BEHIND_STEPS = 1


@dataclass(frozen=True, slots=True)
class Differs:
    """`names`: at most three, for people. `node` and `gpu` (a UUID) where it is exactly one."""

    names: tuple[str, ...] = ()
    node: str | None = None
    gpu: str | None = None
    gpu_index: int | None = None

    @property
    def text(self) -> str:
        return "differs: " + ", ".join(self.names) if self.names else "no one differs"


def who_differs(frame: Frame, shape: Shape) -> Differs:
    """Looks for lost or unreadable GPUs, then a dark node, then odd GPUs, then ranks whose last step is behind."""
    broken = [(node.name, gpu) for node in frame.nodes for gpu in node.gpus if gpu.state != "ok"]
    if 0 < len(broken) <= max(1, FEW * shape.gpus):
        names = [f"{node} gpu {gpu.index} ({gpu.error or gpu.state})" for node, gpu in broken]
        if len(broken) == 1:
            node, gpu = broken[0]
            return Differs(tuple(names), node, gpu.uuid, gpu.index)
        return Differs(tuple(names[:NAMED]), _only(node for node, _ in broken))
    silent = [node.name for node in frame.nodes if node.reachable is False]
    if 0 < len(silent) <= max(1, FEW * len(frame.nodes)) and len(frame.nodes) > 1:
        return Differs(tuple(f"{name} (no answer)" for name in silent[:NAMED]), _only(silent))
    odd = _odd(shape)
    if odd.any():
        return _gpus(frame, shape, odd)
    return _ranks(frame)


def _odd(shape: Shape) -> npt.NDArray[np.bool_]:
    """The minority by utilization; among equals the one whose power stands far off."""
    nobody = np.zeros(shape.gpus, np.bool_)
    known = ~np.isnan(shape.utilization_ratio)
    if known.sum() < 3:
        return nobody
    busy = shape.busy_mask & known
    idle = known & ~busy
    for mask in (idle, busy):
        if 0 < mask.sum() <= max(1, FEW * known.sum()):
            return mask
    power = shape.power_watts
    measured = ~np.isnan(power)
    if measured.sum() < 4:
        return nobody
    middle = float(np.median(power[measured]))
    spread = 1.4826 * float(np.median(np.abs(power[measured] - middle)))
    with np.errstate(invalid="ignore"):
        far = measured & (np.abs(power - middle) > max(6 * spread, 0.12 * middle))
    return far if 0 < far.sum() <= max(1, FEW * measured.sum()) else nobody


def _gpus(frame: Frame, shape: Shape, odd: npt.NDArray[np.bool_]) -> Differs:
    places = np.flatnonzero(odd)
    refs = [frame.gpus[i] for i in places]
    node = _only(ref.node for ref in refs)
    whole = node is not None and len(refs) > 1 and all(odd[i] for i, r in enumerate(frame.gpus) if r.node == node)
    names = [
        f"{ref} ({_watts(shape.power_watts[i])}, {shape.utilization_ratio[i]:.0%})"
        for ref, i in zip(refs, places, strict=True)
    ]
    if whole:
        return Differs((f"{node} (all its GPUs: {_watts(float(np.nanmedian(shape.power_watts[places])))})",), node)
    if len(refs) == 1:
        return Differs(tuple(names), refs[0].node, refs[0].uuid, refs[0].index)
    return Differs(tuple(names[:NAMED]), node)


def _ranks(frame: Frame) -> Differs:
    steps = frame.progress.rank_steps
    if len(steps) < 3:
        return Differs()
    most = max(steps.values())
    behind = [rank for rank, step in steps.items() if most - step > RANK_BEHIND_STEPS]
    if not 0 < len(behind) <= max(1, FEW * len(steps)):
        return Differs()
    return Differs(tuple(f"rank {rank} (last step {steps[rank]} of {most})" for rank in sorted(behind)[:NAMED]))


def _watts(value: float) -> str:
    return "power not known" if np.isnan(value) else f"{value:.0f} W"


def _only(names: object) -> str | None:
    unique = set(names)  # type: ignore[call-overload]
    return next(iter(unique)) if len(unique) == 1 else None

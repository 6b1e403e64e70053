"""One nvidia-smi output in its three forms, and what one look can and cannot say."""

from __future__ import annotations

import io
import json

import pytest

from watcher.cli.main import main
from watcher.triage.judge import judge
from watcher.triage.read import TriageError, read_snapshot

TABLE = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 570.124.06             Driver Version: 570.124.06     CUDA Version: 12.8     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA A100-SXM4-80GB          On  |   00000000:07:00.0 Off |                    0 |
| N/A   29C    P0             85W /  400W |   71234MiB /  81920MiB |    100%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA A100-SXM4-80GB          On  |   00000000:0F:00.0 Off |                    0 |
| N/A   28C    P0             68W /  400W |   71234MiB /  81920MiB |      0%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
"""
CSV = "index, name, power.draw [W], enforced.power.limit [W], utilization.gpu [%], utilization.memory [%]\n"
XML = """<?xml version="1.0" ?><nvidia_smi_log><gpu>
<product_name>NVIDIA H100 80GB HBM3</product_name>
<uuid>GPU-1</uuid><fb_memory_usage><total>81559 MiB</total><used>70000 MiB</used></fb_memory_usage>
<utilization><gpu_util>97 %</gpu_util><memory_util>50 %</memory_util></utilization>
<temperature><gpu_temp>61 C</gpu_temp></temperature>
<gpu_power_readings><power_draw>640.1 W</power_draw>
<current_power_limit>700.00 W</current_power_limit></gpu_power_readings>
</gpu></nvidia_smi_log>"""


def row(index: int, watts: object, busy: object, memory: object = "[N/A]", name: str = "NVIDIA H100 80GB HBM3") -> str:
    return f"{index}, {name}, {watts} W, 700.00 W, {busy} %, {memory} %\n"


def shape(text: str) -> tuple[str, str]:
    found = judge(read_snapshot(text))
    return found.shape, found.confidence


def test_a_table_is_read():
    first, second = read_snapshot(TABLE)
    assert (first.index, first.name, first.power_watts, first.power_limit_watts) == (
        0,
        "NVIDIA A100-SXM4-80GB",
        85,
        400,
    )
    assert (first.utilization_ratio, second.utilization_ratio, second.temperature_celsius) == (1.0, 0.0, 28)
    assert first.memory_used_bytes == 71234 << 20


def test_xml_is_read():
    (gpu,) = read_snapshot(XML)
    assert (gpu.uuid, gpu.power_watts, gpu.power_limit_watts, gpu.utilization_ratio) == ("GPU-1", 640.1, 700, 0.97)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(CSV + "".join(row(i, 640, 98, 50) for i in range(8)), ("working", "high"), id="work"),
        pytest.param(CSV + "".join(row(i, 150, 100, 0) for i in range(8)), ("spinning", "high"), id="a pure spin"),
        pytest.param(CSV + "".join(row(i, 150, 100) for i in range(8)), ("spinning", "medium"), id="memory not shown"),
        pytest.param(CSV + "".join(row(i, 70, 0, 0) for i in range(8)), ("idle", "high"), id="nothing runs"),
        pytest.param(CSV + "0, H100, [Unknown Error], [Unknown Error], [Unknown Error], [N/A]\n" + row(1, 640, 98),
                     ("fault", "high"), id="an unreadable card"),
        pytest.param(CSV + "0, H100, [N/A], 700.00 W, [N/A], [N/A]\n", ("unknown", "low"), id="nothing shown"),
        pytest.param(TABLE, ("spinning", "medium"), id="one of two spins"),
    ],
)  # fmt: skip
def test_shapes(text, expected):
    assert shape(text) == expected


def test_the_odd_one_is_named():
    text = CSV + "".join(row(i, 150, 100, 0) for i in range(7)) + row(7, 68, 0, 0)
    assert judge(read_snapshot(text)).odd == (7,)


@pytest.mark.parametrize("text", ["", "hello", "<a>", "<!DOCTYPE x [<!ENTITY a 'b'>]><x/>", "| 0 |\n", "a,b\n1,2\n"])
def test_what_is_none_of_it_is_said_in_one_line(text, capsys, monkeypatch):
    with pytest.raises(TriageError):
        read_snapshot(text)
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert main(["triage"]) == 2
    assert capsys.readouterr().err.startswith("runwatch: triage: ")


def test_the_answer_says_what_would_make_it_certain(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(TABLE))
    assert main(["triage", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [gpu["state"] for gpu in answer["gpus"]] == ["spinning", "idle"]
    assert "progress" in answer["why"]


@pytest.mark.parametrize(
    "paste",
    [
        "$ nvidia-smi --query-gpu=index,power.draw,utilization.gpu --format=csv\n" + CSV + row(0, 120, 100, 0),
        "power.draw [W], enforced.power.limit [W], utilization.gpu [%]\n120.00 W, 700.00 W, 100 %\n",
        "\n".join(f"    {line}" for line in TABLE.splitlines()),
        "\n".join(f"> {line}" for line in TABLE.splitlines()),
        "Every 2.0s: nvidia-smi -q -x\n\n" + XML,
        CSV + row(0, 120, 100) + "0, NVIDIA " + "x" * 200_000 + ", 120 W, 700 W, 100 %, 0 %\n",
    ],
    ids=["with its prompt", "without a number", "indented", "quoted", "XML under a heading", "a line without end"],
)
def test_what_is_pasted_with_other_things_around_it_is_read(paste):
    assert read_snapshot(paste)[0].power_watts is not None


def test_several_looks_in_one_file_are_one_gpu_as_it_was_last():
    looks = "timestamp, index, power.draw [W], utilization.gpu [%]\n" + "".join(
        f"2024/01/01 00:00:{second:02d}.000, 0, {watts} W, 100 %\n" for second, watts in ((10, 300), (20, 85))
    )
    assert [gpu.power_watts for gpu in read_snapshot(looks)] == [85]


@pytest.mark.parametrize("text", [f"index, memory.used [MiB]\n{n}, {n} MiB\n" for n in ("1e400", "-9e999")])
def test_numbers_without_bounds_are_no_numbers(text):
    assert read_snapshot(text)[0].memory_used_bytes is None
    xml = "<nvidia_smi_log><gpu><fb_memory_usage><used>1e400 MiB</used></fb_memory_usage></gpu></nvidia_smi_log>"
    assert read_snapshot(xml)[0].memory_used_bytes is None


def test_a_card_that_nvidia_smi_cannot_reach_is_a_fault():
    said = "Unable to determine the device handle for GPU{}0000:04:00.0: {}\n"
    lost, unknown = read_snapshot(said.format(" ", "GPU is lost.  Reboot the system to recover this GPU")) + (
        read_snapshot(said.format("3: ", "Unknown Error"))
    )
    assert (lost.state, lost.pci_bus_id) == ("lost", "0000:04:00.0")
    assert (unknown.state, unknown.index) == ("unreadable", 3)
    assert shape(said.format("3: ", "Unknown Error")) == ("fault", "high")


@pytest.mark.parametrize(
    ("said", "meaning"),
    [
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure", "not loaded"),
        ("Failed to initialize NVML: Driver/library version mismatch", "reboot the node"),
        ("Failed to initialize NVML: Unknown Error", "container"),
        ("No devices were found", "no GPU"),
    ],
)
def test_what_nvidia_smi_says_instead_of_an_answer_is_explained(said, meaning):
    with pytest.raises(TriageError, match=meaning):
        read_snapshot(said)

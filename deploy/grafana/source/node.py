"""One node with its GPUs: is the hardware sound, and what else runs out?"""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row

from deploy.grafana.source.board import board, choice
from deploy.grafana.source.panels import GREEN, ORANGE, RED, graph, number, rows, strip
from deploy.grafana.source.queries import Query, by_index, increase, metric, rate

UP = {0: ("down", RED), 1: ("up", GREEN)}
LEGEND = "{{node}} gpu {{index}}"


def _gpu(name: str, **labels: str) -> str:
    return metric(f"runwatch_gpu_{name}", node="$node", **labels)


def _host(name: str) -> str:
    return metric(f"runwatch_host_{name}", node="$node")


def _agent(name: str) -> str:
    return metric(f"runwatch_agent_{name}", node="$node")


def _each(name: str) -> Query:
    return Query(by_index(_gpu(name)), LEGEND)


def node() -> Dashboard:
    return (
        board(
            "runwatch-node", "runwatch / Node and GPUs", "GPUs, host and agent of the nodes that are chosen.",
            choice("node", "Node", 'label_values(runwatch_agent_info{job=~"$job"}, node)', many=True),
        )
        .with_row(Row("Now"))
        .with_panel(
            number("Agents that answer", "Of the chosen nodes, as the daemon sees them.", "percentunit",
                   Query(f"avg({_agent('up')})"), steps=[(None, RED), (1, GREEN)])
        )
        .with_panel(
            number("GPUs missing", "GPUs that should be there and do not answer.", "none",
                   Query(f"sum({_agent('gpus_expected')} - {_agent('gpus_present')})"),
                   steps=[(None, GREEN), (1, RED)])
        )
        .with_panel(
            number("Oldest reading", "Age of the GPU readings that the agent last sent.", "s",
                   Query(f"max({_agent('data_age_seconds')})"), steps=[(None, GREEN), (60, ORANGE), (120, RED)])
        )
        .with_panel(
            number("Strikes", "Hardware strikes within a week: two, and the node should be left out.", "none",
                   Query(f"max({metric('runwatch_node_strikes', node='$node')})"),
                   steps=[(None, GREEN), (1, ORANGE), (2, RED)])
        )
        .with_panel(
            number("Clock", "Largest difference between the clock of a node and that of the daemon.", "s",
                   Query(f"max(abs({_agent('clock_skew_seconds')}))"), steps=[(None, GREEN), (5, ORANGE), (60, RED)])
        )
        .with_panel(
            number("Row remaps that wait", "GPUs with a faulty row that is set aside at the next reset.", "none",
                   Query(f"sum({_gpu('row_remap_pending')})"), steps=[(None, GREEN), (1, ORANGE)])
        )
        .with_panel(
            number("Row remaps that failed", "GPUs without a spare row: they have to be returned.", "none",
                   Query(f"sum({_gpu('row_remap_failed')})"), steps=[(None, GREEN), (1, RED)])
        )
        .with_panel(
            number("Hardware XIDs", "XIDs that speak of the hardware, since the agents were started.", "none",
                   Query(f"sum({_gpu('hardware_xids_total')})"), steps=[(None, GREEN), (1, ORANGE)])
        )
        .with_panel(
            rows("GPUs", "What is fixed of each, and how it is now.",
                 [
                     (f"max by (node, gpu, index, name, serial, pci_bus_id) ({_gpu('info')})", "There", "none"),
                     (f"max by (node, gpu) ({_gpu('power_watts')})", "Power", "watt"),
                     (f"max by (node, gpu) ({_gpu('utilization_ratio')})", "Utilization", "percentunit"),
                     (f"max by (node, gpu) ({_gpu('memory_used_bytes')})", "Memory", "bytes"),
                     (f"max by (node, gpu) ({_gpu('temperature_celsius')})", "Temperature", "celsius"),
                     (f"max by (node, gpu) ({_gpu('ecc_errors_total', counter='=aggregate', kind='=uncorrected')})",
                      "Uncorrectable errors of its life", "none"),
                 ], key=["node", "index", "name", "serial", "pci_bus_id", "gpu"])
        )
        .with_row(Row("GPUs at work"))
        .with_panel(graph("Power", "Power that the board draws.", "watt", _each("power_watts")))
        .with_panel(
            graph("Utilization", "Share of time in which any kernel ran, nothing more.", "percentunit",
                  _each("utilization_ratio"), most=1)
        )
        .with_panel(graph("Memory in use", "Of each GPU.", "bytes", _each("memory_used_bytes")))
        .with_panel(graph("Temperature", "Of the GPU.", "celsius", _each("temperature_celsius")))
        .with_panel(graph("Clock", "Of the multiprocessors; slower than its peers is a sick card.", "hertz",
                          _each("sm_clock_hertz")))
        .with_panel(
            graph("Throttled", "Share of time in which a reason held the clocks down.", "percentunit",
                  Query(by_index(_gpu("throttled_ratio")), f"{LEGEND} {{{{reason}}}}"), most=1)
        )
        .with_row(Row("Faults"))
        .with_panel(
            graph("Uncorrectable ECC errors", "Since the driver was loaded; what counts is a rise.", "none",
                  Query(by_index(_gpu("ecc_errors_total", counter="=volatile", kind="=uncorrected")), LEGEND))
        )
        .with_panel(
            graph("Corrected ECC errors", "A second. They never page by themselves.", "none",
                  Query(by_index(rate("runwatch_gpu_ecc_errors_total", node="$node", counter="=volatile",
                                      kind="=corrected")), LEGEND))
        )
        .with_panel(
            graph("XIDs of the hardware", "New ones in each interval.", "none",
                  Query(by_index(increase("runwatch_gpu_hardware_xids_total", node="$node")), LEGEND))
        )
        .with_panel(
            graph("PCIe lanes", "In use; fewer than the card can use is a bad seat or a bad riser.", "none",
                  _each("pcie_lanes"))
        )
        .with_panel(
            graph("PCIe replays", "Repeated packets, a second.", "none",
                  Query(by_index(rate("runwatch_gpu_pcie_replays_total", node="$node")), LEGEND))
        )
        .with_panel(
            graph("NVLink errors", "Errors, replays and recoveries, a second.", "none",
                  Query(by_index(rate("runwatch_gpu_nvlink_errors_total", node="$node")), LEGEND))
        )
        .with_panel(graph("NVLinks down", "Links that were active before.", "none", _each("nvlinks_down")))
        .with_panel(graph("NVLink", "Data over all links, both directions.", "Bps", _each("nvlink_bytes_per_second")))
        .with_panel(
            graph("Lost", "1 while the driver says that the GPU is lost.", "none", _each("lost"))
        )
        .with_row(Row("Host"))
        .with_panel(
            graph("Memory", "Share of the node's memory that is not available.", "percentunit",
                  Query(f"{_host('memory_used_bytes')} / {_host('memory_size_bytes')}", "{{node}}"),
                  Query(f"{_host('shm_used_bytes')} / {_host('shm_size_bytes')}", "{{node}} /dev/shm"),
                  Query(f"{_host('run_memory_bytes')} / {_host('run_memory_limit_bytes')}", "{{node}} of its limit"),
                  most=1)
        )
        .with_panel(
            graph("Disks", "Share in use.", "percentunit",
                  Query(f"{_host('disk_used_bytes')} / {_host('disk_size_bytes')}", "{{node}} {{mount}}"), most=1)
        )
        .with_panel(
            graph("Load and the run's processes", "Load, cores of the run, its processes in state D.", "none",
                  Query(_host("load1"), "{{node}} load"), Query(_host("run_cpu_cores"), "{{node}} cores"),
                  Query(_host("run_processes_in_disk_sleep"), "{{node}} in state D"))
        )
        .with_panel(
            graph("Network", "Over network cards and InfiniBand, both directions.", "Bps",
                  Query(_host("network_bytes_per_second"), "{{node}}"))
        )
        .with_panel(
            graph("Reads and writes of the run", "By the processes that hold GPUs.", "Bps",
                  Query(_host("run_read_bytes_per_second"), "{{node}} reads"),
                  Query(_host("run_write_bytes_per_second"), "{{node}} writes"))
        )
        .with_panel(
            graph("Links", "Ports that are down, and how often one went down.", "none",
                  Query(_host("links_down"), "{{node}} down"),
                  Query(increase("runwatch_host_link_downs_total", node="$node"), "{{node}} {{port}} went down"))
        )
        .with_row(Row("Agent"))
        .with_panel(
            strip("Sources", "Whether each source of the agent answers.",
                  Query(_agent("source_up"), "{{node}} {{source}}"), UP, span=12)
        )
        .with_panel(
            graph("Age of the sources", "Time since each last answered.", "s",
                  Query(_agent("source_age_seconds"), "{{node}} {{source}}"), span=12)
        )
    )  # fmt: skip

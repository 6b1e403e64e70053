"""A real Slurm, as the daemon sees it: attempts, ends, places; and the node that kills one attempt after the other."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.support import slurm_cluster
from tests.support.slurm_cluster import SlurmCluster
from tests.support.slurm_site import SlurmSite

SCALE = 20.0
FASTER = 60.0  # where nothing hangs on what comes first
TRAIN = """
train() {  # a line a step, until it is told to die or Slurm ends it
  trap 'rm -f busy-'"$(hostname)" EXIT
  trap 'exit 143' TERM
  if [ -e bad-$(hostname) ] && [ "$1" = again ]; then
    echo "$(hostname): RuntimeError: CUDA error: out of memory"; exit 1
  fi
  touch busy-$(hostname)
  step=$(cat step 2>/dev/null || echo 0)
  while sleep 0.1; do
    if [ -e bad-$(hostname) ]; then
      sleep 0.2; echo "$(hostname): RuntimeError: CUDA error: uncorrectable ECC error encountered"; exit 1
    fi
    if [ "$SLURM_PROCID" = 0 ]; then
      step=$((step + 1)); echo $step > step
      echo " iteration $step/ 99999 | elapsed time per iteration (ms): 6000.0 | lm loss: 2.5E+00 |"
    fi
  done
}
export -f train
again=$([ -e step ] && echo again)
echo "[default0]:> initializing torch distributed ..."
srun --kill-on-bad-exit=1 --unbuffered bash -c "train $again"
"""


@pytest.fixture
def site(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[SlurmSite]:
    if reason := slurm_cluster.missing():
        assert not os.environ.get("CI"), reason
        pytest.skip(reason)
    runs = [
        {"name": "{job_name}", "match": {"slurm_job_name": "tr1-*"}, "logs": [{"path": "%stdout", "tail": "daemon"}]}
    ]
    with SlurmCluster(tmp_path_factory.mktemp("slurm"), count=4) as slurm:
        one = SlurmSite(slurm, runs, FASTER if "requeue" in request.node.name else SCALE)
        try:
            one.start_daemon()
            yield one
        finally:
            one.close()


def submit(site: SlurmSite, *options: str) -> str:
    return site.slurm.submit(
        TRAIN,
        "--job-name=tr1-13B",
        "--nodes=3",
        "--ntasks-per-node=1",
        "--gpus-per-node=8",
        "--open-mode=append",
        *options,
    )


def steps(site: SlurmSite, attempt: int) -> None:
    def at_work() -> bool:
        run = site.run("tr1-13B")
        return run is not None and run["attempt"] == attempt and (run["step"] or 0) > 5 and run["phase"] == "training"

    site.until(at_work, f"attempt {attempt} makes steps")


def nodes(site: SlurmSite) -> list[str]:
    run = site.run("tr1-13B")
    return sorted(node["node"] for node in run["nodes"]) if run is not None else []


def test_a_node_that_kills_two_attempts_is_one_page_that_names_it_and_a_third_without_it_ends_that(site):
    submit(site)
    steps(site, 1)
    assert nodes(site) == ["gpu01", "gpu02", "gpu03"]
    site.until(lambda: site.run("tr1-13B")["learnt"]["power_watts"], "working power is learnt")
    submit(site, "--dependency=singleton")
    site.agents.errors["gpu03"] = 1
    (site.folder / "bad-gpu03").touch()
    page = site.until(site.pager.triggers, "a page")[0]
    assert page["dedup_key"].endswith("repeated_ecc")
    assert "gpu03" in page["payload"]["summary"]
    assert "--exclude=gpu03" in page["payload"]["summary"]
    site.kill_daemon()
    site.start_daemon()
    submit(site, "--exclude=gpu03")
    steps(site, 3)
    assert nodes(site) == ["gpu01", "gpu02", "gpu04"]
    site.until(lambda: not site.pager.open_keys(), "the resolve")
    assert [event["event_action"] for event in site.pager.events] == ["trigger", "resolve"]


def test_a_requeue_is_an_attempt_and_no_page_and_a_cancelled_run_without_a_successor_is_one(site):
    job = submit(site, "--requeue")
    steps(site, 1)
    site.slurm.run("scontrol", "requeue", job)
    site.until(lambda: (site.run("tr1-13B") or {"job": {}})["job"].get("state") == "pending", "it waits")
    site.slurm.run("scontrol", "update", f"jobid={job}", "starttime=now")
    steps(site, 2)
    assert site.pager.events == []
    site.slurm.run("scancel", job)
    page = site.until(site.pager.triggers, "a page", 90)[0]
    assert page["dedup_key"] == "tr1-13B/not_restarted"
    assert "was cancelled" in page["payload"]["summary"]
    assert "nothing waits" in page["payload"]["summary"]
    submit(site)
    steps(site, 3)
    site.until(lambda: not site.pager.open_keys(), "the resolve")
    assert [event["event_action"] for event in site.pager.events] == ["trigger", "resolve"]

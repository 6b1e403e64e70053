from __future__ import annotations

import re
from pathlib import Path

from alerts.channels._api import load_channels
from watcher.config.alerting import alert_policy, build_channels
from watcher.config.daemon import DaemonConfig
from watcher.config.load import load

DOCUMENT = Path(__file__).resolve().parents[2] / "deploy" / "paging.md"


def test_every_example_of_the_paging_document_loads_and_every_channel_is_in_it(tmp_path: Path) -> None:
    examples = re.findall(r"```yaml\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    assert len(examples) == 3
    for number, text in enumerate(examples):
        path = tmp_path / f"{number}.yaml"
        path.write_text(text)
        config = load(path, DaemonConfig)
        assert set(build_channels(config.channels)) == set(alert_policy(config).channels)
    for name in load_channels():
        assert f"{name}:" in examples[0]

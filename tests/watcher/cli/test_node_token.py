"""`runwatch node-token`: a token for each node, in files of their own."""

from __future__ import annotations

from watcher.cli.main import main


def test_tokens_go_into_a_folder_that_need_not_be_there_readable_by_the_owner_alone(tmp_path, capsys):
    (tmp_path / "master").write_text("a master secret that is long enough for this test")
    folder = tmp_path / "a/tokens"
    words = ["node-token", "n[1-2]", "--master-file", str(tmp_path / "master")]
    for _ in range(2):  # also where they are there
        assert main([*words, "--directory", str(folder)]) == 0
    assert folder.stat().st_mode & 0o777 == 0o700
    files = sorted(folder.iterdir())
    assert [(file.name, file.stat().st_mode & 0o777) for file in files] == [("n1.token", 0o600), ("n2.token", 0o600)]
    assert main(words) == 0
    printed = dict(line.split() for line in capsys.readouterr().out.splitlines())
    assert printed == {file.stem: file.read_text().strip() for file in files}

"""U13: what scp, sftp and rsync say when the target folder isn't there, and that a folder made first is enough."""

import shutil
import subprocess
from pathlib import Path

import pytest
from check_code import span

SERVER = Path("/usr/lib/openssh/sftp-server")
pytestmark = pytest.mark.skipif(
    not (SERVER.exists() and shutil.which("scp") and shutil.which("rsync")),
    reason="needs scp, sftp-server and rsync",
)
SCP = f"scp -D {SERVER}"  # a server on this machine, without ssh


@pytest.fixture
def bash(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/file").write_text("1")
    (tmp_path / "there").mkdir()

    def run(line):
        line = line.replace("BOX", f"box:{tmp_path}")
        return subprocess.run(
            ["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, timeout=20
        )

    return run


@pytest.mark.parametrize("line", [
    f"{SCP} data/file BOX/there/x/",
    f"{SCP} data/file BOX/nope/x",
    f"{SCP} -r data BOX/there/x/",
    f"{SCP} -r data BOX/nope/x",
    "rsync -a data/ nope/a/b",
    "rsync -a data/file nope/a",
])  # fmt: skip
def test_a_missing_target_folder_is_named(bash, says, line):
    done = bash(line)
    assert done.returncode != 0
    says("U13", done.stderr)


def test_scp_makes_the_last_part_alone_and_only_without_a_slash_behind_it(bash, tmp_path):
    assert bash(f"{SCP} -r data BOX/there/x").returncode == 0
    assert (tmp_path / "there/x/file").exists()


@pytest.mark.parametrize("line", [
    f"mkdir -p nope/x && {SCP} -r data BOX/nope/x/",
    "rsync -a --mkpath data/ nope/x/data/",
])  # fmt: skip
def test_the_fix_takes_the_files_there(bash, tmp_path, line):
    assert bash(line).returncode == 0
    assert (tmp_path / "nope/x/data/file").read_text() == "1"


def test_a_misspelt_source_is_the_other_side(bash, says):
    stderr = bash(f"{SCP} misspelt BOX/there/").stderr
    assert 'stat local "misspelt": No such file or directory' in stderr
    with pytest.raises(AssertionError):
        says("U13", stderr)


@pytest.mark.parametrize(("folder", "missing"), [("there/x", True), ("there", False)])
def test_the_check_names_the_missing_folder_and_lists_one_that_is_there(
    bash, tmp_path, folder, missing
):
    code = span("U13", "ls -ld").replace("ssh gpu ", "bash -c ")
    done = bash(code.replace("/root/x", f"{tmp_path}/{folder}").replace(" /root", f" {tmp_path}"))
    assert ("No such file or directory" in done.stderr) is missing
    assert f"{tmp_path}\n" in done.stdout

"""U12: a cut rsync throws the begun file away unless told to keep it, and the Check names what isn't equal yet."""

import os
import shutil
import subprocess
import time

import pytest
from check_code import span

pytestmark = pytest.mark.skipif(not shutil.which("rsync"), reason="needs rsync")


@pytest.fixture
def box(tmp_path):
    source = tmp_path / "gpu/run/ckpt"
    source.mkdir(parents=True)
    (source / "step_1.pt").write_bytes(bytes(range(256)) * 8192)  # 2 MiB
    (tmp_path / "run/ckpt").mkdir(parents=True)
    return tmp_path


def cut_off(box, *options) -> list[str]:
    """The files, hidden ones too, that are there after a transfer was killed half-way."""
    target = box / "run/ckpt"
    line = ["rsync", "-a", "--bwlimit=1000", *options, f"{box}/gpu/run/ckpt/", f"{target}/"]
    running = subprocess.Popen(line, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 20
    while not any(path.is_file() and path.stat().st_size for path in target.rglob("*")):
        assert time.monotonic() < until
        time.sleep(0.05)
    running.terminate()
    running.wait()
    until = time.monotonic() + 5  # the receiver tidies up behind itself
    while any(path.name.startswith(".step") for path in target.rglob("*")):
        assert time.monotonic() < until
        time.sleep(0.05)
    return sorted(str(path.relative_to(target)) for path in target.rglob("*") if path.is_file())


def differs(box) -> str:
    code = span("U12", "itemize-changes").replace("gpu:", "gpu/")
    return subprocess.run(["bash", "-c", code], cwd=box, capture_output=True, text=True).stdout


def test_a_plain_copy_loses_what_had_arrived(box):
    assert cut_off(box) == []
    assert "step_1.pt" in differs(box)


def test_a_folder_for_parts_keeps_it_and_the_next_try_ends_with_an_equal_file(box):
    assert cut_off(box, "--partial-dir=.rsync-partial") == [".rsync-partial/step_1.pt"]
    assert "step_1.pt" in differs(box)
    again = ["rsync", "-a", "--partial-dir=.rsync-partial", "gpu/run/ckpt/", "run/ckpt/"]
    subprocess.run(again, cwd=box, check=True)
    assert differs(box) == ""


def test_the_check_sees_a_changed_byte_and_not_another_time(box):
    subprocess.run(["rsync", "-a", "gpu/run/ckpt/", "run/ckpt/"], cwd=box, check=True)
    copy = box / "run/ckpt/step_1.pt"
    times = copy.stat().st_mtime
    with open(copy, "r+b") as file:
        file.write(b"x")
    os.utime(copy, (times, times))
    assert differs(box).startswith(">fc")
    shutil.copy2(box / "gpu/run/ckpt/step_1.pt", copy)
    os.utime(copy, (times + 60, times + 60))
    assert [line[0] for line in differs(box).splitlines()] == ["."]


def test_the_text_of_a_connection_that_ends_half_way(box, says):
    """The other side is killed after four of some ten seconds, as a box that goes away."""
    shell = box / "ssh"
    shell.write_text('#!/bin/sh\nshift\nexec timeout -s KILL 4 "$@"\n')
    shell.chmod(0o755)
    line = ["rsync", "-a", "--bwlimit=200", "-e", shell, f"gpu:{box}/gpu/run/ckpt/"]
    done = subprocess.run([*line, box / "run/ckpt/"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 12
    says("U12", done.stderr)

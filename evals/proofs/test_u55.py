"""U55: files that are replaced under a reader, and the errors of a mount that a stub raises."""

import errno
import os
import pty
import signal
import subprocess
import sys

import pytest
from check_code import span
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.catalogue.signatures import Pattern
from stub_box import Box

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")

READER = """
import sys, torch
weights = torch.load("last.pt", mmap=True)["weights"]  # pages come from the file when they are touched
print("open", flush=True)
sys.stdin.readline()
print(float(weights[-1]))
"""
NOT_NOW = {
    errno.ESTALE, errno.EIO, errno.EREMOTEIO, errno.ENOTCONN, errno.ECONNABORTED, errno.ETIMEDOUT
}  # fmt: skip


def again(read, path, waits=(1, 5, 30, 120), sleep=lambda seconds: None):
    """Read a file that is opened anew after each of these waits."""
    for wait in (*waits, None):
        try:
            with open(path, "rb") as file:  # opened anew each time
                return read(file)
        except OSError as error:
            if wait is None or error.errno not in NOT_NOW:
                raise
            sleep(wait)


def read_while(change, folder):
    """Exit status and output of a program that has a checkpoint mapped while `change` is at work."""
    reader = subprocess.Popen(
        [sys.executable, "-c", READER],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert reader.stdout.readline() == "open\n"
    change()
    said, _ = reader.communicate("go\n", timeout=60)
    return reader.returncode, said.strip()


@pytest.fixture
def checkpoint(tmp_path):
    torch = pytest.importorskip("torch")
    path = tmp_path / "last.pt"
    torch.save({"weights": torch.full((1_000_000,), 7.0)}, path)
    return path


def smaller(path):
    import torch

    torch.save({"weights": torch.zeros(10)}, path)


def test_a_save_onto_a_mapped_file_ends_its_reader_with_a_bus_error(checkpoint):
    assert read_while(lambda: smaller(checkpoint), checkpoint.parent) == (-signal.SIGBUS, "")


def test_a_save_beside_and_a_rename_leave_the_reader_sound(checkpoint):
    def replace():
        smaller(f"{checkpoint}.tmp")
        os.replace(f"{checkpoint}.tmp", checkpoint)

    assert read_while(replace, checkpoint.parent) == (0, "7.0")


def test_on_a_local_disk_a_deleted_file_is_still_read_by_who_has_it_open(tmp_path):
    path = tmp_path / "shard.bin"
    path.write_bytes(b"data")
    with open(path, "rb") as file:
        os.remove(path)
        assert file.read() == b"data"


class Mount:
    """Stands for a mount that fails some times; reads what is behind the name after that."""

    def __init__(self, code, failures):
        self.code, self.failures, self.handles = code, failures, []

    def __call__(self, file):
        self.handles.append(file)
        if len(self.handles) <= self.failures:
            raise OSError(self.code, os.strerror(self.code), file.name)
        return file.read()


@pytest.mark.parametrize("code", sorted(NOT_NOW))
def test_opened_again_the_read_comes_through_once_the_mount_is_back(tmp_path, code):
    path = tmp_path / "shard.bin"
    path.write_bytes(b"data")
    mount, slept = Mount(code, failures=2), []
    assert again(mount, path, sleep=slept.append) == b"data"
    assert slept == [1, 5]
    assert len(set(map(id, mount.handles))) == 3


def test_without_it_the_first_error_ends_the_run_and_names_the_entry(tmp_path, says):
    path = tmp_path / "shard.bin"
    path.write_bytes(b"data")
    with pytest.raises(OSError) as error, open(path, "rb") as file:
        Mount(errno.ESTALE, failures=1)(file)
    says("U55", f"OSError: {error.value}")


def test_what_no_waiting_cures_and_what_lasts_is_raised(tmp_path):
    path = tmp_path / "shard.bin"
    path.write_bytes(b"data")
    for code, calls in ((errno.ENOSPC, 1), (errno.EIO, 5)):
        mount = Mount(code, failures=99)
        with pytest.raises(OSError):
            again(mount, path)
        assert len(mount.handles) == calls


def test_the_check_goes_up_to_the_mount_where_a_dead_one_answers_for_nothing_below(tmp_path):
    mount = tmp_path / "mnt"
    box = Box(tmp_path)
    box.program(
        "findmnt", f'for last; do :; done; [ "$last" = {mount} ] && echo "fuse.s3fs s3fs rw"'
    )
    for name in ("ls", "sudo"):
        box.program(name, "exit 2")
    for path, printed in (
        (mount / "data/x.tar", "fuse.s3fs s3fs rw"),
        ("/elsewhere/x", ""),
        ("x", ""),
    ):
        assert box.said(span("U55", "findmnt").replace("PATH", str(path))) == printed


def test_texts_of_mounts_are_found(says):
    for code in (errno.ESTALE, errno.EIO, errno.ENOTCONN, errno.EREMOTEIO, errno.ECONNABORTED):
        says("U55", f"OSError: {OSError(code, os.strerror(code), '/mnt/data/train/000123.tar')}")


@pytest.mark.parametrize("text", [
    "OSError: [Errno 5] Input/output error",
    "OSError: [Errno 107] Transport endpoint is not connected",
    "OSError: [Errno 121] Remote I/O error",
    "OSError: [Errno 121] Remote I/O error: '/dev/i2c-1'",
    "OSError: [Errno 107] Transport endpoint is not connected: '/content/drive/MyDrive/a.pt'",
    "OSError: [Errno 5] Input/output error: '/content/gdrive/MyDrive/a.pt'",
    "OSError: [Errno 116] Stale file handle: '/home/me/.triton/cache/a.json'",
    "DataLoader worker (pid 3) is killed by signal: Bus error.",
])  # fmt: skip
def test_texts_of_others_are_left_to_them(text):
    assert not any(Pattern(s).matches(text) for s in bundle.load().get("U55").signatures)


def test_a_print_to_a_terminal_that_is_gone_has_the_same_number_and_no_path():
    ours, theirs = pty.openpty()
    os.close(ours)
    with pytest.raises(OSError) as error:
        os.write(theirs, b"step 1\n")
    os.close(theirs)
    assert str(error.value) == "[Errno 5] Input/output error"

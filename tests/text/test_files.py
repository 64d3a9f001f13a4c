"""A file is written whole, with its permissions, or not at all."""

import hashlib
import os

import pytest
from remote_gpu_trainer.text import sha256_of, write_whole


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755])
def test_a_file_is_written_whole_on_the_disk_where_a_link_leads(tmp_path, monkeypatch, mode):
    synced = []
    monkeypatch.setattr(os, "fsync", synced.append)
    (tmp_path / "link").symlink_to(tmp_path / "new/file")
    write_whole(tmp_path / "link", b"one", 0o600)
    write_whole(tmp_path / "link", b"two" * 10**6, mode)
    file = tmp_path / "new/file"
    assert (tmp_path / "link").is_symlink() and file.read_bytes() == b"two" * 10**6
    assert file.stat().st_mode & 0o777 == mode and len(synced) == 2
    assert sha256_of(file) == hashlib.sha256(b"two" * 10**6).hexdigest()
    assert [path.name for path in file.parent.iterdir()] == ["file"]


def test_what_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"old")

    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space left"):
        write_whole(tmp_path / "file", b"new", 0o644)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("file", b"old")]

"""C4: which folder outlives a container. The real findmnt reads a table of mounts as a rented box shows it."""

import os
import shutil

import pytest
from check_code import in_shell, span

pytestmark = pytest.mark.skipif(not shutil.which("findmnt"), reason="needs findmnt")
DIES = {"overlay", "fuse-overlayfs", "tmpfs"}
# A pod with a disk of its own, a volume of the provider, a bucket and a plain second disk.
MOUNTS = """overlay / overlay rw,lowerdir=/l,upperdir=/u,workdir=/w 0 0
tmpfs {0}/scratch tmpfs rw,size=1g 0 0
10.0.0.5:/volumes/a {0}/workspace nfs4 rw,vers=4.2 0 0
bucket {0}/gcs fuse.gcsfuse rw,nosuid 0 0
/dev/vdb1 {0}/disk ext4 rw,relatime 0 0
"""


@pytest.fixture
def at(tmp_path, monkeypatch):
    """at("workspace/ckpt"): what the check prints for this folder, line by line."""
    table, tools = tmp_path / "mounts", tmp_path / "bin"
    table.write_text(MOUNTS.format(tmp_path))
    tools.mkdir()
    (tools / "findmnt").write_text(
        f'#!/bin/sh\nexec {shutil.which("findmnt")} --tab-file "{table}" "$@"\n'
    )
    (tools / "findmnt").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")

    def told(folder: str, made: bool = True) -> list[str]:
        if made:
            (tmp_path / folder).mkdir(parents=True)
        monkeypatch.setenv("CKPT_DIR", str(tmp_path / folder))
        return in_shell(span("C4", "findmnt"), tmp_path).splitlines()

    return told


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("root/out", "overlay"),
        ("scratch/out", "tmpfs"),
        ("workspace/out", "nfs4"),
        ("gcs/out", "fuse.gcsfuse"),
        ("disk/out", "ext4"),
    ],
)
def test_the_check_names_the_kind_of_storage_below_the_folder(at, folder, kind):
    head, row = at(folder)
    assert head.split() == ["TARGET", "SOURCE", "FSTYPE"]
    assert row.split()[2] == kind
    assert (row.split()[2] in DIES) == folder.startswith(("root", "scratch"))


def test_a_folder_that_is_not_there_yet_gives_no_answer(at):
    assert at("workspace/out", made=False) == []

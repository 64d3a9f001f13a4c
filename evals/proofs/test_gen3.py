"""GEN3: rsync's comparison names a truncated copy, also one of the right size and date, and nothing once it's mended."""

import os
import shutil

import pytest
from remote_gpu_trainer.catalogue import bundle


@pytest.fixture
def here(provider):
    """here(line): the line with both sides on this machine."""
    if not shutil.which("rsync"):
        pytest.skip("apt-get install rsync")
    side, copy = provider.place / "gpu/run/ckpt", provider.place / "ckpt"
    side.mkdir(parents=True)
    for name in ("model.pt", "optimizer.pt"):
        (side / name).write_bytes(name.encode() * 10_000)
    copy.mkdir()
    return lambda line: provider.run(line.replace("-e ssh ", "").replace("gpu:", "gpu/"))


def named(said):
    return [line for line in said.splitlines() if line.endswith(".pt")]


def test_the_check_names_each_file_that_is_cut_damaged_or_missing(provider, here, shell_of):
    check = shell_of("GEN3", "rsync -avnc")
    source, copy = provider.place / "gpu/run/ckpt", provider.place / "ckpt"
    assert named(here(check)) == ["model.pt", "optimizer.pt"]
    (copy / "model.pt").write_bytes(b"model.pt" * 3)
    damaged = bytearray((source / "optimizer.pt").read_bytes())
    damaged[5] ^= 1
    (copy / "optimizer.pt").write_bytes(damaged)
    times = os.stat(source / "optimizer.pt")
    os.utime(copy / "optimizer.pt", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert named(here(check)) == ["model.pt", "optimizer.pt"]


def test_the_fix_mends_what_scp_left_and_the_check_is_silent_then(provider, here, shell_of):
    (provider.place / "ckpt/model.pt").write_bytes(b"model.pt" * 3)
    fix = next(c for c in bundle.load().get("GEN3").fix.split("`") if c.startswith("rsync -a "))
    here(" ".join(fix.split()))
    assert named(here(shell_of("GEN3", "rsync -avnc"))) == []

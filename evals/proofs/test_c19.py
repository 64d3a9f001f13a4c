"""C19: what lies in the folder while torch.distributed.checkpoint saves in the background. The CPU is enough."""

import re
import threading
import time
import warnings

import pytest
import torch
import torch.distributed.checkpoint as dcp
from check_code import in_shell, span
from launch import run_ranks
from remote_gpu_trainer.catalogue import bundle


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class Gated(dcp.FileSystemWriter):
    """A slow disk: .metadata isn't written before the gate opens."""

    def __init__(self, folder, gate: threading.Event):
        super().__init__(folder)
        self.gate = gate

    def finish(self, *arguments, **named):
        self.gate.wait(20)
        return super().finish(*arguments, **named)


def newest(root):
    done = [p for p in root.glob("step-*") if (p / ".metadata").exists()]
    return max(done, key=lambda p: int(p.name.split("-")[1]), default=None)


def told(root):
    """What the loop of the check says of each folder."""
    return in_shell(span("C19", "for d in").replace("ckpt/", ""), root).splitlines()


def until(happened) -> None:
    for _ in range(200):
        if happened():
            return
        time.sleep(0.05)
    pytest.fail("waited 10 s in vain")


def test_the_call_returns_before_the_checkpoint_can_be_loaded(tmp_path, says, caplog):
    folder, gate = tmp_path / "step-1", threading.Event()
    pending = dcp.async_save({"w": torch.ones(4)}, storage_writer=Gated(folder, gate))
    until(lambda: list(folder.glob("*.distcp")))
    assert not pending.done() and not (folder / ".metadata").exists()
    with pytest.raises(BaseException) as error:
        dcp.load({"w": torch.zeros(4)}, checkpoint_id=str(folder))
    says("C19", str(error.value))
    says("C19", caplog.text)
    gate.set()
    pending.result()
    state = {"w": torch.zeros(4)}
    dcp.load(state, checkpoint_id=str(folder))
    assert torch.equal(state["w"], torch.ones(4))


KILLED = """
import os, sys, threading, time, torch, torch.distributed.checkpoint as dcp
class Slow(dcp.FileSystemWriter):
    def finish(self, *arguments, **named):
        time.sleep(1.5)
        return super().finish(*arguments, **named)
for step in 900, 1000:
    pending = dcp.async_save({"w": torch.full((2,), float(step))}, storage_writer=Slow(f"step-{step}"))
    open("latest", "w").write(f"step-{step}")       # too early
    if step == 900:
        pending.result()
while not os.path.exists("step-1000/__0_0.distcp"):
    time.sleep(0.05)
if "kill" in sys.argv:
    os._exit(9)
"""


def test_after_a_kill_latest_names_half_a_checkpoint_and_the_search_finds_the_whole_one(
    run_apart, tmp_path
):
    assert run_apart(KILLED, "kill").returncode == 9
    assert (tmp_path / "latest").read_text() == "step-1000" and not (
        tmp_path / "step-1000" / ".metadata"
    ).exists()
    assert newest(tmp_path).name == "step-900"
    assert told(tmp_path) == ["step-1000 unfinished", "step-900 whole"]
    state = {"w": torch.zeros(2)}
    dcp.load(state, checkpoint_id=str(newest(tmp_path)))
    assert state["w"][0] == 900


def test_a_normal_end_waits_for_the_thread(run_apart, tmp_path):
    done = run_apart(KILLED)
    assert done.returncode == 0, done.stderr
    assert newest(tmp_path).name == "step-1000"
    assert told(tmp_path) == ["step-1000 whole", "step-900 whole"]


def test_an_error_in_the_background_is_silent_until_result(tmp_path):
    class Full(dcp.FileSystemWriter):
        def write_data(self, *arguments, **named):
            raise OSError(28, "No space left on device")

    pending = dcp.async_save({"w": torch.ones(4)}, storage_writer=Full(tmp_path / "step-1"))
    until(pending.done)
    assert newest(tmp_path) is None
    with pytest.raises(BaseException, match="No space left on device"):
        pending.result()


def test_what_changes_after_the_call_is_not_in_the_checkpoint(tmp_path):
    gate = threading.Event()

    class Late(dcp.FileSystemWriter):
        def write_data(self, *arguments, **named):
            gate.wait(20)
            return super().write_data(*arguments, **named)

    weight = torch.ones(4)
    pending = dcp.async_save({"w": weight}, storage_writer=Late(tmp_path / "step-1"))
    weight.fill_(7)
    gate.set()
    pending.result()
    state = {"w": torch.zeros(4)}
    dcp.load(state, checkpoint_id=str(tmp_path / "step-1"))
    assert torch.equal(state["w"], torch.ones(4))


def test_the_lines_of_the_fix_name_a_checkpoint_only_when_it_is_whole(run_apart, tmp_path):
    [code] = re.findall(r"```python\n(.*?)```", bundle.load().get("C19").fix, re.S)
    [save] = [line for line in code.splitlines() if line.startswith("finish(); pending")]
    head = """
import os, torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
from pathlib import Path
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
"""
    loop = f"""
for step in (900, 1000):
    state, folder = {{"w": torch.full((2,), float(step))}}, f"step-{{step}}"
    {save}
    named = Path("latest").read_text() if Path("latest").exists() else None
    print(named, named is None or (Path(named) / ".metadata").exists())
finish()
print(Path("latest").read_text(), *sorted(p.parent.name for p in Path(".").glob("step-*/.metadata")))
dist.destroy_process_group()
"""
    done = run_apart(head + code.replace(save, "") + loop)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "None True",
        "step-900 True",
        "step-1000 step-1000 step-900",
    ]


RANK_LOCAL = """
import torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
dcp.save({"w": torch.ones(2)}, checkpoint_id="step-1", use_collectives=False)
state = {"w": torch.zeros(2)}
dcp.load(state, checkpoint_id="step-1")
assert state["w"][0] == 1
dist.destroy_process_group()
"""


def test_a_checkpoint_with_metadata_of_each_rank_loads_and_is_not_taken_for_an_unfinished_one(
    run_apart, tmp_path, says
):
    done = run_apart(RANK_LOCAL)
    assert done.returncode == 0, done.stderr
    assert told(tmp_path) == ["step-1 whole"]
    assert (tmp_path / "step-1" / "__0.metadata").exists() and not (
        tmp_path / "step-1" / ".metadata"
    ).exists()
    assert (
        "Global metadata is not found. Falling back to rank local metadata." in done.stderr
        and "No such file or directory" in done.stderr
    )
    with pytest.raises(AssertionError, match="none of the signatures"):
        says("C19", done.stderr)


OWN_DISKS = """
    import shutil, warnings
    from pathlib import Path
    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp

    warnings.simplefilter("ignore")
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    mine = Path("FOLDER", f"machine{rank}")
    dcp.save({f"w{rank}": torch.full((2,), 1.0 + rank)}, checkpoint_id=str(mine))
    print("has", rank, (mine / ".metadata").exists())
    dist.barrier()
    state = {"w0": torch.zeros(2), "w1": torch.zeros(2)}
    try:
        dcp.load(state, checkpoint_id=str(mine))
    except BaseException as error:
        print("failed", rank, str(error).replace(chr(10), " "))
    dist.barrier()
    if rank == 0:
        for part in ("machine0", "machine1"):
            shutil.copytree(Path("FOLDER", part), Path("FOLDER", "together"), dirs_exist_ok=True)
    dist.barrier()
    dcp.load(state, checkpoint_id=str(Path("FOLDER", "together")))
    print("loaded", rank, state["w0"][0].item(), state["w1"][0].item())
    dist.barrier()
    dist.destroy_process_group()
"""


def test_two_machines_with_disks_of_their_own_hold_half_a_checkpoint_each(tmp_path, says):
    done = run_ranks(OWN_DISKS.replace("FOLDER", str(tmp_path)), timeout=60)
    assert done.lines("has") == ["has 0 True", "has 1 False"], done.output
    assert len(done.lines("failed")) == 2, done.output
    says("C19", done.lines("failed")[1])
    assert done.lines("loaded") == ["loaded 0 1.0 2.0", "loaded 1 1.0 2.0"], done.output

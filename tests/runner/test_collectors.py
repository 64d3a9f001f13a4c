"""Tools that may hang: what they say, and that nobody waits for them."""

import os
import time

import pytest
from remote_gpu_trainer.runner import child, collectors
from remote_gpu_trainer.runner.context import Run

from tests.runner.clocks import Clock
from tests.runner.jobs import job_of


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """Put a tool in front of the others: tool('df', 'echo 1')."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def put(name: str, text: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\necho run >>{tmp_path}/{name}.runs\n{text}\n")
        (folder / name).chmod(0o755)

    return put


@pytest.fixture
def made(tmp_path) -> collectors.Collectors:
    fields = {"rendered": {"run_dir": str(tmp_path / "run")}, "gpus": 1}
    run = Run(job_of(fields), clock=Clock())
    run.folder.make()
    return collectors.Collectors(run)


def runs(tmp_path, name: str) -> int:
    path = tmp_path / f"{name}.runs"
    return len(path.read_text().splitlines()) if path.exists() else 0


def polled(made: collectors.Collectors) -> None:
    """Ask, and take the answers in."""
    made.poll()
    until = time.monotonic() + 10
    while any(tool.is_open for tool in made._tools.values()):
        assert time.monotonic() < until
        time.sleep(0.005)
    made.poll()


DF = """
echo 'Filesystem 1024-blocks Used Available Capacity Mounted on'
echo '/dev/a b 1000000 1 409600 1% /here'
echo 'host:/x 1000000 1 204800 - /with a space'
"""
SMI = "echo '100, 75.10, 700.00, 20000, NVIDIA H100, 80 GB'"


def test_room_and_cards_are_told(tool, made):
    tool("df", DF)
    tool("nvidia-smi", SMI)
    polled(made)
    assert made.free_mb == 200
    assert made.gpu == "NVIDIA H100, 80 GB 100% 75/700W 20000MB" and made.hot


def test_the_real_df_is_understood(tool, made, tmp_path):
    tool("nvidia-smi", "exit 1")
    polled(made)
    room = os.statvfs(tmp_path)
    assert made.free_mb == pytest.approx(room.f_bavail * room.f_frsize / 2**20, abs=500)
    assert made.gpu is None and not made.hot


@pytest.mark.parametrize(
    ("cards", "hot"),
    [
        (["100, 75, 700, 1, A", "100, 80, 700, 1, A"], True),
        (["100, 75, 700, 1, A", "100, 400, 700, 1, A"], False),
        (["98, 75, 700, 1, A"] * 2, False),
        (["100, [N/A], [N/A], 1, A"] * 2, False),
    ],
)
def test_hot_needs_as_many_cards_as_the_job_has(tool, made, cards, hot):
    made.run.spec.gpus = 2
    tool("nvidia-smi", "\n".join(f"echo '{card}'" for card in cards))
    polled(made)
    assert made.hot is hot


def test_it_asks_every_six_heartbeats_and_no_cards_of_a_job_without(tool, made, tmp_path):
    made.run.spec.gpus = 0
    tool("df", DF)
    tool("nvidia-smi", SMI)
    polled(made)
    made.run.clock.nap(59)
    polled(made)
    assert (runs(tmp_path, "df"), runs(tmp_path, "nvidia-smi")) == (1, 0)
    made.run.clock.nap(1)
    polled(made)
    assert runs(tmp_path, "df") == 2


def test_a_tool_that_hangs_keeps_nobody_and_leaves_nothing_known(tool, made, tmp_path):
    tool("nvidia-smi", SMI)
    tool("df", DF)
    polled(made)
    tool("nvidia-smi", "exec sleep 100")
    made.run.clock.nap(60)
    made.poll()
    until = time.monotonic() + 5
    while made._tools["df"].is_open and time.monotonic() < until:
        time.sleep(0.005)
    began = time.monotonic()
    made.poll()
    assert made.hot, "what was known stays for a while"
    made.run.clock.nap(collectors.LIMIT)
    made.poll()
    assert time.monotonic() - began < 2
    assert made.gpu is None and not made.hot and made.free_mb == 200


def test_one_that_cannot_be_killed_gets_no_second_beside_it(tool, made, tmp_path, monkeypatch):
    monkeypatch.setattr(child.Command, "kill", lambda self: None)
    tool("nvidia-smi", "exec sleep 1")
    for _ in range(10):
        made.poll()
        made.run.clock.nap(60)
    until = time.monotonic() + 5
    while not runs(tmp_path, "nvidia-smi") and time.monotonic() < until:
        time.sleep(0.01)
    assert runs(tmp_path, "nvidia-smi") == 1


def test_missing_tools_are_no_error(made, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    made.poll()
    assert (made.free_mb, made.gpu, made.hot) == (None, None, False)
    assert collectors.kernel_log() == "" and collectors.xids() == []


def test_xids_are_counted_in_the_kernels_log(tool):
    tool("dmesg", "seq 100000; echo '[1] NVRM: Xid (PCI:0000:3b:00): 79, fallen off the bus'")
    assert collectors.xids() == [79]


def test_memory_and_heat_of_each_card_are_told_and_what_one_lacks_is_left_out(tool, made):
    tool("df", DF)
    cards = [
        "97, 612.10, 700.00, 61440, NVIDIA H100, 80 GB, 81559, 64",
        "0, [N/A], [N/A], 0, NVIDIA GB10, [N/A], 41",
    ]
    tool("nvidia-smi", "\n".join(f"echo '{card}'" for card in cards))
    polled(made)
    assert made.gpus == [
        {"use": 97, "memory_mb": 61440, "total_mb": 81559, "temperature_c": 64},
        {"use": 0, "memory_mb": 0, "temperature_c": 41},
    ]
    assert made.gpu.startswith("NVIDIA H100, 80 GB 97% 612/700W 61440MB; NVIDIA GB10 0%")
    assert made.disk == (204800 * 1024, 1000000 * 1024)

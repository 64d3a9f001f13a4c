"""U11: the launcher is killed, its rank stays and keeps the card open; the Check finds it. A file named as a card's stands for it."""

import os
import subprocess
import sys
import time

import pytest
from check_code import span
from remote_gpu_trainer.runner import preflight

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

LAUNCHER = """
import subprocess, sys, time
rank = subprocess.Popen([sys.executable, "-c", "import sys, time; f = open(sys.argv[1]); print('open', flush=True); time.sleep(60)", sys.argv[1]])
print(rank.pid, flush=True)
time.sleep(60)
"""


@pytest.fixture
def holders(tmp_path):
    """holders(): the numbers that the Check prints, of those that hold our card."""

    def run() -> list[int]:
        code = span("U11", "/proc/[0-9]").replace("/dev/nvidia", f"{tmp_path}/dev/nvidia")
        said = subprocess.run(["bash", "-c", code], capture_output=True, text=True).stdout
        return [int(line.split()[0]) for line in said.splitlines()]

    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia0").touch()
    (tmp_path / "dev/nvidiactl").touch()
    return run


def test_a_rank_outlives_its_killed_launcher_and_the_check_finds_it_until_it_ends(
    tmp_path, holders
):
    asks = open(tmp_path / "dev/nvidiactl")  # this process asks the driver and holds no card
    launcher = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER, str(tmp_path / "dev/nvidia0")],
        stdout=subprocess.PIPE,
        text=True,
    )
    rank = int(next(line for line in launcher.stdout if line.strip().isdigit()))
    until = time.monotonic() + 20
    while not any("nvidia0" in os.readlink(f"/proc/{rank}/fd/{n}") for n in range(3, 6)
                  if os.path.islink(f"/proc/{rank}/fd/{n}")):  # fmt: skip
        assert time.monotonic() < until
        time.sleep(0.02)
    launcher.kill()
    launcher.wait()
    try:
        assert holders() == [rank]
    finally:
        os.kill(rank, 9)
    while os.path.exists(f"/proc/{rank}/fd/3"):
        time.sleep(0.02)
    assert holders() == []
    asks.close()


def test_the_line_before_a_run_is_recognised(says):
    """Memory is taken, and nvidia-smi lists no process, as in a container."""
    [(_, reason)] = preflight._busy(preflight.Card("0", "GPU-1", 42420, 81559), [])
    says("U11", reason)

"""RP1: a Pod that came back without its GPU lists no card and counts 0; its neighbour with an old driver lists one."""

import os
import subprocess

import pytest

CARD = "GPU 0: NVIDIA GeForce RTX 4090 (UUID: GPU-5a0c6f3e-2f4b-9a55-7f16-0d2b5f4a3c11)\n"


@pytest.mark.parametrize(("cards", "count"), [("No devices were found\n", "0"), (CARD, "1")])
def test_the_cards_and_the_count_tell_a_pod_without_gpu_from_one_with(
    provider, shell_of, cards, count
):
    provider.printing("nvidia-smi", {"-L": cards})
    first = subprocess.Popen(
        ["sleep", "60"], env={"PATH": os.environ["PATH"], "RUNPOD_GPU_COUNT": count}
    )
    try:
        line = shell_of("RP1", "RUNPOD_GPU_COUNT").replace("/proc/1/", f"/proc/{first.pid}/")
        shown = provider.run(line).splitlines()
    finally:
        first.kill()
        first.wait()
    assert shown == [cards.strip(), f"RUNPOD_GPU_COUNT={count}"]
    assert shown[0].startswith("GPU ") == (count != "0")

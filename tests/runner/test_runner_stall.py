"""A run that stands still: noticed three ways, its stacks taken first, then started again."""

import sys

from tests.runner.box import Box, assert_nothing_repeated, undisturbed

pytest_plugins = ["tests.runner.box"]


def test_a_silent_log_is_a_stall_whose_stacks_are_kept(box: Box):
    box.make("--hang-at", 12, "--fail-times", 1, spec={"stall": {"log_minutes": 3 / 60}})
    box.start()
    assert box.wait(timeout=60)["phase"] == "done"
    first = box.events("ended")[0]
    assert (first["class"], first["entry"]) == (
        "stall",
        "D19",
    ) and "no line, step, checkpoint or other output" in first["reason"]
    taken = box.run_dir / box.events("snapshot")[0]["folder"]
    assert (
        "knobs (" in (taken / "stacks.log").read_text()
        and "runner_program.py" in taken.joinpath("page.md").read_text()
    )
    assert (box.run_dir / "final.bin").read_bytes() == undisturbed()
    assert_nothing_repeated(box)


def test_full_utilisation_at_idle_power_is_a_stall(box: Box):
    tools = box.folder / "bin"
    tools.mkdir()
    (tools / "nvidia-smi").write_text("""#!/bin/bash
case "$*" in
  *query-compute-apps*) exit 0 ;;
  *query-gpu=index*) echo "0, GPU-aa, 10, 80000" ;;
  *query-gpu=utilization*) echo "100, 75.10, 700.00, 20000, NVIDIA H100" ;;
esac
""")
    (tools / "nvidia-smi").chmod(0o755)
    box.env["PATH"] = f"{tools}:{box.env['PATH']}"
    talk = "import time\nwhile True: print('waiting', flush=True); time.sleep(0.2)"
    box.make(
        command=[sys.executable, "-c", talk],
        results=[],
        gpus=1,
        python="/usr/bin/python3",
        retries={"stall": 0},
        spec={"stall": {"idle_power_minutes": 3 / 60}},
    )
    assert box.verb("run").returncode != 0
    assert "idle power" in box.marker("failed")["reason"]
    assert box.status()["gpu"].startswith("NVIDIA H100 100% 75/700W")


def test_a_program_that_goes_on_is_no_stall(box: Box):
    box.make("--sleep", 0.1, spec={"stall": {"log_minutes": 3 / 60, "step_minutes": 3 / 60}})
    box.start()
    assert box.wait()["phase"] == "done" and not box.events("stall")

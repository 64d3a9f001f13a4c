"""The save signal reaches the program itself, whatever stands around it, and nothing that it needs to end well."""

import sys

import pytest

from tests.runner.box import Box

pytest_plugins = ["tests.runner.box"]

SAVES = """
import os, signal, sys, time
def save(*_):
    print('saving', flush=True)
    time.sleep(1)
    open(os.environ['RGT_RUN_DIR'] + '/saved', 'w').write('x')
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print('ready', flush=True)
while True:
    time.sleep(0.1)
    print('tick', flush=True)
"""


def stopped(box: Box, **values) -> bool:
    """Did the program save when the run was stopped?"""
    box.make(results=[], **values)
    box.start()
    box.until(lambda: b"ready" in box.output())
    box.verb("stop")
    return (box.run_dir / "saved").exists()


@pytest.fixture
def program(box: Box) -> str:
    path = box.folder / "program.py"
    path.write_text(SAVES)
    return f"{sys.executable} {path}"


def test_a_script_with_a_first_line_of_its_own_hands_the_signal_to_its_program(box: Box, program):
    script = box.folder / "train.sh"
    script.write_text(f"#!/bin/bash\n{program}\n")
    script.chmod(0o755)
    assert stopped(box, command=[str(script)])


def test_what_reads_the_output_outlives_the_save(box: Box, program):
    assert stopped(box, command=["bash", "-c", f"{program} 2>&1 | tee {box.folder}/log.txt"])
    assert b"saving" in (box.folder / "log.txt").read_bytes()


def test_a_detached_run_does_not_take_the_interrupt_from_the_program(box: Box):
    waits = "import os, time\nprint('ready', flush=True)\ntry: time.sleep(60)\nexcept KeyboardInterrupt: open(os.environ['RGT_RUN_DIR'] + '/saved', 'w').write('x')"
    assert stopped(
        box,
        command=[sys.executable, "-c", waits],
        save_signal="INT",
        checkpoint={"save_seconds": 4},
    )


def test_a_copy_of_the_log_hides_neither_the_exit_status_nor_the_arguments(box: Box):
    shows = "import sys; print(sys.argv[1:]); sys.exit(7)"
    box.checkpoints.mkdir()
    (box.checkpoints / "step-1.pt").write_bytes(b"old")
    line = f"echo first && {sys.executable} -c '{shows}' 2>&1 | tee -a {box.folder}/log.txt"
    box.make(
        command=["bash", "-c", line],
        results=[],
        retries={"unknown": 0},
        resume={"flag": "--from"},
    )
    assert box.verb("run").returncode == 7
    assert (box.folder / "log.txt").read_text() == f"['--from', '{box.checkpoints}/step-1.pt']\n"


def test_the_user_s_own_path_changes_nothing_for_the_runner(box: Box):
    box.make(
        command=[sys.executable, "-c", "import os; print(os.environ['PATH'])"],
        results=[],
        variables={"PATH": "/opt/none"},
    )
    assert box.verb("run").returncode == 0
    assert box.output() == b"/opt/none\n"

"""The probe beside a run's first attempt: its verdict reaches whoever asks, and nothing waits for it."""

import json
import os
import shutil
import signal
import sys

import pytest
from remote_gpu_trainer.runner.context import Run
from remote_gpu_trainer.runner.probing import LOOKING, MOST, FirstSteps, in_a_line
from remote_gpu_trainer.runner.state import StateFile

from tests.conftest import module
from tests.runner.box import Box
from tests.runner.jobs import job_of
from tests.runner.test_rehearsal import SILENT

pytest_plugins = ["tests.runner.box"]

SOUND = SILENT.replace("nn.Sequential(nn.Linear(4, 3), nn.Softmax(dim=1))", "nn.Linear(4, 3)")
DIES_ONCE = (
    SOUND
    + """
    if step == 36 and os.environ["RGT_ATTEMPT"] == "1":
        os.kill(os.getpid(), 9)
"""
)


def prepared(box: Box, program: str, **fields) -> Box:
    """A job of a small torch program, with the probe."""
    module("torch", "pip install -e '.[proofs]'")
    (box.folder / "train.py").write_text(program)
    told = box.folder / "told.txt"
    usual = {
        "command": [sys.executable, str(box.folder / "train.py")],
        "results": [],
        "probe": True,
        "notify": ["sh", "-c", f'echo "$RGT_MESSAGE" >>{told}'],
    }
    box.make(**{**usual, **fields})
    return box


def said_of(box: Box) -> list[str]:
    return [event["said"] for event in box.events() if event["event"] == "probe"]


def told_by_notify(box: Box) -> str:
    place = box.folder / "told.txt"
    return place.read_text() if place.exists() else ""


def test_a_silent_failure_is_in_the_state_in_the_page_and_told(box: Box):
    prepared(box, SILENT).start()
    now = box.wait()
    assert now["phase"] == "done" and now["probe"].startswith("wrong: step ")
    assert now["probe"].endswith("the loss gets probabilities where it wants raw scores [O12]")
    assert said_of(box) == [now["probe"]]
    log = box.run_dir / "log"
    assert [one["id"] for one in json.loads((log / "probe.json").read_text())["findings"]] == [
        "O12"
    ]
    assert '<span class="bad">wrong</span>' in (log / "probe.html").read_text()
    page = (box.run_dir / "log/probe.txt").read_text()
    assert page.startswith("probe: wrong (30 steps of 1 process looked at)\nwrong step ")
    assert "raw scores [O12]" in box.until(lambda: told_by_notify(box), what="notify")
    assert not (box.run_dir / "probe").exists()


def test_a_sound_program_comes_to_the_same_end_with_the_probe_and_without(box: Box):
    prepared(box, SOUND).start()
    now = box.wait()
    assert now["phase"] == "done" and now["probe"] == "sound"
    weights = (box.checkpoints / "step-44.pt").read_bytes()
    assert "probe" not in told_by_notify(box)
    shutil.rmtree(box.run_dir)
    shutil.rmtree(box.checkpoints)
    prepared(box, SOUND, probe=False).start()
    now = box.wait()
    assert now["phase"] == "done" and now["probe"] == "" and not said_of(box)
    assert (box.checkpoints / "step-44.pt").read_bytes() == weights


def test_the_second_attempt_is_without_the_probe(box: Box):
    paths = 'import sys\nprint("ATTEMPT", os.environ["RGT_ATTEMPT"], "PROBED", "_rgt_probe" in sys.modules)\n'
    program = DIES_ONCE.replace(
        "import os, pathlib, torch\n", f"import os, pathlib, torch\n{paths}"
    )
    prepared(box, program, retries={"killed": 1}).start()
    now = box.wait()
    assert (now["phase"], now["attempt"]) == ("done", 2), box.log()
    log = b"".join(p.read_bytes() for p in sorted(box.run_dir.glob("log/train.log.*"))).decode()
    assert "ATTEMPT 1 PROBED True" in log and "ATTEMPT 2 PROBED False" in log
    assert now["probe"] == "sound"


def test_a_runner_that_was_killed_still_tells_what_the_probe_saw(box: Box):
    slow = SILENT.replace("time.sleep(0.02)", "time.sleep(0.2)")
    prepared(box, slow).start()
    box.until(lambda: (box.status()["step"] or 0) >= 3, what="step 3")
    os.kill(box.pid("runner"), signal.SIGKILL)
    now = box.wait()
    assert now["phase"] == "done" and now["probe"].startswith("wrong: "), box.log()


def test_a_look_that_no_runner_will_end_is_not_told_for_ever(tmp_path):
    run = Run(job_of({"rendered": {"run_dir": str(tmp_path)}}))
    run.folder.make()
    state = StateFile(run)
    state.probe = LOOKING
    FirstSteps(run, state).look()
    assert state.probe == "not looked at: the runner that looked was gone"


def test_a_probe_that_breaks_costs_the_run_nothing(box: Box):
    prepared(box, SOUND)
    box.change("probe.py", "raise SystemExit(3)")
    box.start()
    now = box.wait()
    assert now["phase"] == "done" and now["probe"].startswith("not looked at: ")
    assert "ended with 3" in now["probe"]


def test_a_program_without_torch_runs_on_and_that_is_said(box: Box):
    box.make(probe=True)
    box.start()
    now = box.wait()
    assert now["phase"] == "done"
    assert now["probe"] == "not looked at: no step of a torch optimizer was seen"


@pytest.mark.parametrize(
    ("report", "line"),
    [
        ({"verdict": "sound", "findings": []}, "sound"),
        (
            {
                "verdict": "wrong",
                "findings": [
                    {"level": "wrong", "step": 3, "what": "a\x1b[31m b", "id": "O12"},
                    {"level": "suspicious", "step": 4, "what": "left out", "id": "P1"},
                    {"level": "wrong", "step": 5, "what": "c", "id": ""},
                ],
            },
            "wrong: step 3: a b [O12]; step 5: c []",
        ),
        ({"verdict": None, "findings": "no list"}, ""),
    ],
)
def test_a_verdict_is_told_in_a_line_without_what_steers_a_terminal(report, line):
    assert in_a_line(report) == line


def test_a_long_line_is_cut():
    long = {"level": "wrong", "step": 1, "what": "x" * 1000, "id": "O1"}
    assert len(in_a_line({"verdict": "wrong", "findings": [long]})) == MOST

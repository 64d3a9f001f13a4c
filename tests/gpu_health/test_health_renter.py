"""What somebody who rents the box does with it, and how a terminal shows a card."""

import json
import os
import pty
import re
import subprocess
import sys

import pytest
from remote_gpu_trainer.gpu_health import reading

from tests.gpu_health.gpu_faults import CAPTURES, Text
from tests.gpu_health.script import SCRIPT, gpu_health


def step(box):
    record = {"files": box.files, "exit": {}, "proc": json.loads(box.files["proc.json"])}
    answer = gpu_health.report(record)
    lines = gpu_health.as_text(answer).splitlines()
    told = [line for line in lines if line.startswith(("keep it", "watch it", "hand it back"))]
    assert len(told) == (answer["verdict"] == "care")
    return " ".join(told).split(":")[0]


@pytest.mark.parametrize(
    ("field", "value", "what"),
    [
        ("remapped_rows.pending", "Yes", "watch it"),
        ("remapped_rows.uncorrectable", "512", "hand it back"),
        ("remapped_rows.histogram.none", "2", "hand it back"),
        ("clocks_event_reasons.hw_thermal_slowdown", "Active", "hand it back"),
        ("name", "NVIDIA H100 PCIe", "hand it back"),
        ("pcie.link.width.current", "8", "watch it"),
        ("gpu_recovery_action", "Drain and Reset", "watch it"),
        ("remapped_rows.failure", "Yes", ""),  # unfit
        ("remapped_rows.uncorrectable", "1", ""),  # fit
    ],
)
def test_a_box_that_needs_care_is_kept_watched_or_handed_back_in_one_line(field, value, what):
    box = Text("h100x8")
    box.cell(3, field, value)
    assert step(box) == what


def test_the_worst_of_several_findings_decides_and_what_one_mends_oneself_is_kept():
    box = Text("h100x8")
    box.proc(lambda proc: proc["disks"].update({"/": dict(proc["disks"]["/"], free_mib=4000)}))
    assert step(box) == "keep it"
    box.cell(1, "pcie.link.width.current", "8")
    assert step(box) == "watch it"
    box.cell(2, "remapped_rows.uncorrectable", "512")
    assert step(box) == "hand it back"


def test_the_answer_of_rgt_health_says_the_same():
    health = reading.Health(
        "care",
        "box",
        [
            dict(
                gpu=0,
                level="degraded",
                evidence="x",
                threshold="y",
                action="reboot the box",
                entry="",
            )
        ],
    )
    assert health.as_dict()["about"][0].startswith("watch it") and health.renter in reading.as_text(
        health
    )
    assert "about" not in reading.Health("fit", "box").as_dict()


def at_terminal(*command, **variables):
    """What a command prints on a terminal."""
    pid, handle = pty.fork()
    if pid == 0:
        os.environ.pop("NO_COLOR", None)
        os.environ.update({"TERM": "xterm", "COLUMNS": "200", **variables})
        os.execv(command[0], command)
    text = b""
    while True:
        try:
            block = os.read(handle, 65536)
        except OSError:
            break
        if not block:
            break
        text += block
    os.waitpid(pid, 0)
    os.close(handle)
    return text.decode().replace("\r\n", "\n")


HERE = (sys.executable, str(SCRIPT), "--replay", str(CAPTURES / "h100x8-load"))
RGT = (sys.executable, "-m", "remote_gpu_trainer", "health", str(CAPTURES / "h100x8-load"))


@pytest.mark.parametrize("command", [HERE, RGT], ids=["script", "rgt"])
def test_a_terminal_shows_the_verdict_first_then_one_line_a_card(command):
    plain = at_terminal(*command, NO_COLOR="1")
    assert "\x1b[" not in plain
    lines = plain.splitlines()
    assert re.match("fit", lines[0])
    assert [line.split("  ")[0] for line in lines[1:9]] == [f"GPU {card}" for card in range(8)]
    assert all("NVIDIA H100 80GB HBM3" in line and "81559 MiB" in line for line in lines[1:9])
    coloured = at_terminal(*command)
    assert "\x1b[" in coloured
    shown = coloured.rpartition("\x1b[2K")[2]  # of a slow check, without the line that says so
    assert re.sub(r"\x1b\[[0-9;]*m", "", shown) == plain


def test_a_pipe_gets_no_colour_and_the_short_form():
    done = subprocess.run(HERE, capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("verdict: fit\n") and "\x1b[" not in done.stdout
    assert "8 x NVIDIA H100 80GB HBM3" in done.stdout

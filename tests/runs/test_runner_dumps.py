"""Dumps of a hang: PyTorch is told to leave them beside the log, and they go where the log goes."""

import os
import subprocess

import pytest
from remote_gpu_trainer.runs import script_parts

from tests.runs.runner_box import Box

pytest_plugins = ["tests.runs.runner_box"]

OURS = "/run/log/nccl_trace_attempt_2_rank_"
SIZE = {"TORCH_FR_BUFFER_SIZE": "2000", "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000"}
FILE = {"TORCH_FR_DUMP_TEMP_FILE": OURS, "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": OURS}
DUMP = {"TORCH_NCCL_DUMP_ON_TIMEOUT": "1"}


@pytest.mark.parametrize(
    ("given", "then"),
    [
        ({}, SIZE | FILE | DUMP),
        ({"TORCH_FR_BUFFER_SIZE": "0"}, {"TORCH_FR_BUFFER_SIZE": "0"} | FILE | DUMP),
        (
            {"TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/my/trace_"},
            {"TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/my/trace_"} | SIZE | DUMP,
        ),
        ({"TORCH_NCCL_DUMP_ON_TIMEOUT": ""}, {"TORCH_NCCL_DUMP_ON_TIMEOUT": ""} | SIZE | FILE),
    ],
)
def test_pytorch_is_asked_for_dumps_in_both_spellings_unless_the_user_set_either(given, then):
    part = script_parts.TEMPLATES / "launchers/flight_recorder.sh"
    script = f"set -u; . {part}; RGT_RUN_DIR=/run rgt_attempt=2; rgt_note_hangs; env | grep ^TORCH"
    clean = {"PATH": os.environ["PATH"], **given}
    done = subprocess.run(["bash", "-c", script], env=clean, capture_output=True, text=True)
    assert done.stderr == ""
    assert dict(line.split("=", 1) for line in done.stdout.splitlines()) == then


def test_the_dumps_come_home_with_the_log(box: Box):
    kept = box.folder / "kept"
    torchrun = box.folder / "python3"
    torchrun.write_text(
        '#!/bin/sh\nfor rank in 0 1; do echo "$rank" >"$TORCH_FR_DUMP_TEMP_FILE$rank"; done\n'
    )
    torchrun.chmod(0o755)
    box.make(
        RGT_COMMAND=["train.py"],
        RGT_PYTHON=str(torchrun),
        RGT_LAUNCHER="torchrun",
        RGT_PROCS=2,
        RGT_DURABLE=str(kept),
        RGT_CHECKPOINT_DIR="",
        RGT_CHECKPOINT_GLOB="",
        RGT_EXPECT=[],
    )
    assert box.verb("run").returncode == 0, box.log()
    dumps = sorted(kept.rglob("nccl_trace_*"))
    assert [dump.name for dump in dumps] == [f"nccl_trace_attempt_1_rank_{n}" for n in (0, 1)]
    assert {dump.parent.name for dump in dumps} == {"log"}

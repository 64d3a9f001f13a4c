"""Dumps of a hang: PyTorch is told to leave them beside the log, and they go where the log goes."""

import sys
from types import SimpleNamespace

import pytest
from remote_gpu_trainer.runner import launchers
from remote_gpu_trainer.runner.context import Run

from tests.runner.box import Box
from tests.runner.jobs import job_of

pytest_plugins = ["tests.runner.box"]

OURS = "/run/log/nccl_trace_attempt_2_rank_"
SIZE = {"TORCH_FR_BUFFER_SIZE": "2000", "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000"}
FILE = {"TORCH_FR_DUMP_TEMP_FILE": OURS, "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": OURS}
DUMP = {"TORCH_NCCL_DUMP_ON_TIMEOUT": "1"}


@pytest.mark.parametrize("source", ["box", "job"])
@pytest.mark.parametrize(
    ("given", "then"),
    [
        ({}, SIZE | FILE | DUMP),
        ({"TORCH_FR_BUFFER_SIZE": "0"}, FILE | DUMP),
        ({"TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/my/trace_"}, SIZE | DUMP),
        ({"TORCH_NCCL_DUMP_ON_TIMEOUT": ""}, SIZE | FILE),
    ],
)
def test_pytorch_is_asked_for_dumps_in_both_spellings_unless_the_user_set_either(
    monkeypatch, source, given, then
):
    if source == "box":
        for name, value in given.items():
            monkeypatch.setenv(name, value)
    job: SimpleNamespace = job_of(
        {
            "rendered": {"run_dir": "/run"},
            "launcher": "torchrun",
            "processes": 2,
            "variables": given if source == "job" else {},
        }
    )
    assert launchers.environment(Run(job), 2) == then


def test_the_dumps_come_home_with_the_log(box: Box):
    kept = box.folder / "kept"
    torchrun = box.folder / "python3"
    torchrun.write_text(
        "#!/bin/bash\n"
        f'[[ $1 != -I ]] || exec {sys.executable} "$@"\n'  # the runner itself
        'for rank in 0 1; do echo "$rank" >"$TORCH_FR_DUMP_TEMP_FILE$rank"; done\n'
    )
    torchrun.chmod(0o755)
    box.make(
        command=["train.py"],
        python=str(torchrun),
        launcher="torchrun",
        processes=2,
        results=[],
        durable={"to": str(kept), "what": [str(torchrun)]},
        checkpoint=None,
    )
    assert box.verb("run").returncode == 0, box.log()
    dumps = sorted(kept.rglob("nccl_trace_*"))
    assert [dump.name for dump in dumps] == [f"nccl_trace_attempt_1_rank_{n}" for n in (0, 1)]
    assert {dump.parent.name for dump in dumps} == {"log"}

"""Slurm: the lines that sbatch reads, and the hand-over to the runner, on a real Slurm with a stub for the runner."""

import re
import subprocess
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from remote_gpu_trainer.runs import shell_text
from remote_gpu_trainer.runs.targets import slurm as target

from tests.conftest import engine
from tests.runs import stub_runner

pytest_plugins = ["tests.engines.slurm"]

ONE = target.Options(name="tiny", hours=2, gpus=1)
PAIR = target.Options(name="pair", hours=2, nodes=2, partition="pair", cpus=2)
FULL = target.Options(
    name="tiny", hours=20, nodes=1, gpus=2, gpu_type="h100", cpus=8, memory_mb=64000, limit_hours=12, partition="main", account="lab", qos="normal",
    constraint="hbm&nvlink", cells=4, at_once=2, requeue=True, signal_seconds=300, output="logs/%x-%A_%a.out",
)  # fmt: skip


@pytest.fixture
def write(tmp_path):
    """A batch script with a stub runner; its run folder is tmp_path/run."""

    def make(options, steps=0, **values):
        requeue = "yes" if options.requeue else ""
        given = {
            "RGT_RUN_DIR": str(tmp_path / "run"),
            "RGT_NODES": options.nodes,
            "RGT_REQUEUE": requeue,
            "RGT_RDZV_HOST": "",
            "RGT_COMMAND": ["x"],
            **values,
        }
        path = tmp_path / "batch.sh"
        path.write_text(
            target.text(given, options, shell_text.script(given, stub_runner.parts(steps)))
        )
        return path

    return make


def lines(folder, name):
    path = folder / "run" / name
    return path.read_text().splitlines() if path.exists() else []


def test_the_lines_for_sbatch_stand_in_a_fixed_order():
    assert (
        target.head(FULL)
        == """\
#SBATCH --job-name=tiny
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:h100:2
#SBATCH --cpus-per-task=8
#SBATCH --mem=64000M
#SBATCH --time=0-12:00:00
#SBATCH --partition=main
#SBATCH --account=lab
#SBATCH --qos=normal
#SBATCH --constraint=hbm&nvlink
#SBATCH --array=0-3%2
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@300
#SBATCH --output=logs/%x-%A_%a.out
"""
    )
    assert (
        target.head(target.Options("tiny", None))
        == """\
#SBATCH --job-name=tiny
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --no-requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@120
#SBATCH --output=slurm-%j.out
"""
    )


@pytest.mark.parametrize(
    ("hours", "limit", "minutes"),
    [
        (1, None, 67),
        (0.001, None, 8),
        (20, 12, 720),
        (2, 4, 127),
        (30, None, 1807),
        (None, 12, 720),
        (None, None, None),
        (1, 1, 60),
    ],
)
def test_the_time_is_the_deadline_and_a_margin_within_the_limit(hours, limit, minutes):
    options = replace(ONE, hours=hours, limit_hours=limit)
    assert options.minutes == minutes
    shown = re.search(r"--time=(\d+)-(\d\d):(\d\d):00", target.head(options))
    assert (shown and int(shown[1]) * 1440 + int(shown[2]) * 60 + int(shown[3])) == minutes


def test_the_script_begins_with_the_lines_and_ends_with_the_runner(write):
    text = write(ONE).read_text()
    assert text.startswith("#!/usr/bin/env bash\n#SBATCH --job-name=tiny\n")
    assert text.endswith('\nrgt_main "$@"\n')
    assert text.count('\nrgt_main "$@"\n') == 1


def test_no_value_can_add_a_line_for_sbatch(write):
    text = write(ONE, RGT_NAME="x\n#SBATCH --partition=high", RGT_ENV=["#SBATCH --x"]).read_text()
    first_code = next(
        number for number, line in enumerate(text.split("\n")) if line and not line.startswith("#")
    )
    assert (
        text.split("\n")[1 : text.count("#SBATCH --", 0, text.index("# Rendered by")) + 1]
        == target.head(ONE).splitlines()
    )
    assert not [
        line
        for line in text.split("\n")[:first_code]
        if line.startswith("#SBATCH") and line not in target.head(ONE)
    ]


def test_the_bash_is_clean(write, tmp_path):
    script = str(write(PAIR))
    done = subprocess.run(
        [
            engine("shellcheck", "apt-get install shellcheck"),
            "-S",
            "warning",
            "-e",
            "SC2034",
            script,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    tail = tmp_path / "tail.sh"
    tail.write_text(target.tail(PAIR).lstrip("\n"))
    done = subprocess.run(
        [
            engine("shfmt", "apt-get install shfmt"),
            "-d",
            "-i",
            "2",
            "-ci",
            "-ln",
            "bash",
            str(tail),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


TEXT_FIELDS = ("name", "gpu_type", "partition", "account", "qos", "constraint", "output")


@given(
    st.sampled_from(TEXT_FIELDS),
    st.one_of(st.text(), st.text("ab \n\r\t'\"`$();&|#=\\,%-_./\u2028", min_size=1)),
)
def test_a_text_is_one_plain_word_or_refused_by_name(field, value):
    try:
        options = replace(FULL, **{field: value})
    except ValueError as refused:
        assert re.match(rf"{field}: must be .*, not .*; .+\Z", str(refused))
        return
    found = target.head(options)
    assert re.fullmatch(r"(#SBATCH --[a-z-]+(=[A-Za-z0-9.:@%&|_/-]+)?\n)+", found)
    assert len(found.splitlines()) in (15, 16)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"hours": 0}, "hours"),
        ({"hours": float("inf")}, "hours"),
        ({"hours": True}, "hours"),
        ({"limit_hours": -1}, "limit_hours"),
        ({"nodes": 0}, "nodes"),
        ({"nodes": "2"}, "nodes"),
        ({"nodes": 2, "cells": 3}, "nodes"),
        ({"gpus": 65}, "gpus"),
        ({"gpus": 0, "gpu_type": "h100"}, "gpu_type"),
        ({"cpus": -1}, "cpus"),
        ({"memory_mb": 1.5}, "memory_mb"),
        ({"cells": -1}, "cells"),
        ({"at_once": -1}, "at_once"),
        ({"signal_seconds": 0}, "signal_seconds"),
        ({"signal_seconds": 70000}, "signal_seconds"),
        ({"limit_hours": 0.05, "signal_seconds": 121}, "signal_seconds"),
        ({"partition": "main,high"}, "partition"),
        ({"name": "-x"}, "name"),
        ({"name": "x\n#SBATCH --partition=high"}, "name"),
    ],
)
def test_a_bad_option_is_refused_by_name(change, field):
    with pytest.raises(ValueError, match=rf"^{field}: must be .*, not .*; .+\Z"):
        replace(ONE, **change)


@pytest.mark.parametrize(
    ("options", "values", "field"),
    [
        (ONE, {"RGT_NODES": 2}, "nodes"),
        (replace(ONE, requeue=True), {"RGT_REQUEUE": ""}, "requeue"),
        (ONE, {"RGT_CELLS": ["a"]}, "cells"),
        (replace(ONE, cells=2), {}, "cells"),
        (ONE, {"RGT_SAVE_SECONDS": 121}, "signal_seconds"),
        (ONE, {"RGT_SAVE_SECONDS": "x"}, "RGT_SAVE_SECONDS"),
    ],
)
def test_values_that_do_not_fit_are_refused_by_name(write, options, values, field):
    with pytest.raises(ValueError, match=rf"^{field}: must be .*, not .*; "):
        write(options, **values)


def test_on_a_login_node_the_verbs_are_the_runners_own(write, tmp_path):
    script = write(replace(ONE, requeue=True))
    for args in (["status", "--json"], []):
        subprocess.run(
            ["bash", str(script), *args], check=True, env={"PATH": "/usr/bin:/bin"}, timeout=20
        )
    assert [line.split("|")[0] for line in lines(tmp_path, "calls")] == ["status --json", ""]


SHAPES = {
    "one GPU": (ONE, {}),
    "two nodes": (PAIR, {}),
    "most options": (
        replace(FULL, gpu_type="", cpus=2, memory_mb=1000, constraint="", account="", qos=""),
        {"RGT_CELLS": ["a", "b", "c", "d"]},
    ),
    "account and qos": (replace(ONE, account="lab", qos="normal"), {}),
    "no time": (replace(ONE, hours=None), {}),
    "a year": (replace(ONE, hours=8784), {}),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_sbatch_accepts_it(slurm, write, shape):
    options, values = SHAPES[shape]
    done = slurm.client("sbatch", "--test-only", str(write(options, **values)), check=False)
    assert done.returncode == 0, done.stderr
    assert "error" not in done.stderr


def test_sbatch_would_refuse_a_third_gpu(slurm, write):
    assert (
        slurm.client(
            "sbatch", "--test-only", str(write(replace(ONE, gpus=3))), check=False
        ).returncode
        == 1
    )


def test_one_node_runs_in_the_batch_shell_with_its_gpus(slurm, write, tmp_path):
    job = slurm.sbatch(write(replace(ONE, gpus=2), RGT_COMMAND=["a b", "$(x)"]))
    assert slurm.until(job, "COMPLETED", "FAILED")["JobState"] == "COMPLETED"
    assert lines(tmp_path, "calls") == ["run|rdzv=|requeue=|gpus=0,1|node=gpu"]
    assert (tmp_path / "run/command").read_text() == "a b\0$(x)\0"
    assert (slurm.home / f"slurm-{job}.out").read_text() == ""


def test_a_save_before_the_time_limit_requeues_and_goes_on(slurm, write, tmp_path):
    job = slurm.sbatch(write(replace(ONE, requeue=True), steps=40))
    slurm.wait(
        lambda: (
            len(lines(tmp_path, "step")) and int((lines(tmp_path, "step") or ["0"])[0] or 0) >= 10
        ),
        "no tenth step",
    )
    slurm.client("scancel", "--batch", "--signal=USR1", job)
    slurm.restart_now(job)
    facts = slurm.until(job, "COMPLETED", "FAILED", "CANCELLED")
    assert (facts["JobState"], facts["Restarts"]) == ("COMPLETED", "1")
    assert lines(tmp_path, "step") == ["40"]
    assert re.fullmatch(r"saved at [1-3]\d", lines(tmp_path, "events")[0])
    assert len(lines(tmp_path, "calls")) == 2


def test_a_higher_partition_takes_the_gpu_and_the_job_comes_back(slurm, write, tmp_path):
    job = slurm.sbatch(write(replace(ONE, gpus=2, requeue=True), steps=400), "--time=10")
    slurm.wait(lambda: lines(tmp_path, "calls"), "the job did not start")
    urgent = tmp_path / "urgent.sh"
    urgent.write_text("#!/bin/bash\nexit 0\n")
    above = slurm.sbatch(urgent, "--partition=high", "--gres=gpu:2")
    slurm.until(above, "COMPLETED")
    assert re.fullmatch(r"TERM at \d+", lines(tmp_path, "events")[0])
    (tmp_path / "run/step").write_text("399\n")
    slurm.restart_now(job)
    facts = slurm.until(job, "COMPLETED", "FAILED", "CANCELLED")
    assert (facts["JobState"], facts["Restarts"]) == ("COMPLETED", "1")


def test_an_array_runs_each_cell_once_two_at_a_time(slurm, write, tmp_path):
    options = target.Options("cells", 2, gpus=1, cells=4, at_once=2)
    job = slurm.sbatch(write(options, steps=3, RGT_CELLS=["a", "b", "c", "d"]))
    slurm.until(job, "COMPLETED")
    calls = sorted(line.split("|") for line in lines(tmp_path, "calls"))
    assert [call[0] for call in calls] == [f"queue --part {part}/4" for part in range(1, 5)]
    assert {call[3] for call in calls} == {"gpus=0", "gpus=1"}


def test_two_nodes_each_run_their_rank_and_meet_at_the_first(slurm, write, tmp_path):
    job = slurm.sbatch(write(replace(PAIR, requeue=True)))
    assert slurm.until(job, "COMPLETED", "FAILED")["JobState"] == "COMPLETED"
    assert sorted(lines(tmp_path, "calls")) == [
        f"run --node-rank {rank}|rdzv=localhost|requeue=no|gpus=|node={node}"
        for rank, node in enumerate(("localhost", "z"))
    ]
    assert (tmp_path / "run/run.sh").read_bytes() == (tmp_path / "batch.sh").read_bytes()


def test_two_nodes_hear_save_now_and_only_the_batch_script_requeues(slurm, write, tmp_path):
    job = slurm.sbatch(write(replace(PAIR, requeue=True), steps=60))
    slurm.wait(lambda: len(lines(tmp_path, "calls")) == 2, "two nodes did not start")
    slurm.client("scancel", "--batch", "--signal=USR1", job)
    slurm.restart_now(job)
    assert [line.split(" at ")[0] for line in lines(tmp_path, "events")] == ["saved", "saved"]
    facts = slurm.until(job, "COMPLETED", "FAILED", "CANCELLED")
    assert (facts["JobState"], facts["Restarts"]) == ("COMPLETED", "1")
    assert len(lines(tmp_path, "calls")) == 4


def test_the_code_of_a_node_is_the_code_of_the_job(slurm, write, tmp_path):
    script = write(PAIR)
    script.write_text(
        script.read_text().replace(
            "local dir=$RGT_RUN_DIR step=0", "[[ $* != *'rank 1' ]] || exit 9; return 0"
        )
    )
    facts = slurm.until(slurm.sbatch(script), "COMPLETED", "FAILED")
    assert (facts["JobState"], facts["ExitCode"]) == ("FAILED", "9:0")


def test_a_node_that_saves_longer_than_the_other_is_waited_for(slurm, write, tmp_path):
    script = write(PAIR, steps=60)
    script.write_text(
        script.read_text().replace("trap 'echo", "trap '((SLURM_NODEID)) && sleep 6; echo", 1)
    )
    job = slurm.sbatch(script)
    slurm.wait(lambda: len(lines(tmp_path, "calls")) == 2, "two nodes did not start")
    slurm.client("scancel", "--batch", "--signal=USR1", job)
    assert slurm.until(job, "COMPLETED", "FAILED")["JobState"] == "FAILED"
    assert [line.split(" at ")[0] for line in lines(tmp_path, "events")] == ["saved", "saved"]


def test_a_value_that_got_past_the_options_is_refused_at_its_line():
    for field, value in (
        ("partition", "a\n#SBATCH --x"),
        ("name", "a b"),
        ("output", "a;b"),
        ("nodes", "1 2"),
        ("qos", "a=b"),
    ):
        options = replace(ONE)
        object.__setattr__(options, field, value)
        with pytest.raises(ValueError, match=f"^{field}: must be"):
            target.head(options)

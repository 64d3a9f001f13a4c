"""Slurm: the lines that sbatch reads, and whether a real sbatch takes them."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from remote_gpu_trainer.runs import run_script
from remote_gpu_trainer.runs.targets import slurm as target

pytest_plugins = ["tests.engines.slurm"]

ONE = target.Options(name="tiny", hours=2, gpus=1)
PAIR = target.Options(name="pair", hours=2, nodes=2, partition="pair", cpus=2)
FULL = target.Options(
    name="tiny", hours=20, nodes=1, gpus=2, gpu_type="h100", cpus=8, memory_mb=64000, limit_hours=12, partition="main", account="lab", qos="normal",
    constraint="hbm&nvlink", cells=4, at_once=2, requeue=True, signal_seconds=300, output="logs/%x-%A_%a.out",
)  # fmt: skip


@pytest.fixture
def write(tmp_path):
    """A batch script with these options."""

    def make(options, **fields):
        given = {"name": "tiny", "run_dir": str(tmp_path / "run"), "command": ["x"], **fields}
        path = tmp_path / "batch.sh"
        path.write_text(run_script.text(given, target.head(options)))
        return path

    return make


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


def test_no_value_can_add_a_line_for_sbatch(write):
    line = "x\n#SBATCH --partition=high"
    text = write(ONE, name=line, command=line, run_dir=line, deadline=line).read_text()
    lines = text.split("\n")
    first = next(number for number, line in enumerate(lines) if line and not line.startswith("#"))
    read = [line for line in lines[:first] if line.startswith("#SBATCH")]
    assert read == target.head(ONE).splitlines()


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


def test_a_signal_that_comes_too_late_for_a_save_is_refused():
    with pytest.raises(ValueError, match=r"^signal_seconds: must be at least 121, .*, not 120; "):
        target.check({"save_seconds": 120.5}, ONE)
    target.check({"save_seconds": 120.0}, ONE)


SHAPES = {
    "one GPU": ONE,
    "two nodes": PAIR,
    "most options": replace(
        FULL, gpu_type="", cpus=2, memory_mb=1000, constraint="", account="", qos=""
    ),
    "account and qos": replace(ONE, account="lab", qos="normal"),
    "no time": replace(ONE, hours=None),
    "a year": replace(ONE, hours=8784),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_sbatch_accepts_it(slurm, write, shape):
    done = slurm.client("sbatch", "--test-only", str(write(SHAPES[shape])), check=False)
    assert done.returncode == 0, done.stderr
    assert "error" not in done.stderr


def test_sbatch_would_refuse_a_third_gpu(slurm, write):
    assert (
        slurm.client(
            "sbatch", "--test-only", str(write(replace(ONE, gpus=3))), check=False
        ).returncode
        == 1
    )


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

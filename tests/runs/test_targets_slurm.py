"""Slurm: the lines that sbatch reads, and whether a real sbatch takes them."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from remote_gpu_trainer.runs import run_script
from remote_gpu_trainer.runs.targets import sbatch_options
from remote_gpu_trainer.runs.targets import slurm as target

pytest_plugins = ["tests.engines.slurm"]

ONE = target.Options(name="tiny", hours=2, gpus=1)
PAIR = target.Options(name="pair", hours=2, nodes=2, partition="pair", cpus=2)
FULL = target.Options(
    name="tiny", hours=20, nodes=1, gpus=2, gpu_type="h100", cpus=8, memory_mb=64000, limit_hours=12, partition="main", account="lab", qos="normal",
    constraint="hbm&nvlink", exclude="n[01-02]", nodelist="gpu", dependency="afterok:12,singleton", reservation="week", exclusive=True,
    options=(("comment", "run=1"), ("contiguous", "true"), ("nice", "10")), cells=4, at_once=2, requeue=True, signal_seconds=300, output="logs/%x-%A_%a.out",
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
#SBATCH --exclude=n[01-02]
#SBATCH --nodelist=gpu
#SBATCH --dependency=afterok:12,singleton
#SBATCH --reservation=week
#SBATCH --exclusive
#SBATCH --comment=run=1
#SBATCH --contiguous
#SBATCH --nice=10
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


TEXT_FIELDS = (
    "name", "gpu_type", "partition", "account", "qos", "constraint", "exclude", "nodelist", "dependency", "reservation", "output",
)  # fmt: skip
LINE = r"#SBATCH --[a-z-]+(=[A-Za-z0-9.:@%&|_/()\[\]*,+=?!-]+)?"


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
    assert re.fullmatch(rf"({LINE}\n)+", found)
    assert len(found.splitlines()) in (23, 24)


@given(
    st.sampled_from(sorted(sbatch_options.FORMS)),
    st.one_of(st.text(), st.text("ab1 \n\r\t'\"`$();&|#=\\,%-_./@:[]*\u2028", min_size=1)),
)
def test_a_further_option_is_one_plain_word_or_refused(name, value):
    try:
        options = replace(ONE, options=((name, value),))
    except ValueError as refused:
        assert re.match(r"options: must be .*, not .*; .+\Z", str(refused))
        return
    assert re.fullmatch(rf"({LINE}\n)+", target.head(options))


# Options of sbatch that a job says by a field of its own.
OTHERWISE = {
    "account", "array", "chdir", "constraint", "cpus-per-task", "deadline", "dependency", "error", "exclude", "exclusive",
    "export", "export-file", "get-user-env", "gpus", "gpus-per-node", "gpus-per-socket", "gpus-per-task", "gres", "input",
    "job-name", "mem", "no-requeue", "nodelist", "nodes", "ntasks", "ntasks-per-gpu", "ntasks-per-node", "open-mode", "output",
    "partition", "qos", "requeue", "reservation", "signal", "time", "time-min", "wrap",
}  # fmt: skip


def test_an_option_that_a_job_says_otherwise_names_that_field():
    for name in OTHERWISE:
        with pytest.raises(ValueError, match=rf"^options: --{name} is said by .*; set that\Z"):
            replace(ONE, options=((name, "1"),))
    assert set(sbatch_options.OURS) == OTHERWISE and set(sbatch_options.FORMS) == set(VALUES)
    assert not OTHERWISE & set(VALUES)
    assert set(re.findall(r"#SBATCH --([a-z-]+)", target.head(FULL))) <= OTHERWISE | set(VALUES)


def test_an_option_that_nobody_knows_is_refused_with_those_that_are():
    with pytest.raises(ValueError, match="not 'cpu-bind'; use one of .*wckey"):
        replace(ONE, options=(("cpu-bind", "cores"),))


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        (("cpus-per-gpu",), {"cpus": 4}),
        (("mem-per-cpu",), {"memory_mb": 0}),
        (("mem-per-gpu",), {"memory_mb": 100}),
        (("mem-per-cpu", "mem-per-gpu"), {}),
    ],
)
def test_two_options_of_which_sbatch_takes_one_are_refused(options, fields):
    with pytest.raises(ValueError, match=r"^options: sbatch takes either .*; leave out one\Z"):
        replace(ONE, options=tuple((name, "2") for name in options), **fields)


# A value of each further option, which the sbatch that is installed reads.
VALUES = {
    "acctg-freq": "task=30", "batch": "hbm", "begin": "now+1hours", "cluster-constraint": "a100", "clusters": "t", "comment": "run=1", "contiguous": "true", "core-spec": "1", "cores-per-socket": "1",
    "cpu-freq": "Performance", "cpus-per-gpu": "1", "delay-boot": "5", "distribution": "block:cyclic,NoPack", "gpu-bind": "map_gpu:0,1", "gpu-freq": "medium,memory=high", "gres-flags": "enforce-binding",
    "hint": "nomultithread", "kill-on-invalid-dep": "yes", "licenses": "matlab:2", "mail-type": "END,FAIL,TIME_LIMIT_80", "mail-user": "a.b@example.org", "mcs-label": "x", "mem-bind": "quiet,local",
    "mem-per-cpu": "500M", "mem-per-gpu": "1G", "mincpus": "1", "network": "system", "nice": "-5", "oversubscribe": "true", "prefer": "hbm", "priority": "TOP", "profile": "task,energy", "propagate": "NOFILE,MEMLOCK",
    "reboot": "true", "sockets-per-node": "1", "spread-job": "true", "switches": "1@10:00", "thread-spec": "1", "threads-per-core": "1", "tmp": "1G", "use-min-nodes": "true", "wait-all-nodes": "1", "wckey": "lab",
}  # fmt: skip
# What this small cluster has not: a constraint of two features, a network plugin, mcs, disks in /tmp, spare cores.
NOT_HERE = {"batch", "cluster-constraint", "mcs-label", "network", "tmp", "core-spec", "thread-spec"}  # fmt: skip


# Without slurmdbd --clusters waits for it for minutes.
@pytest.mark.parametrize("name", sorted(set(sbatch_options.FORMS) - {"clusters"}))
def test_sbatch_knows_each_further_option_and_its_value(slurm, write, name):
    script = write(replace(ONE, options=((name, VALUES[name]),)))
    done = slurm.client("sbatch", "--test-only", str(script), check=False)
    for said in ("unrecognized option", "Invalid --", "invalid option", "Invalid argument"):
        assert said not in done.stderr
    assert done.returncode == 0 or name in NOT_HERE, done.stderr


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
        ({"partition": "main,"}, "partition"),
        ({"memory_mb": -1}, "memory_mb"),
        ({"constraint": "a b"}, "constraint"),
        ({"exclude": "n[1-2] x"}, "exclude"),
        ({"nodelist": "$(x)"}, "nodelist"),
        ({"dependency": "afterok"}, "dependency"),
        ({"dependency": "afterok:1;afterok:2"}, "dependency"),
        ({"reservation": "-x"}, "reservation"),
        ({"options": (("contiguous", "1"),)}, "options"),
        ({"account": "@gpu"}, "account"),
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
        FULL,
        gpu_type="",
        cpus=2,
        memory_mb=1000,
        exclude="z",
        reservation="",
        dependency="singleton",
        account="",
        qos="",
    ),
    "all memory of the node": replace(ONE, memory_mb=0, exclusive=True),
    "one of two partitions": replace(ONE, partition="main,high"),
    "account and qos": replace(ONE, account="lab", qos="normal"),
    "account with its kind of nodes": replace(ONE, account="lab@gpu"),
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

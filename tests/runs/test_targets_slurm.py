"""Slurm: the lines that sbatch reads, and whether a real sbatch takes them."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from remote_gpu_trainer.runs.job import Job
from remote_gpu_trainer.runs.job_errors import JobError
from remote_gpu_trainer.runs.job_reading import from_object
from remote_gpu_trainer.runs.rendered import Unfit
from remote_gpu_trainer.runs.targets import sbatch_options
from remote_gpu_trainer.runs.targets import slurm as target

from tests.runner.jobs import text_of

pytest_plugins = ["tests.engines.slurm"]


def job(slurm=None, **fields) -> Job:
    """A job of one GPU for two hours: these fields over it, and these of `slurm`."""
    usual = {"name": "tiny", "command": ["x"], "deadline": "2h", "gpus": 1}
    return from_object({**usual, **fields, "slurm": {"requeue": False, **(slurm or {})}})


PAIR = {"name": "pair", "nodes": 2, "launcher": "torchrun", "gpus": 0, "slurm": {"partition": "pair", "cpus": 2}}  # fmt: skip
CELLS = {"cells": [{"name": name} for name in "abcd"]}
FULL = {
    "gpu_type": "h100", "cpus": 8, "memory_gb": 64, "most_hours": 12, "partition": "main", "account": "lab", "qos": "normal",
    "constraint": "hbm&nvlink", "exclude": "n[01-02]", "nodelist": "gpu", "dependency": "afterok:12,singleton", "reservation": "week", "exclusive": True,
    "options": {"nice": "10", "comment": "run=1", "contiguous": True, "reboot": False}, "at_a_time": 2, "requeue": True, "signal_seconds": 300,
}  # fmt: skip


@pytest.fixture
def write(tmp_path):
    """A batch script of a job, with these fields of it changed."""

    def make(one, **fields):
        given = {"name": "tiny", "rendered": {"run_dir": str(tmp_path / "run")}, "command": ["x"]}
        path = tmp_path / "batch.sh"
        path.write_text(text_of(given, fields, sbatch=target.head(one)))
        return path

    return make


def test_the_lines_for_sbatch_stand_in_a_fixed_order():
    assert (
        target.head(job(FULL, deadline="20h", gpus=2, queue=CELLS))
        == """\
#SBATCH --job-name=tiny
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:h100:2
#SBATCH --cpus-per-task=8
#SBATCH --mem=65536M
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
#SBATCH --output=slurm-%A_%a.out
"""
    )
    assert (
        target.head(job(gpus=0))
        == """\
#SBATCH --job-name=tiny
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --time=0-02:07:00
#SBATCH --no-requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@120
#SBATCH --output=slurm-%j.out
"""
    )


@pytest.mark.parametrize(
    ("deadline", "limit", "minutes"),
    [("1h", None, 67), ("4s", None, 8), ("20h", 12, 720), ("2h", 4, 127), ("30h", None, 1807), ("1h", 1, 60)],
)  # fmt: skip
def test_the_time_is_the_deadline_and_a_margin_within_the_limit(deadline, limit, minutes):
    one = job({"most_hours": limit}, deadline=deadline)
    assert target.minutes(one) == minutes
    shown = re.search(r"--time=(\d+)-(\d\d):(\d\d):00", target.head(one))
    assert shown and int(shown[1]) * 1440 + int(shown[2]) * 60 + int(shown[3]) == minutes


def test_no_value_can_add_a_line_for_sbatch(write):
    line = "x\n#SBATCH --partition=high"
    text = write(
        job(), name=line, command=line, rendered={"run_dir": line}, deadline=line
    ).read_text()
    lines = text.split("\n")
    first = next(number for number, line in enumerate(lines) if line and not line.startswith("#"))
    read = [line for line in lines[:first] if line.startswith("#SBATCH")]
    assert read == target.head(job()).splitlines()


TEXT_FIELDS = (
    "gpu_type", "partition", "account", "qos", "constraint", "exclude", "nodelist", "dependency", "reservation",
)  # fmt: skip
LINE = r"#SBATCH --[a-z-]+(=[A-Za-z0-9.:@%&|_/()\[\]*,+=?!-]+)?"


@example("gpu_type", "0")
@given(
    st.sampled_from(TEXT_FIELDS),
    st.one_of(st.text(), st.text("ab \n\r\t'\"`$();&|#=\\,%-_./\u2028", min_size=1)),
)
def test_a_text_is_one_plain_word_or_refused_by_name(field, value):
    fields = {"deadline": "20h", "gpus": 2}
    try:
        one = job({**FULL, field: value}, **fields)
    except JobError as refused:
        assert re.match(rf"slurm\.{field}: must be .*; .+\Z", str(refused))
        return
    assert re.fullmatch(rf"({LINE}\n)+", target.head(one))
    usual = target.head(job(FULL, **fields))
    assert len(target.head(one).splitlines()) == len(usual.splitlines())


# A value of each further option, which the sbatch that is installed reads.
VALUES = {
    "acctg-freq": "task=30", "batch": "hbm", "begin": "now+1hours", "cluster-constraint": "a100", "clusters": "t", "comment": "run=1", "contiguous": True, "core-spec": "1", "cores-per-socket": "1",
    "cpu-freq": "Performance", "cpus-per-gpu": "1", "delay-boot": "5", "distribution": "block:cyclic,NoPack", "gpu-bind": "map_gpu:0,1", "gpu-freq": "medium,memory=high", "gres-flags": "enforce-binding",
    "hint": "nomultithread", "kill-on-invalid-dep": "yes", "licenses": "matlab:2", "mail-type": "END,FAIL,TIME_LIMIT_80", "mail-user": "a.b@example.org", "mcs-label": "x", "mem-bind": "quiet,local",
    "mem-per-cpu": "500M", "mem-per-gpu": "1G", "mincpus": "1", "network": "system", "nice": "-5", "oversubscribe": True, "prefer": "hbm", "priority": "TOP", "profile": "task,energy", "propagate": "NOFILE,MEMLOCK",
    "reboot": True, "sockets-per-node": "1", "spread-job": True, "switches": "1@10:00", "thread-spec": "1", "threads-per-core": "1", "tmp": "1G", "use-min-nodes": True, "wait-all-nodes": "1", "wckey": "lab",
}  # fmt: skip


@given(
    st.one_of(st.sampled_from(sorted(VALUES)), st.text(max_size=40)),
    st.one_of(st.text(), st.text("ab1 \n\r\t'\"`$();&|#=\\,%-_./@:[]*\u2028", min_size=1)),
)
def test_a_further_option_is_one_plain_word_or_refused(name, value):
    try:
        one = job({"options": {name: value}})
    except JobError as refused:
        assert re.match(r"slurm\.options\b.*: .+\Z", str(refused))
        return
    assert re.fullmatch(rf"({LINE}\n)+", target.head(one))


# Options of sbatch that a job says by a field of its own.
OTHERWISE = {
    "account", "array", "chdir", "constraint", "cpus-per-task", "deadline", "dependency", "error", "exclude", "exclusive",
    "export", "export-file", "get-user-env", "gpus", "gpus-per-node", "gpus-per-socket", "gpus-per-task", "gres", "input",
    "job-name", "mem", "no-requeue", "nodelist", "nodes", "ntasks", "ntasks-per-gpu", "ntasks-per-node", "open-mode", "output",
    "partition", "qos", "requeue", "reservation", "signal", "time", "time-min", "wrap",
}  # fmt: skip


def test_an_option_that_a_job_says_otherwise_names_that_field():
    for name in OTHERWISE:
        with pytest.raises(JobError, match=rf"^slurm.options: --{name} is said by .*; set that\Z"):
            job({"options": {name: "1"}})
    assert set(sbatch_options.OURS) == OTHERWISE
    assert not OTHERWISE & set(VALUES)
    lines = target.head(job(FULL, queue=CELLS))
    assert set(re.findall(r"#SBATCH --([a-z-]+)", lines)) <= OTHERWISE | set(VALUES)


@pytest.mark.parametrize("short", ["par", "outp", "gpus-per", "expor"])
def test_a_name_cut_short_is_the_option_that_sbatch_takes_it_for(short):
    with pytest.raises(
        JobError, match=rf"^slurm.options: --{short}[a-z-]+ is said by .*; set that\Z"
    ):
        job({"options": {short: "x"}})


def test_an_option_that_this_version_does_not_know_is_handed_on():
    lines = target.head(job({"options": {"tres-per-task": "cpu=4"}})).splitlines()
    assert "#SBATCH --tres-per-task=cpu=4" in lines


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        (("cpus-per-gpu",), {"cpus": 4}),
        (("mem-per-cpu",), {"memory_gb": 0}),
        (("mem-per-gpu",), {"memory_gb": 100}),
        (("mem-per-cpu", "mem-per-gpu"), {}),
    ],
)
def test_two_options_of_which_sbatch_takes_one_are_refused(options, fields):
    with pytest.raises(JobError, match=r"^slurm.options: sbatch takes either .*; leave out one\Z"):
        job({"options": dict.fromkeys(options, "2"), **fields})


# What this small cluster has not: a constraint of two features, a network plugin, mcs, disks in /tmp, spare cores.
NOT_HERE = {"batch", "cluster-constraint", "mcs-label", "network", "tmp", "core-spec", "thread-spec"}  # fmt: skip


# Without slurmdbd --clusters waits for it for minutes.
@pytest.mark.parametrize("name", sorted(set(VALUES) - {"clusters"}))
def test_sbatch_knows_each_further_option_and_its_value(slurm, write, name):
    script = write(job({"options": {name: VALUES[name]}}))
    done = slurm.client("sbatch", "--test-only", str(script), check=False)
    for said in ("unrecognized option", "Invalid --", "invalid option", "Invalid argument"):
        assert said not in done.stderr
    assert done.returncode == 0 or name in NOT_HERE, done.stderr


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"most_hours": -1}, "most_hours: is -1, and must be over 0"),
        ({"cpus": 0}, "cpus: is 0, and must be 1 or more"),
        ({"memory_gb": 1.5}, "memory_gb: is 1.5, and must be a whole number"),
        ({"memory_gb": -1}, "memory_gb: is -1, and must be 0 or more"),
        ({"at_a_time": 0}, "at_a_time: is 0, and must be 1 or more"),
        ({"signal_seconds": 70000}, "signal_seconds: is 70000, and must be 65535 or less"),
        ({"partition": "main,"}, "partition: must be the name of a partition"),
        ({"constraint": "a b"}, "constraint: must be features"),
        ({"exclude": "n[1-2] x"}, "exclude: must be names of nodes"),
        ({"nodelist": "$(x)"}, "nodelist: must be names of nodes"),
        ({"dependency": "afterok"}, "dependency: must be such as afterok:123"),
        ({"dependency": "afterok:1;afterok:2"}, "dependency: must be such as afterok:123"),
        ({"reservation": "-x"}, "reservation: must be the name"),
        ({"options": {"comment": "a b"}}, "options: must be a value of --comment"),
        ({"account": "@gpu"}, "account: must be 1 to 64 letters"),
        ({"gpu_type": "h100", "gres": False}, "gpu_type: stands in the --gres line"),
    ],
)
def test_a_bad_value_is_refused_by_its_field_whatever_the_target(change, says):
    with pytest.raises(JobError, match=rf"^slurm\.{says}.*; .+\Z"):
        job(change)


def test_true_is_for_an_option_without_a_value_and_false_leaves_it_out():
    lines = target.head(job({"options": {"reboot": False, "contiguous": True}})).splitlines()
    assert "#SBATCH --contiguous" in lines and "#SBATCH --reboot" not in lines


@pytest.mark.parametrize(
    ("slurm", "fields", "says"),
    [
        ({}, {"deadline": "18:00Z"}, "deadline: a Slurm job waits in the queue first"),
        ({"gpu_type": "h100"}, {"gpus": 0}, "slurm.gpu_type: must be left out where gpus is 0"),
        (
            {"signal_seconds": 120},
            {"checkpoint": {"folder": "out", "save_seconds": 120.5}},
            "slurm.signal_seconds: must be at least 121, the time of a save, not 120",
        ),
        (
            {"most_hours": 0.05, "signal_seconds": 121},
            {},
            "slurm.signal_seconds: must be at least a minute less than the time limit of 3 min",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused_for_slurm_alone(slurm, fields, says):
    with pytest.raises(Unfit, match=f"^{says}.*; "):
        target.head(job(slurm, **fields))


def test_a_signal_as_early_as_a_save_takes_is_fine():
    target.check(job({"signal_seconds": 120}, checkpoint={"folder": "out", "save_seconds": 120}))


SHAPES = {
    "one GPU": {},
    "two nodes": PAIR,
    "most options": {
        "gpus": 2,
        "queue": CELLS,
        "slurm": {
            **FULL,
            "gpu_type": None,
            "cpus": 2,
            "memory_gb": 1,
            "exclude": "z",
            "reservation": None,
            "dependency": "singleton",
            "account": None,
            "qos": None,
        },
    },
    "all memory of the node": {"slurm": {"memory_gb": 0, "exclusive": True}},
    "one of two partitions": {"slurm": {"partition": "main,high"}},
    "account and qos": {"slurm": {"account": "lab", "qos": "normal"}},
    "account with its kind of nodes": {"slurm": {"account": "lab@gpu"}},
    "a year": {"deadline": "8784h"},
}


@pytest.mark.parametrize("shape", SHAPES)
def test_sbatch_accepts_it(slurm, write, shape):
    done = slurm.client("sbatch", "--test-only", str(write(job(**SHAPES[shape]))), check=False)
    assert done.returncode == 0, done.stderr
    assert "error" not in done.stderr


def test_sbatch_would_refuse_a_third_gpu(slurm, write):
    script = write(job(gpus=3))
    assert slurm.client("sbatch", "--test-only", str(script), check=False).returncode == 1

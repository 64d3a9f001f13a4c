"""The parts of a run script: each is clean by itself, and every choice of them calls only what is there."""

import itertools
import re
import subprocess
from pathlib import Path

import pytest
from remote_gpu_trainer.runs import script_parts, shell_text

from tests.conftest import engine

BASH = sorted(script_parts.TEMPLATES.rglob("*.sh"))
PYTHON = sorted(script_parts.TEMPLATES.rglob("*.py"))
NAMES = [name for name, _ in script_parts.PARTS]
DEFINED = re.compile(r"^\s*(rgt_\w+)\(\)", re.M)


def name_of(path: Path) -> str:
    return path.relative_to(script_parts.TEMPLATES).as_posix()


def test_every_file_is_a_part_and_every_part_a_file():
    engines = {f"engines/{name}.sh" for name in ("rendezvous", "slurm")}
    assert {name_of(path) for path in [*BASH, *PYTHON]} == {*NAMES, *engines}
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize("path", BASH, ids=name_of)
def test_bash_reads_each_part_by_itself_and_it_does_nothing_but_define(path, tmp_path):
    assert subprocess.run(["bash", "-n", str(path)], capture_output=True, text=True).stderr == ""
    settings = script_parts.TEMPLATES / "core/settings.sh"
    loaded = f"set -u; . {settings}; . {path}; for f in /proc/self/fd/[3-9]; do :; done; ls -A"
    done = subprocess.run(["bash", "-c", loaded], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_shellcheck_warns_of_no_part():
    program = engine("shellcheck", "apt-get install -y shellcheck")
    done = subprocess.run(
        [program, "-S", "warning", *map(str, BASH)], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_shfmt_would_change_no_part():
    program = engine("shfmt", "apt-get install -y shfmt")
    command = [program, "-i", "2", "-ci", "-ln", "bash", "-d", *map(str, BASH)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("path", PYTHON, ids=name_of)
def test_python_3_8_could_read_each_program(path):
    import ast

    ast.parse(path.read_text(), feature_version=(3, 8))


def test_bats_passes():
    program = engine("bats", "apt-get install -y bats")
    folder = Path(__file__).parent / "parts"
    done = subprocess.run([program, str(folder)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


# One value for each condition on a job, and the values that leave it out.
CHOICES = {
    "copies": [{}, {"RGT_DURABLE": "/mnt/x"}, {"RGT_DURABLE": "rclone:a:b"}],
    "staging": [{}, {"RGT_STAGE": ["/a", "b"]}, {"RGT_STAGE": ["s3://a", "b"]}],
    "checkpoints": [{}, {"RGT_CHECKPOINT_DIR": "out", "RGT_CHECKPOINT_GLOB": "*"}, {"RGT_CHECKPOINT_DIR": "out", "RGT_PROBE": "on"}],
    "gpus": [{}, {"RGT_GPUS": 1}],
    "nodes": [{}, {"RGT_NODES": 2}],
    "launcher": [{}, *({"RGT_LAUNCHER": name} for name in ("torchrun", "accelerate", "deepspeed"))],
    "queue": [{}, {"RGT_CELLS": ["a"]}],
    "end": [{}, {"RGT_TARGET": "ssh"}, {"RGT_PROFILE": "slurm"}, {"RGT_AT_END": "stop"}, {"RGT_AT_END": "stop", "RGT_SELF_STOP": "x"}],
    "save": [{}, {"RGT_SAVE_SIGNAL": "USR1"}],
    "others": [{}, {"RGT_SETUP": ["x"]}, {"RGT_SECRET_VARS": ["A"]}, {"RGT_EXPECT": ["a"]}, {"RGT_NOTIFY": ["a"]},
               {"RGT_NOTICE": "aws"}, {"RGT_CODE_COMMIT": "a"}, {"RGT_REQUEUE": "yes"}, {"RGT_STALL_LOG_SECONDS": 1},
               {"RGT_STALL_STEP_SECONDS": 1}, {"RGT_COMMAND": ["bash", "-c", "x"]}, {"RGT_WORK_DIR": "."},
               {"RGT_SETUP": ["x"], "RGT_SECRET_VARS": ["A"], "RGT_EXPECT": ["a"], "RGT_NOTIFY": ["a"], "RGT_NOTICE": "aws",
                "RGT_CODE_COMMIT": "a", "RGT_REQUEUE": "yes", "RGT_STALL_LOG_SECONDS": 1, "RGT_STALL_STEP_SECONDS": 1, "RGT_WORK_DIR": "."}],
}  # fmt: skip


def code_of(name: str) -> str:
    """A part without its comments and without the text of the programs in it."""
    if name.endswith(".py"):
        return str(script_parts.part(name)).split("\n", 1)[0] + "\n"
    return re.sub(r"(^|\s)#.*", r"\1", script_parts.part(name), flags=re.M)


CODE = {name: code_of(name) for name in NAMES}
DEFINES = {name: set(DEFINED.findall(code)) for name, code in CODE.items()}
FUNCTIONS = set().union(*DEFINES.values())
# Sums hold variables by their bare names, and so do lists of names.
PLAIN = {
    name: re.sub(r"\(\(.*?\)\)|(?<==)\(rgt_[a-z_ ]+\)", "", code) for name, code in CODE.items()
}
# A name that some part defines as a function, wherever it stands; and any at the place of a command.
KNOWN = re.compile(r"(?<![\w$\"/{.-])rgt_\w+\b(?![\w=\[]|\+=|\()")
COMMAND = re.compile(r"(?:^|[;&|({!]|\bthen|\bdo|\belse)\s*(rgt_[a-z_]+)(?=$|[\s;)])(?! *\()", re.M)
CALLS = {
    name: set(KNOWN.findall(code)) & FUNCTIONS | set(COMMAND.findall(code))
    for name, code in PLAIN.items()
}


def choices():
    for chosen in itertools.product(*CHOICES.values()):
        yield {name: value for part in chosen for name, value in part.items()}


# As bits of a number each, for the many choices.
BIT = {function: 1 << at for at, function in enumerate(sorted(FUNCTIONS.union(*CALLS.values())))}
DEFINED_BITS = {name: sum(map(BIT.get, functions)) for name, functions in DEFINES.items()}
CALLED_BITS = {name: sum(map(BIT.get, functions)) for name, functions in CALLS.items()}


def functions_in(bits: int) -> list[str]:
    return [function for function, bit in BIT.items() if bits & bit]


def test_every_choice_of_parts_calls_only_what_it_defines_and_defines_it_once():
    # A queue's keeper and a cell change these while they run.
    changed = ("rgt_kill_program", "rgt_check_gpus", "rgt_attempt_tail")
    once = ~sum(map(BIT.get, changed))
    seen = set()
    for values in choices():
        names = tuple(script_parts.names(values))
        if names in seen:
            continue
        seen.add(names)
        defined = twice = called = 0
        for name in names:
            twice |= defined & DEFINED_BITS[name]
            defined |= DEFINED_BITS[name]
            called |= CALLED_BITS[name]
        assert not twice & once, (values, functions_in(twice & once))
        missing = called & ~defined
        callers = [name for name in names if missing and CALLED_BITS[name] & missing]
        assert not missing, (values, functions_in(missing), callers)
    assert len(seen) > 1000


def test_a_call_of_nothing_would_be_found():
    assert "rgt_find_ranks" in CALLS["program/launch.sh"] and "rgt_now" in CALLS["core/state.sh"]
    assert (
        "rgt_copy_to_cloud" in CALLS["copies/copy.sh"]
        and "rgt_copy_to_cloud" not in DEFINES["copies/copy.sh"]
    )


READ = re.compile(r"\$\{?#?(RGT_[A-Z_]+)(?!\w|[:=+?-])(?!\[@\]\+)|\(\([^)]*?\b(RGT_[A-Z_]+)")


def test_every_variable_of_every_choice_has_a_value_or_a_default():
    """Under `set -u` a variable that nobody set ends the runner."""
    default = re.compile(
        r'"\$\{(RGT_[A-Z_]+):?=|declare -p (RGT_[A-Z_]+)|for rgt_name in ((?:RGT_\w+[ ;]*)+)'
    )
    exported = {
        "RGT_RENDEZVOUS",
        "RGT_PASS",
        "RGT_METADATA",
        "RGT_ATTEMPT",
        "RGT_SAVE_FILE",
        "RGT_MESSAGE",
    }
    sets, reads = {}, {}
    for name, code in CODE.items():
        sets[name] = {
            word
            for found in default.findall(code)
            for group in found
            for word in group.replace(";", " ").split()
        }
        reads[name] = {one or two for one, two in READ.findall(code)}
    always = {"RGT_SETUP", "RGT_STAGE"}  # they choose the parts that read them
    for values in choices():
        names = script_parts.names(values)
        known = set(values).union(always, exported, *(sets[name] for name in names))
        unset = set().union(*(reads[name] for name in names)) - known
        assert not unset, (values, unset, [name for name in names if reads[name] & unset])


def test_an_assembled_script_is_the_parts_in_their_order_and_nothing_else():
    values = {"RGT_NAME": "a", "RGT_DURABLE": "/x", "RGT_GPUS": 1}
    text = shell_text.script(values)
    for part in script_parts.parts(values):
        assert text.count(part) == 1
        text = text.replace(part, "")
    assert re.fullmatch(
        r"#!/usr/bin/env bash\n(#.*\n)+\n(RGT_[A-Z]+=\S+\n)+\s+rgt_main \"\$@\"\n", text
    )


def test_what_a_reader_on_the_box_wants_to_know_stands_in_the_first_thirty_lines():
    head = "\n".join(shell_text.script({"RGT_NAME": "a", "RGT_GPUS": 1}).split("\n")[:14])
    for word in (
        "RGT_COMMAND",
        "/log",
        "state.json",
        "run.sh status",
        "run.sh stop",
        "--help",
        "RGT_DEADLINE",
    ):
        assert word in head
    parts = shell_text.script({"RGT_NAME": "a"})
    ends = re.search(r"^rgt_ends=\((.*)\)$", parts, re.M)[1].replace("'", "").split()
    assert len(ends) >= 4 and all(f" .{end}" in head for end in ends)


def folders(values: dict) -> set[str]:
    return {name.partition("/")[0] for name in script_parts.names(values)}


def test_a_job_gets_only_what_it_asks_for():
    usual = {"core", "keeper", "preflight", "program", "run", "verbs", "without"}
    assert folders({"RGT_NAME": "a", "RGT_COMMAND": ["x"]}) == usual
    for values, more in [
        ({"RGT_GPUS": 2}, {"gpus"}),
        ({"RGT_TARGET": "slurm"}, {"boxes"}),
        ({"RGT_PROFILE": "slurm"}, {"boxes"}),
        ({"RGT_WORK_DIR": "."}, {"boxes"}),
        ({"RGT_LAUNCHER": "torchrun"}, {"launchers"}),
        ({"RGT_NOTICE": "aws"}, {"notices"}),
        ({"RGT_NOTIFY": ["mail"]}, {"notices"}),
        ({"RGT_DURABLE": "/mnt/x"}, {"copies"}),
        ({"RGT_CELLS": ["a"]}, {"boxes", "queue"}),
        ({"RGT_CHECKPOINT_GLOB": "*.pt"}, {"checkpoints", "rehearsal"}),
    ]:
        assert folders(values) == usual | more, values


@pytest.mark.parametrize(
    ("values", "there", "gone"),
    [
        ({"RGT_DURABLE": "/mnt/x"}, "copies/rsync.sh", "copies/cloud.sh"),
        ({"RGT_DURABLE": "box:x"}, "copies/rsync.sh", "copies/cloud.sh"),
        ({"RGT_DURABLE": "rclone:a:b"}, "copies/cloud.sh", "copies/rsync.sh"),
        ({"RGT_STAGE": ["s3://a", "b"]}, "copies/cloud.sh", "copies/rsync.sh"),
        (
            {"RGT_STAGE": ["/a", "b"], "RGT_DURABLE": "gs://a"},
            "copies/cloud.sh",
            "without/cloud.sh",
        ),
        ({"RGT_LAUNCHER": "accelerate"}, "launchers/accelerate.sh", "launchers/torchrun.sh"),
        (
            {"RGT_LAUNCHER": "torchrun"},
            "without/flight_recorder.sh",
            "launchers/flight_recorder.sh",
        ),
        (
            {"RGT_LAUNCHER": "accelerate", "RGT_PROCS": 2},
            "launchers/flight_recorder.sh",
            "without/flight_recorder.sh",
        ),
        (
            {"RGT_LAUNCHER": "torchrun", "RGT_PROCS": 1, "RGT_NODES": 2},
            "launchers/flight_recorder.sh",
            "without/flight_recorder.sh",
        ),
        ({"RGT_TARGET": "ssh"}, "keeper/alarm.sh", "keeper/self_stop.sh"),
        ({"RGT_AT_END": "stop", "RGT_SELF_STOP": "x"}, "keeper/self_stop.sh", "without/alarm.sh"),
        (
            {"RGT_COMMAND": ["/bin/bash", "-c", "a | tee b"]},
            "program/shell_line.sh",
            "without/shell_line.sh",
        ),
        ({"RGT_COMMAND": ["python", "a.py"]}, "without/shell_line.sh", "core/quote.sh"),
        ({"RGT_WORK_DIR": "~/a"}, "without/start_folder.sh", "boxes/start_folder.sh"),
        ({"RGT_STALL_LOG_SECONDS": 1}, "without/stall_step.sh", "run/stall_step.sh"),
        ({"RGT_SAVE_SIGNAL": "USR1"}, "verbs/save.sh", "without/save.sh"),
        ({"RGT_SAVE_SIGNAL": "TERM"}, "without/save.sh", "verbs/save.sh"),
        (
            {"RGT_CHECKPOINT_DIR": "a", "RGT_PROBE": "on"},
            "rehearsal/probe.sh",
            "without/probe.sh",
        ),
        (
            {"RGT_CHECKPOINT_DIR": "a", "RGT_PROBE": "off"},
            "without/probe.sh",
            "rehearsal/probe.sh",
        ),
        ({"RGT_PROBE": "on"}, "without/rehearsal.sh", "rehearsal/probe.sh"),
    ],
)
def test_of_two_ways_a_job_gets_its_own(values, there, gone):
    assert there in script_parts.names(values) and gone not in script_parts.names(values)


def test_a_script_from_a_pipe_keeps_every_table_that_a_part_makes():
    text = script_parts.part("boxes/from_pipe.sh")
    kept = set(" ".join(re.findall(r"rgt_tables\+?=\((.*?)\)", text)).split())
    made = set()
    for name in NAMES:
        for line in re.findall(r"^(?:declare -gA )?(?=rgt_)(\S.*)$", CODE[name], re.M):
            if not DEFINED.match(line):
                made |= set(re.findall(r"(?:^| )(rgt_\w+)(?=\+?=|$|\[)", line))
    assert made - {"rgt_script", "rgt_reset"} == kept


def test_help_lists_the_verbs_that_the_script_has(tmp_path):
    def said(values: dict) -> str:
        path = tmp_path / "run.sh"
        path.write_text(shell_text.script({"RGT_RUN_DIR": str(tmp_path / "run"), **values}))
        return subprocess.run(
            ["bash", str(path), "--help"], capture_output=True, text=True, check=True
        ).stdout

    optional = ("rehearse", "save ", "sync ", "reconcile")
    assert not [verb for verb in optional if f"\n  {verb}" in said({})]
    everything = {
        "RGT_CHECKPOINT_GLOB": "*",
        "RGT_SAVE_SIGNAL": "USR1",
        "RGT_DURABLE": "/x",
        "RGT_CELLS": ["a"],
    }
    assert [verb for verb in optional if f"\n  {verb}" in said(everything)] == list(optional)

"""scripts/health_patrol.sh.template: one round trip, one line, and no alarm that isn't one."""

import json
import os
import re
import subprocess
import sys
import time

import pytest

from tests.conftest import ROOT
from tests.engines.sshd import boxes, sshd  # noqa: F401

SCRIPT = ROOT / "scripts/health_patrol.sh.template"
NAMES = {
    "time",
    "host",
    "state",
    "procs",
    "done",
    "total",
    "log_age",
    "disk",
    "inodes",
    "gpu",
    "marker",
    "crash",
    "last",
}


def patrol(*args, **env):
    kept = {
        name: value
        for name, value in os.environ.items()
        if name
        not in ("HOST", "RUN_DIR", "RUN_GLOB", "RUN_LOG", "RESULT_DIR", "N_TOTAL", "DATA_MOUNT")
    }
    kept.update(
        {
            "HOST": "local",
            "DISK_PCT_MAX": "101",
            **{name: str(value) for name, value in env.items()},
        }
    )
    done = subprocess.run(
        ["bash", str(SCRIPT), *args], capture_output=True, text=True, env=kept, timeout=90
    )
    return done.returncode, done.stdout, done.stderr


def seen(**env):
    """(exit, state, the whole object)"""
    code, out, _ = patrol("--json", **env)
    answer = json.loads(out)
    assert set(answer) == NAMES
    return code, answer["state"], answer


@pytest.fixture
def run(tmp_path):
    """A log and a folder of results; `start` runs a program whose command line has a name of its own."""

    class Run:
        glob = f"patrolled_{os.getpid()}_*.py"
        log, results = tmp_path / "run.log", tmp_path / "results"
        env = {"RUN_GLOB": glob, "RUN_LOG": log, "RESULT_DIR": results, "N_TOTAL": 2}
        children = []

        def start(self):
            program = tmp_path / f"patrolled_{os.getpid()}_train.py"
            program.write_text("import time; time.sleep(60)\n")
            self.children.append(subprocess.Popen([sys.executable, str(program)]))
            time.sleep(0.1)

        def wrote(self, text, age=0):
            self.log.write_text(text)
            os.utime(self.log, (time.time() - age,) * 2)

        def finish(self, *names):
            for name in names:
                (self.results / name).mkdir(parents=True, exist_ok=True)
                (self.results / name / "best_metrics.json").write_text("{}")

    one = Run()
    one.results.mkdir()
    one.wrote("step 1\nstep 2 loss 0.5\n")
    yield one
    for child in one.children:
        child.kill()
        child.wait()


TRACE = "Traceback (most recent call last):\n  File 'x.py'\nRuntimeError: boom\n"


def test_a_run_that_writes_its_log_is_alive(run):
    run.start()
    run.finish("a")
    code, state, answer = seen(**run.env)
    assert (code, state) == (0, "alive")
    assert (answer["procs"], answer["done"], answer["total"], answer["last"]) == (
        1,
        1,
        2,
        "step 2 loss 0.5",
    )
    assert answer["log_age"] < 30 and answer["crash"] is None


def test_one_line_is_printed_for_a_person(run):
    run.start()
    code, out, err = patrol(**run.env)
    assert (code, err, out.count("\n")) == (0, "", 1)
    line = r'\S+ local alive procs=1 done=0/2 marker=- log_age=\d+ disk=\d+% inodes=[\d-]+% gpu=\S+ crash="-" last="step 2 loss 0.5"\n'
    assert re.fullmatch(line, out)


def test_it_does_not_take_itself_or_an_onlooker_for_the_run(run, tmp_path):
    watcher = subprocess.Popen(
        ["tail", "-f", str(run.log), str(tmp_path / f"patrolled_{os.getpid()}_x.py")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    poller = subprocess.Popen(["bash", "-c", f"sleep 20; : patrolled_{os.getpid()}_x.py"])
    try:
        time.sleep(0.1)
        code, state, answer = seen(**run.env)
        assert (code, state, answer["procs"]) == (1, "vanished", 0)
    finally:
        for child in (watcher, poller):
            child.kill()
            child.wait()


def test_over_ssh_it_does_not_count_its_own_remote_shell(run, sshd):
    code, state, answer = seen(**{**run.env, "HOST": "gpu", "SSH_CONFIG": sshd.ssh_config})
    assert (code, state, answer["procs"], answer["host"]) == (1, "vanished", 0, "gpu")
    run.start()
    code, state, answer = seen(**{**run.env, "HOST": "gpu", "SSH_CONFIG": sshd.ssh_config})
    assert (code, state, answer["procs"]) == (0, "alive", 1)
    assert sshd.log().count("Accepted publickey") == 2


def test_a_box_that_does_not_answer_is_unreachable_and_nothing_more(run, sshd):
    sshd.cut()
    code, out, err = patrol(HOST="gpu", SSH_CONFIG=sshd.ssh_config, RUN_GLOB="x")
    assert code == 2
    assert " gpu unreachable procs=- done=-/- " in out
    assert "the run may be fine" in err


def test_an_old_log_of_a_running_program_is_a_stall(run):
    run.start()
    run.wrote("step 1\n", age=1900)
    assert seen(**run.env)[:2] == (1, "stalled")
    assert seen(**run.env, STALL_MINUTES=60)[:2] == (0, "alive")


def test_all_cells_there_is_finished_whatever_the_log_holds(run):
    run.finish("a", "b")
    run.wrote(TRACE, age=9000)
    assert seen(**run.env)[:2] == (0, "finished")
    (run.results / "b/best_metrics.json").write_text("")
    assert seen(**run.env)[:2] == (1, "crashed")


@pytest.mark.parametrize(
    "text",
    [
        TRACE,
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n",
        "OSError: [Errno 28] No space left on device\n",
        "run.sh: line 3: 4711 Killed                  python train.py\n",
        "Fatal Python error: Segmentation fault\n",
    ],
    ids=["traceback", "GPU memory", "disk", "killed", "segfault"],
)
def test_nothing_runs_and_the_log_tells_why_is_a_crash(run, text):
    run.wrote("step 1\n" + text)
    code, state, answer = seen(**run.env)
    assert (code, state) == (1, "crashed")
    assert answer["crash"] == text.splitlines()[0].strip()


@pytest.mark.parametrize(
    "text",
    [
        "val Error rate 0.12, Error bars in plot\n",
        "Error: 0 of 100 samples\nERROR_RATE=3\n",
        "KilledByTimeout=0 killed workers: 0\n",
        "mean_error 0.3 | Mean Squared Error 0.1\n",
        "loaded Traceback viewer plugin\n",
        "[WARNING] skipping broken image, error ignored\n",
    ],
    ids=["error rate", "no errors", "a counter", "a metric", "a name", "a warning"],
)
def test_the_word_error_in_a_log_is_no_crash(run, text):
    run.wrote(text)
    code, state, answer = seen(**run.env)
    assert (state, answer["crash"]) == ("vanished", None)
    run.start()
    assert seen(**run.env)[:2] == (0, "alive")


def test_a_traceback_of_a_cell_while_the_queue_goes_on_is_shown_but_no_crash(run):
    run.start()
    run.wrote(TRACE + "next cell\n")
    code, state, answer = seen(**run.env)
    assert (code, state) == (0, "alive")
    assert answer["crash"].startswith("Traceback")
    run.wrote(TRACE, age=300)  # what is left hangs behind it
    assert seen(**run.env)[:2] == (1, "crashed")


def test_a_full_disk_is_an_alarm_while_it_runs(run):
    run.start()
    assert seen(**run.env, DISK_PCT_MAX=0)[:2] == (1, "disk")


def test_a_disk_that_cannot_be_read_is_no_silent_success(run, tmp_path):
    run.start()
    code, out, err = patrol("--json", **run.env, DATA_MOUNT=tmp_path / "not mounted")
    answer = json.loads(out)
    assert (code, answer["state"], answer["disk"]) == (2, "alive", None)
    assert "how full the disk is on local can't be read" in err


def test_an_answer_that_was_cut_off_is_none(tmp_path):
    """As by an out-of-memory killer on the box, or a login that prints and exits with 0."""
    (tmp_path / "ssh").write_text("#!/bin/sh\nprintf 'patrol\\tprocs\\t2\\n'\n")
    (tmp_path / "ssh").chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    code, out, err = patrol("--json", HOST="gpu", RUN_GLOB="x", PATH=path)
    assert (code, json.loads(out)["state"]) == (2, "unreachable")
    assert "no answer from gpu" in err


def runner(tmp_path, **markers):
    folder = tmp_path / "run dir"
    (folder / "log").mkdir(parents=True, exist_ok=True)
    (folder / "log/train.log.0000").write_text("old\n")
    (folder / "log/train.log.0001").write_text("step 9\n")
    for name, text in markers.items():
        (folder / name.replace("dot_", ".").replace("_pid", ".pid")).write_text(text)
    return folder


def start_of(pid):
    return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[19]


def test_the_runners_pid_files_count_only_with_their_start_time(tmp_path):
    me = os.getpid()
    folder = runner(tmp_path, runner_pid=f"{me} {start_of(me)}\n")
    code, state, answer = seen(RUN_DIR=folder)
    assert (code, state, answer["procs"], answer["last"]) == (0, "alive", 1, "step 9")
    runner(tmp_path, runner_pid=f"{me} 1\n")
    assert seen(RUN_DIR=folder)[:2] == (1, "vanished")


@pytest.mark.parametrize(
    ("marker", "state", "code"),
    [
        ("done", "finished", 0),
        ("failed", "crashed", 1),
        ("preempted", "vanished", 1),
        ("unsaved", "unsaved", 1),
    ],
)
def test_the_runners_markers_decide(tmp_path, marker, state, code):
    folder = runner(tmp_path, **{f"dot_{marker}": "{}"})
    got = seen(RUN_DIR=folder)
    assert got[:2] == (code, state)
    assert got[2]["marker"] == marker


def test_text_of_the_log_is_cut_cleaned_and_without_secrets(run):
    run.start()
    secret = "hf_" + "a1B2" * 8
    run.wrote(
        f'step\x1b[31m 3 "quoted" \\ {secret} password=hunter2hunter https://me:pw12345@host/ '
        + "x" * 500
        + "\n"
    )
    code, out, _ = patrol("--json", **run.env)
    assert (
        "\x1b" not in out
        and "aB2" not in out
        and "hunter2" not in out
        and "pw12345" not in out
        and secret not in out
    )
    assert len(json.loads(out)["last"]) <= 161


def test_patterns_and_paths_are_data_there(run, tmp_path):
    for value in ("$(touch hit)", "`touch hit`", "'; touch hit; '", "a\nb", "-rf", "*"):
        seen(
            RUN_GLOB="no such thing " + value, RUN_LOG=tmp_path / value, RESULT_DIR=tmp_path / value
        )
    assert not list(tmp_path.glob("hit")) and not os.path.exists("hit")


@pytest.mark.parametrize(
    ("env", "text"),
    [
        ({"HOST": ""}, "HOST isn't set; name a host of the ssh configuration, or local"),
        ({"HOST": "-oProxyCommand=x"}, "isn't a host of the ssh configuration"),
        ({"HOST": "local"}, "no run is named; set RUN_DIR, RUN_GLOB or RUN_LOG"),
        ({"RUN_GLOB": "x", "STALL_MINUTES": "long"}, "must be whole numbers, not long"),
        ({"RUN_GLOB": "x", "N_TOTAL": "all"}, "must be whole numbers, not all"),
    ],
    ids=["no host", "an option as host", "no run", "a word as minutes", "a word as count"],
)
def test_usage_errors_exit_2(env, text):
    code, out, err = patrol(**env)
    assert (code, out) == (2, "")
    assert f"{text}; see --help" in err


def test_help_and_an_unknown_option():
    code, out, _ = patrol("--help")
    assert code == 0
    for text in ("usage:", "variables:", "exit:", "example:"):
        assert text in out
    assert patrol("--restart")[0] == 2

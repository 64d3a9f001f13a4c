"""The shell head of a run.sh: a Python for the runner, and the third hand without one."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from remote_gpu_trainer.runner import procs
from remote_gpu_trainer.runner.folder import Folder
from remote_gpu_trainer.runs import run_script

from tests.runner.jobs import files_of, merged

MAIN = """
import json, sys
from ..text.masking import mask
def main(path, job_text, words, job_folder=""):
    print(json.dumps([path, json.loads(job_text)["job"]["name"], words, sys.argv, mask("a")]))
    return 7
"""


def files(main: str = MAIN, **spec: object) -> dict[str, str]:
    """A run.sh and its run.d, whose runner is one small module."""
    given = {
        "name": "demo",
        "rendered": {"run_dir": "/proc/nonexistent"},
        "checkpoint": {"save_seconds": 1.0},
    }
    found = {}
    for name, text in files_of({"python": sys.executable}, given, spec).items():
        if name.endswith("runner/main.py"):
            found[name] = main
        elif name.endswith(
            (".sh", "entry.py", "__init__.py", "masking.py", "compiling.py", ".json")
        ):
            found[name] = text
    return found


def script(main: str = MAIN, **spec: object) -> str:
    """The same as one file."""
    return run_script.packed(files(main, **spec))


def put(folder: Path, parts: dict[str, str]) -> Path:
    """Write run.sh and run.d into a folder; return the script."""
    for name, text in parts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder / "run.sh"


def bash(*words: str, feed: str = "", **more: object) -> subprocess.CompletedProcess:
    return subprocess.run(
        ["bash", *words], input=feed, capture_output=True, text=True, timeout=60, **more
    )


def test_a_script_with_its_folder_and_a_packed_one_start_the_same_runner(tmp_path):
    packed = tmp_path / "packed.sh"
    packed.write_text(script())
    for file in (put(tmp_path, files()), packed):
        by_file = bash(str(file), "status", "a b")
        assert by_file.returncode == 7, by_file.stderr
        assert by_file.stdout == (
            f'["{file}", "demo", ["status", "a b"], ["{file}", "status", "a b"], "a"]\n'
        )
    by_pipe = bash("-s", "status", feed=script())
    assert by_pipe.returncode == 2 and "save it, and call bash FILE" in by_pipe.stderr


def test_a_script_cut_short_is_refused(tmp_path):
    (tmp_path / "run.sh").write_text(script()[:-40])
    done = bash(str(tmp_path / "run.sh"), "status")
    assert done.returncode == 1
    assert done.stderr == "this run.sh is cut short; send it again\n"


def test_a_script_without_its_folder_says_what_is_missing(tmp_path):
    (tmp_path / "run.sh").write_text(files()["run.sh"])
    done = bash(str(tmp_path / "run.sh"), "status")
    assert done.returncode == 1
    assert done.stderr == "no run.d beside this run.sh, nor in the run folder; send both again\n"


def test_nothing_in_the_folder_takes_the_place_of_the_standard_library(tmp_path):
    (tmp_path / "json.py").write_text("raise SystemExit('the user\\'s own json')")
    (tmp_path / "run.sh").write_text(script())
    assert bash("run.sh", "status", cwd=tmp_path).returncode == 7


def test_a_box_without_a_python_says_so_in_one_line(tmp_path):
    for tool in ("bash", "timeout", "cat"):
        (tmp_path / tool).symlink_to(shutil.which(tool))
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    text = script(python="python3")
    for path in ("/usr/bin/python3", "/usr/local/bin/python3", "/opt/conda/bin/python3"):
        text = text.replace(path, "/nonexistent")
    (tmp_path / "run.sh").write_text(text)
    done = bash(str(tmp_path / "run.sh"), "start", env={"PATH": str(tmp_path)})
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "no Python of 3.8 or newer" in done.stderr


@pytest.mark.parametrize(
    "hostile", ["a'b $(touch X) `touch X`", "é\n# run.d/end\n", "\x1b[0m\\", "-n"]
)
def test_no_value_becomes_shell_text(tmp_path, hostile):
    parts = files(name=hostile, rendered={"end": {"command": [hostile, hostile]}})
    put(tmp_path, parts)
    assert bash("run.sh", "status", cwd=tmp_path).returncode == 7
    (tmp_path / "packed.sh").write_text(run_script.packed(parts))
    assert bash("packed.sh", "status", cwd=tmp_path).returncode == 7
    head = parts["run.sh"].partition("\nrgt_script=${BASH")[0]
    values = next(text for name, text in parts.items() if name.endswith("values.sh"))
    print_all = 'printf "%s\\0" "$RGT_NAME" "${RGT_END[@]}"'
    shown = bash("-c", f"{head}\n{values}\n{print_all}", cwd=tmp_path).stdout
    assert shown == f"{hostile}\0" * 3
    assert not (tmp_path / "X").exists()


class Place:
    """A run folder whose run.sh notes its words, and fails as without a Python."""

    def __init__(self, path: Path, deadline: float, **spec: object):
        self.path = path
        (path / "log").mkdir()
        (path / "deadline").write_text(f"{time.time() + deadline:.0f}\n")
        (path / "run.sh").write_text(f'echo "$@" >>{path}/called; exit 1\n')
        timings = {"deadman": 0.1, "end_retry": 1, "end_wait": 0.2}
        places = {"rendered": {"run_dir": str(path)}, "timings": timings}
        parts = files(**merged(places, spec))
        self.hand = path.parent / f"{path.name}-hand"
        self.script = put(self.hand, parts)
        self.change("RGT_SAVE_SECONDS + 20", "RGT_SAVE_SECONDS")

        self.hands: list[subprocess.Popen] = []

    def change(self, old: str, new: str) -> None:
        """Change the third hand's own text."""
        (file,) = self.hand.rglob("deadman.sh")
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))

    def start(self) -> subprocess.Popen:
        self.hands.append(subprocess.Popen(["bash", str(self.script), "deadman"]))
        return self.hands[-1]

    def note(self, name: str, pid: int) -> None:
        folder = Folder(str(self.path))
        if name == "train":
            procs.note_program(folder, pid)
        else:
            procs.note_pid(folder, name, pid)

    def read(self, name: str) -> str:
        file = self.path / name
        return file.read_text() if file.exists() else ""


def within(seconds: float, test) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if test():
            return True
        time.sleep(0.05)
    return False


@pytest.fixture
def place(tmp_path):
    """A folder by its deadline, in seconds from now, and fields of a job. `start` starts a hand."""
    made: list[Place] = []

    def make(deadline: float = 3600, **spec: object) -> Place:
        made.append(Place(tmp_path, deadline, **spec))
        return made[-1]

    yield make
    for hand in (hand for each in made for hand in each.hands):
        hand.kill()
        hand.wait()


DEAD = "4194000 1\n"


def test_it_raises_a_run_whose_hands_are_dead(place):
    made = place()
    hand = made.start()
    assert within(5, lambda: made.read("called") == "supervisor\n")
    assert hand.poll() is None


def test_it_raises_nothing_while_one_of_them_lives(place):
    made = place()
    made.note("supervisor", os.getpid())
    (made.path / "lock").write_text(DEAD)
    made.start()
    time.sleep(0.8)
    assert made.read("called") == ""


def test_it_goes_when_the_run_is_over_and_the_supervisor_went_by_itself(place):
    made = place()
    made.note("supervisor", os.getpid())
    hand = made.start()
    time.sleep(0.5)
    assert hand.poll() is None
    (made.path / ".done").write_text("{}")
    (made.path / "supervisor.lock").write_text("\n")
    assert hand.wait(5) == 0
    assert made.read("called") == ""


def test_it_raises_a_supervisor_that_was_killed_before_the_box_was_ended(place):
    made = place()
    (made.path / ".done").write_text("{}")
    (made.path / "supervisor.lock").write_text(DEAD)
    made.start()
    assert within(5, lambda: made.read("called") == "supervisor\n")


def test_it_goes_when_a_supervisor_that_it_raised_finds_nothing_left(place):
    made = place()
    (made.path / ".done").write_text("{}")
    (made.path / "supervisor.lock").write_text(DEAD)
    (made.path / "run.sh").write_text(f"echo $1 >>{made.path}/called\n")
    assert made.start().wait(10) == 0
    assert made.read("called") == "supervisor\n"


def test_it_stays_when_a_supervisor_that_it_raised_was_killed(place):
    made = place()
    (made.path / ".done").write_text("{}")
    (made.path / "supervisor.lock").write_text(DEAD)
    (made.path / "run.sh").write_text(f"echo again >>{made.path}/called; kill -9 $$\n")
    hand = made.start()
    assert within(10, lambda: made.read("called").count("again") >= 2)
    assert hand.poll() is None


def test_a_stop_after_the_deadline_ends_its_tries(place, tmp_path):
    made = place(1, rendered={"end": {"command": ["touch", str(tmp_path / "ended")]}})
    hand = made.start()
    assert within(10, (tmp_path / "ended").exists)
    (tmp_path / "quiet").touch()
    assert hand.wait(10) == 0


def program(made: Place, name: str, code: str, **environ: str) -> subprocess.Popen:
    """Start a program that is ready for its signals."""
    started = subprocess.Popen(
        [sys.executable, "-c", f"{code}; open('{name}', 'w'); time.sleep(60)"],
        cwd=made.path, start_new_session=True, env={**os.environ, **environ},
    )  # fmt: skip
    assert within(10, (made.path / name).exists)
    return started


def test_after_the_deadline_the_program_saves_and_the_box_is_ended_again_and_again(place, tmp_path):
    (tmp_path / "key").write_text("abc\n")
    made = place(
        1,
        rendered={
            "end": {
                "command": ["sh", "-c", f"echo ended $RGT_BOX_ID $KEY >>{tmp_path}/ended"],
                "needs": f"KEY={tmp_path}/key",
            }
        },
        at_end={"box_id": "b1"},
    )
    saving = "import signal, sys, time; signal.signal(15, lambda *a: (open('saved', 'w'), exit()))"
    trainer = program(made, "ready", saving)
    made.note("train", trainer.pid)
    made.start()
    assert within(10, lambda: made.read("ended").count("ended b1 abc\n") >= 2), made.read("ended")
    assert trainer.wait(5) == 0
    assert (tmp_path / "saved").exists()
    assert '"class": "deadline"' in made.read(".preempted")


def test_what_does_not_save_is_killed_with_what_it_left_behind(place, tmp_path):
    made = place(1)
    deaf = "import signal, time; signal.signal(15, 1)"
    trainer = program(made, "one", deaf)
    worker = program(made, "two", deaf, RGT_RUN_DIR=str(tmp_path))
    made.note("train", trainer.pid)
    hand = made.start()
    assert trainer.wait(15) == worker.wait(15) == -signal.SIGKILL
    assert hand.wait(5) == 0  # no command: nothing more to do


def test_a_new_deadline_reaches_it(place, tmp_path):
    made = place(2, rendered={"end": {"command": ["touch", str(tmp_path / "ended")]}})
    made.note("supervisor", os.getpid())
    made.start()
    time.sleep(0.5)
    (tmp_path / "deadline").write_text(f"{time.time() + 3600:.0f}\n")
    time.sleep(0.5)
    (tmp_path / "supervisor.lock").write_text(DEAD)
    assert not within(4, (tmp_path / "ended").exists)


def test_it_goes_when_another_one_took_over(place):
    made = place()
    hand = made.start()
    assert within(5, lambda: made.read("deadman.pid").startswith(f"{hand.pid} "))
    made.note("deadman", os.getpid())
    assert hand.wait(5) == 0


def test_a_second_one_goes_at_once(place):
    made = place()
    first = made.start()
    assert within(5, lambda: made.read("deadman.pid").startswith(f"{first.pid} "))
    assert made.start().wait(5) == 0
    assert first.poll() is None


@pytest.mark.parametrize(
    "more, ends", [({}, False), ({"at_end": {"when": ["deadline", "unsaved"]}}, True)]
)
def test_a_box_with_unsaved_results_is_kept_unless_the_job_says_so(place, tmp_path, more, ends):
    made = place(1, rendered={"end": {"command": ["touch", str(tmp_path / "ended")]}}, **more)
    (tmp_path / ".unsaved").write_text("{}")
    (tmp_path / "supervisor.lock").write_text(DEAD)
    hand = made.start()
    assert within(4, (tmp_path / "ended").exists) == ends
    assert (hand.poll() is None) == ends


@pytest.mark.parametrize("file, ends", [("x", False), ("final-sync", True)])
def test_a_box_whose_last_copy_is_not_verified_is_kept_and_somebody_is_called(
    place, tmp_path, file, ends
):
    made = place(
        1,
        durable={"to": "/mnt/keep"},
        rendered={"end": {"command": ["touch", str(tmp_path / "ended")]}},
        notify=["sh", "-c", f'cat >>{tmp_path}/told; test -n "$RGT_MESSAGE"'],
    )
    (tmp_path / file).write_text("{}")
    (tmp_path / "supervisor.lock").write_text(DEAD)
    hand = made.start()
    assert within(4, (tmp_path / "ended").exists) == ends
    assert hand.poll() is None
    assert ("on this box only" in made.read("told")) is not ends


@pytest.mark.parametrize(
    "fields, ends",
    [
        ({"rendered": {"end": {"keeps_disk": True}}}, "ended"),
        ({"rendered": {"stop": {"command": "touch AT/stopped"}}}, "stopped"),
        ({}, ""),
        (
            {
                "rendered": {"end": {"keeps_disk": True}},
                "at_end": {"unproven_minutes": 60},
            },
            "",
        ),
    ],
)
def test_an_unproven_box_is_ended_after_its_limit_by_what_keeps_the_disk(
    place, tmp_path, fields, ends
):
    given = {
        "durable": {"to": "/mnt/keep"},
        "rendered": {"end": {"command": ["touch", str(tmp_path / "ended")]}},
        "at_end": {"unproven_minutes": 0},
    }
    text = json.dumps(merged(given, fields)).replace("AT", str(tmp_path))
    made = place(1, **json.loads(text))
    (tmp_path / "supervisor.lock").write_text(DEAD)
    hand = made.start()
    assert within(4, lambda: any((tmp_path / n).exists() for n in ("ended", "stopped"))) is (
        ends != ""
    )
    assert [n for n in ("ended", "stopped") if (tmp_path / n).exists()] == [ends] * bool(ends)
    assert (hand.poll() is None) is bool(fields), "who may end it later stays"


def test_a_box_that_was_stopped_by_hand_is_kept(place, tmp_path):
    made = place(1, rendered={"end": {"command": ["touch", str(tmp_path / "ended")]}})
    (tmp_path / "asked").write_text("asked\n")
    (tmp_path / ".preempted").write_text("{}")
    (tmp_path / "supervisor.lock").write_text(DEAD)
    assert made.start().wait(10) == 0
    assert not (tmp_path / "ended").exists()


def test_a_folder_that_hangs_keeps_it_from_nothing(place, tmp_path):
    ended = tmp_path / "elsewhere"
    made = place(3, rendered={"end": {"command": ["touch", str(ended)]}})
    made.note("supervisor", os.getpid())
    made.change("grace + 60", "grace + 1")
    made.change("-t 10 -u", "-t 1 -u")
    # From the second look on the folder is a pipe that nobody writes to.
    made.change('"$1/$name"', '"$1/hang/$name"')
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "hang").symlink_to(".")
    made.start()
    assert within(5, lambda: made.read("deadman.pid") != "")
    (tmp_path / "hang").unlink()
    (tmp_path / "hang").mkdir()
    os.mkfifo(tmp_path / "hang" / "deadline")
    assert within(20, ended.exists)

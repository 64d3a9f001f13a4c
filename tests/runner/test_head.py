"""The shell head of a run.sh: a Python for the runner, and the third hand without one."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
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
    """A run folder, and a shell behind its supervisor, which this test plays: `tell` what one says.

    Its run.sh notes its words, and fails as without a Python.
    """

    def __init__(self, path: Path, deadline: float, do: str, late: float, **spec: object):
        self.path, self.at = path, int(time.time() + deadline)
        self.do, self.end_at = do, self.at + int(late)
        (path / "run.sh").write_text(f'echo "$@" >>{path}/called; exit 1\n')
        timings = {"deadman": 0.1, "end_retry": 1, "end_wait": 0.2}
        places = {"rendered": {"run_dir": str(path)}, "timings": timings}
        parts = files(**merged(places, spec))
        self.hand = path.parent / f"{path.name}-hand"
        self.script = put(self.hand, parts)
        self.shell: subprocess.Popen | None = None

    def change(self, old: str, new: str) -> None:
        """Change the shell's own text."""
        (file,) = self.hand.rglob("deadman.sh")
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))

    def start(self, program: int = 0) -> subprocess.Popen:
        """Start the shell as a supervisor does. `program`: the pid of the run's."""
        words = ["deadman", str(self.path), "bash", str(self.path / "run.sh"), "supervisor"]
        self.shell = subprocess.Popen(["bash", str(self.script), *words], stdin=subprocess.PIPE)
        self.tell(self.plan(program))
        return self.shell

    def plan(self, program: int = 0) -> str:
        told = procs.stat(program)
        return f"{self.at} {program} {told.start if told else 0} {self.do} {self.end_at}"

    def tell(self, line: str) -> None:
        self.shell.stdin.write(f"{line}\n".encode())
        self.shell.stdin.flush()

    def die(self) -> None:
        """End as a supervisor that is killed."""
        self.shell.stdin.close()

    def answer(self, *lines: str) -> None:
        """Let whoever is raised from now on live, and say these lines."""
        said = "".join(f"echo '{line}'; " for line in lines)
        (self.path / "run.sh").write_text(f'echo "$@" >>{self.path}/called; {said}exec sleep 60\n')

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
    """A folder by its deadline, in seconds from now, what becomes of the box, how many seconds later, and fields of a job. `start` starts the shell."""
    made: list[Place] = []

    def make(deadline: float = 3600, do: str = "leave", late: float = 0, **spec: object) -> Place:
        made.append(Place(tmp_path, deadline, do, late, **spec))
        return made[-1]

    yield make
    for shell in (each.shell for each in made if each.shell):
        shell.kill()
        shell.wait()
        with suppress(OSError):
            shell.stdin.close()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"{tmp_path}/run.sh".encode() in (entry / "cmdline").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)


def ends(tmp_path: Path, name: str = "end", **more: object) -> dict:
    """A job whose end or stop command notes each call."""
    return {
        "rendered": {name: {"command": ["sh", "-c", f"echo {name} >>{tmp_path}/{name}"], **more}}
    }


def test_it_raises_a_supervisor_that_is_gone_again_and_again(place):
    made = place()
    shell = made.start()
    time.sleep(0.5)
    assert made.read("called") == "", "while one lives nobody is raised"
    made.die()
    assert within(15, lambda: made.read("called").count("supervisor\n") >= 2)
    assert shell.poll() is None


def test_it_goes_when_the_supervisor_goes_by_itself(place):
    made = place()
    shell = made.start()
    made.tell("over")
    assert shell.wait(5) == 0
    assert made.read("called") == ""


def test_it_goes_when_a_supervisor_that_it_raised_finds_nothing_left(place):
    made = place()
    made.answer("over")
    shell = made.start()
    made.die()
    assert shell.wait(10) == 0
    assert made.read("called") == "supervisor\n"


def test_it_hears_whom_it_raised_and_raises_the_next_one_too(place):
    made = place()
    made.answer(made.plan())
    shell = made.start()
    made.die()
    assert within(10, lambda: made.read("called") == "supervisor\n")
    (raised,) = [
        int(entry.name)
        for entry in Path("/proc").glob("[0-9]*")
        if (told := procs.stat(int(entry.name))) and told.parent == shell.pid
    ]
    os.kill(raised, signal.SIGKILL)
    assert within(10, lambda: made.read("called") == "supervisor\n" * 2)
    assert shell.poll() is None


def test_after_the_deadline_somebody_who_answers_takes_over_and_nothing_is_ended(place, tmp_path):
    """Somebody repaired the Python, started the run again, or called the end of the box off."""
    made = place(4, "run", **ends(tmp_path))
    made.start()
    made.die()
    assert within(20, lambda: made.read("end").count("end\n") >= 1)
    made.answer("over")
    assert made.shell.wait(20) == 0


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
    command = ["sh", "-c", f"echo ended $RGT_BOX_ID $KEY >>{tmp_path}/ended"]
    end = {"command": command, "needs": f"KEY={tmp_path}/key"}
    made = place(2, "run", rendered={"end": end}, at_end={"box_id": "b1"})
    saving = "import signal, sys, time; signal.signal(15, lambda *a: (open('saved', 'w'), exit()))"
    trainer = program(made, "ready", saving)
    made.start(trainer.pid)
    made.die()
    assert within(20, lambda: made.read("ended").count("ended b1 abc\n") >= 2), made.read("ended")
    assert trainer.wait(5) == 0
    assert (tmp_path / "saved").exists()
    assert '"class": "deadline"' in made.read(".preempted")


def test_what_does_not_save_is_killed_with_what_it_left_behind(place, tmp_path):
    made = place(2)
    deaf = "import signal, time; signal.signal(15, 1)"
    trainer = program(made, "one", deaf)
    worker = program(made, "two", deaf, RGT_RUN_DIR=str(tmp_path))
    (tmp_path / ".done").write_text("{}")
    shell = made.start(trainer.pid)
    made.die()
    assert trainer.wait(15) == worker.wait(15) == -signal.SIGKILL
    assert shell.wait(5) == 0  # nothing more to do
    assert not (tmp_path / ".preempted").exists(), "it had come to its end"


def test_another_process_with_the_pid_of_the_program_is_left_alone(place):
    made = place(1)
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as other:
        shell = made.start()
        made.tell(made.plan(other.pid).replace(f" {procs.stat(other.pid).start} ", " 1 "))
        made.die()
        assert shell.wait(15) == 0
        assert other.poll() is None
        other.kill()


def test_a_new_deadline_reaches_it(place, tmp_path):
    made = place(2, "run", **ends(tmp_path))
    made.start()
    made.at += 3600
    made.tell(made.plan())
    made.die()
    assert not within(5, (tmp_path / "end").exists)


@pytest.mark.parametrize("do", ["run", "stop", "stay"])
def test_the_box_is_ended_by_what_the_supervisor_named_and_somebody_is_told(place, tmp_path, do):
    told = {"notify": ["sh", "-c", f'cat >>{tmp_path}/told; test -n "$RGT_MESSAGE"']}
    made = place(1, do, **merged(ends(tmp_path), ends(tmp_path, "stop"), told))
    shell = made.start()
    made.die()
    name = {"run": "end", "stop": "stop", "stay": "told"}[do]
    assert within(15, (tmp_path / name).exists)
    assert within(5, lambda: "no Python answers there" in made.read("told"))
    assert ("stays on and billed" in made.read("told")) is (do == "stay")
    assert shell.poll() is None
    other = {"end", "stop"} - {name}
    assert not any((tmp_path / each).exists() for each in other)


def test_an_end_that_is_for_later_waits_for_it(place, tmp_path):
    made = place(1, "stop", late=60, **ends(tmp_path, "stop"))
    shell = made.start()
    made.die()
    assert not within(6, (tmp_path / "stop").exists)
    assert shell.poll() is None


def test_a_supervisor_that_hangs_keeps_it_from_nothing(place, tmp_path):
    """As one does whose folder is on a dead mount. Whoever is raised then hangs too."""
    made = place(1, "run", **ends(tmp_path))
    made.change("heard + 60", "heard + 1")
    made.change("rgt_at + 60", "rgt_at + 1")
    made.start()
    assert within(20, (tmp_path / "end").exists)


def test_one_that_hangs_when_it_is_raised_keeps_it_from_nothing(place, tmp_path):
    made = place(2, "run", **ends(tmp_path))
    made.change("heard + 60", "heard + 1")
    made.change("rgt_at + 60", "rgt_at + 1")
    made.answer()
    made.start()
    made.die()
    assert within(20, (tmp_path / "end").exists)


@pytest.mark.parametrize("node", ["0", "1"])
def test_a_step_of_slurm_passes_a_signal_to_the_supervisor_of_its_node(tmp_path, node):
    script = put(tmp_path, files(rendered={"run_dir": str(tmp_path / "run"), "target": "slurm"}))
    folder = Folder(str(tmp_path / "run" / ("" if node == "0" else f"node-{node}")))
    folder.make()
    step = {"SLURM_JOB_ID": "7", "SLURM_NODEID": node, "RGT_RENDEZVOUS": "here", "RGT_PASS": "USR1"}
    with subprocess.Popen(["sleep", "60"]) as supervisor:
        procs.note_pid(folder, "supervisor", supervisor.pid)
        done = bash(str(script), env={**os.environ, **step})
        assert done.returncode == 0, done.stderr
        try:
            assert supervisor.wait(5) == -signal.SIGUSR1
        finally:
            supervisor.kill()

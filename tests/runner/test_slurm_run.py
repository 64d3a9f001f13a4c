"""The real runner under a real Slurm: the weights are byte-identical to an undisturbed run's after a save before the limit, a requeue and a preemption."""

import json
import os
import signal
import subprocess
import sys

import pytest
from remote_gpu_trainer.runner import procs
from remote_gpu_trainer.runner.folder import Folder
from remote_gpu_trainer.runs.job_reading import from_object
from remote_gpu_trainer.runs.targets import slurm as target

from tests.conftest import ROOT
from tests.runner.jobs import text_of

pytest_plugins = ["tests.engines.slurm"]

PROGRAM = ROOT / "tests/runner/runner_program.py"


class Run:
    """A batch script of the real runner around the small trainer, and what it left.

    `gpus`: those that Slurm gives, of which the runner knows nothing. `more`: fields of the job.
    """

    def __init__(self, folder, sleep=0.15, gpus=1, **more):
        self.folder, self.run = folder, folder / "run"
        self.script = folder / "batch.sh"
        usual = {
            "rendered": {"target": "slurm", "profile": "slurm", "run_dir": str(self.run), "work_dir": str(folder)}, "name": "tiny",
            "command": [sys.executable, str(PROGRAM), "--every", "4", "--sleep", str(sleep)],
            "checkpoint": {"folder": str(folder / "checkpoints"), "pattern": "step-*.pt", "save_seconds": 10}, "deadline": "hours:2", "python": sys.executable, "step_pattern": "step [0-9]+",
            "results": ["final.bin"], "timings": {"heartbeat": 1, "retry_wait": 0, "raise_after": 2, "deadman": 1},
        }  # fmt: skip
        asked = {name: more[name] for name in ("nodes", "launcher", "queue") if name in more}
        slurm = {"signal_seconds": 60, **more.get("slurm", {})}
        job = from_object(
            {
                "name": "tiny",
                "command": ["x"],
                "deadline": "2h",
                "gpus": gpus,
                "slurm": slurm,
                **asked,
            }
        )
        self.script.write_text(text_of(usual, more, sbatch=target.head(job)))

    def lines(self, name):
        path = self.run / name
        return path.read_text().splitlines() if path.exists() else []

    def runner(self):
        return procs.noted(Folder(str(self.run)), "runner")[0]

    def log(self):
        """(attempt, step, newest checkpoint's step) of each step. torchrun makes either node the one of rank 0."""
        found = [
            tuple(map(int, line.split()))
            for name in ("steps.log", "node-1/steps.log")
            for line in self.lines(name)
            if line.count(" ") == 2
        ]
        return sorted(found)

    def steps(self):
        return [step for _, step, _ in self.log()]

    def at_step(self, slurm, step):
        slurm.wait(
            lambda: len(self.steps()) >= step,
            f"no step {step}",
            log=lambda: "\n".join(
                text.read_text(errors="replace") for text in sorted(self.run.rglob("*.log*"))
            ),
        )

    def repeated(self):
        """Steps that the newest checkpoint held already."""
        return [row for row in self.log() if row[1] <= row[2]]

    def events(self):
        return [json.loads(line)["event"] for line in self.lines("events.jsonl")]

    def finished(self, slurm, job, weights, restarts):
        facts = slurm.until(job, "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", seconds=120)
        log = "\n".join(self.lines("log/runner.log"))
        assert (facts["JobState"], facts["ExitCode"], facts["Restarts"]) == (
            "COMPLETED",
            "0:0",
            str(restarts),
        ), log
        assert (self.folder / "final.bin").read_bytes() == weights
        assert [
            name for name in (".done", ".failed", ".preempted") if (self.run / name).exists()
        ] == [".done"]
        assert self.repeated() == []
        # The supervisor of the deadline, too, goes with the job.
        slurm.wait(
            lambda: (
                subprocess.run(
                    ["pgrep", "-f", str(self.folder)], capture_output=True, check=False
                ).stdout
                == b""
            ),
            "a process of the run is left",
        )


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """The weights of a run that nothing disturbs, by number of ranks."""
    known = {}

    def run(ranks):
        if ranks not in known:
            folder = tmp_path_factory.mktemp("undisturbed")
            launcher = (
                ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
                if ranks > 1
                else []
            )
            env = {
                **os.environ,
                "RGT_RUN_DIR": str(folder),
                "RGT_CHECKPOINT_DIR": str(folder),
                "OMP_NUM_THREADS": "1",
            }
            subprocess.run(
                [sys.executable, *launcher, str(PROGRAM), "--every", "4", "--sleep", "0"],
                check=True,
                cwd=folder,
                env=env,
                timeout=120,
                capture_output=True,
            )
            known[ranks] = (folder / "final.bin").read_bytes()
        return known[ranks]

    return run


def test_a_save_before_the_time_limit_and_the_requeue_by_the_runner(slurm, tmp_path, weights):
    run = Run(tmp_path)
    job = slurm.sbatch(run.script)
    run.at_step(slurm, 10)
    slurm.client("scancel", "--batch", "--signal=USR1", job)
    slurm.restart_now(job)
    assert json.loads((run.run / ".preempted").read_text())["class"] == "preempted"
    run.finished(slurm, job, weights(1), 1)
    assert run.steps() == list(range(1, 41)), "a step was done twice"
    assert "requeue" in run.events()


def test_a_requeue_by_hand(slurm, tmp_path, weights):
    run = Run(tmp_path)
    job = slurm.sbatch(run.script)
    run.at_step(slurm, 10)
    slurm.client("scontrol", "requeue", job)
    slurm.restart_now(job)
    run.finished(slurm, job, weights(1), 1)
    assert sorted(set(run.steps())) == list(range(1, 41))
    assert len(run.steps()) <= 44, "more was done again than what no checkpoint held"


def test_a_preemption_by_a_higher_partition(slurm, tmp_path, weights):
    run = Run(
        tmp_path,
        gpus=2,
        sleep=0.6,
    )
    job = slurm.sbatch(run.script)
    run.at_step(slurm, 1)
    urgent = tmp_path / "urgent.sh"
    urgent.write_text("#!/bin/bash\nexit 0\n")
    slurm.until(slurm.sbatch(urgent, "--partition=high", "--gres=gpu:2"), "COMPLETED")
    assert json.loads((run.run / ".preempted").read_text())["class"] == "preempted"
    assert len(run.steps()) < 40
    slurm.restart_now(job)
    run.finished(slurm, job, weights(1), 1)
    assert run.steps() == list(range(1, 41)), "a step was done twice"


@pytest.mark.alone
def test_two_nodes_under_torchrun_save_are_requeued_and_go_on(slurm, tmp_path, weights):
    pytest.importorskip("torch")
    run = Run(
        tmp_path,
        gpus=0,
        nodes=2,
        slurm={"partition": "pair"},
        launcher="torchrun",
        processes=1,
        rendezvous=f":{slurm.free_port()}",
        variables={"OMP_NUM_THREADS": "1"},
    )
    job = slurm.sbatch(run.script)
    run.at_step(slurm, 10)
    slurm.client("scancel", "--batch", "--signal=USR1", job)
    slurm.restart_now(job, seconds=180)
    for folder in (run.run, run.run / "node-1"):
        assert json.loads((folder / ".preempted").read_text())["class"] == "preempted"
    run.finished(slurm, job, weights(2), 1)
    assert run.steps() == list(range(1, 41)), "a step was done twice"
    assert (run.run / "node-1/.done").exists()


# Leaves the variables of its task, and then trains.
TASK = """\
import json, os, sys
names = ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "SLURM_NODEID", "SLURM_NTASKS_PER_NODE", "SLURM_JOB_ID")
told = {name: os.environ.get(name) for name in names}
print("task", told["SLURM_PROCID"], flush=True)
with open(f"{sys.argv[1]}/task-{told['SLURM_PROCID']}.json", "w") as file:
    json.dump(told, file)
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""


@pytest.mark.alone
def test_two_nodes_of_two_tasks_each_know_their_number_save_and_go_on(slurm, tmp_path, weights):
    pytest.importorskip("torch")
    (tmp_path / "task.py").write_text(TASK)
    run = Run(
        tmp_path,
        gpus=0,
        nodes=2,
        slurm={"partition": "pair"},
        launcher="slurm-tasks",
        processes=2,
        command=["task.py", str(tmp_path), str(PROGRAM), "--every", "4", "--sleep", "0.15"],
        rendezvous=f":{slurm.free_port()}",
        variables={"OMP_NUM_THREADS": "1"},
    )
    job = slurm.sbatch(run.script)
    run.at_step(slurm, 10)
    told = [json.loads((tmp_path / f"task-{rank}.json").read_text()) for rank in range(4)]
    assert told == [
        {
            "SLURM_PROCID": str(rank),
            "SLURM_LOCALID": str(rank % 2),
            "SLURM_NTASKS": "4",
            "SLURM_NODEID": str(rank // 2),
            "SLURM_NTASKS_PER_NODE": "2",
            "SLURM_JOB_ID": job,
        }
        for rank in range(4)
    ]
    slurm.client("scancel", "--batch", "--signal=USR1", job)
    slurm.restart_now(job, seconds=180)
    for folder in (run.run, run.run / "node-1"):
        assert json.loads((folder / ".preempted").read_text())["class"] == "preempted"
    run.finished(slurm, job, weights(4), 1)
    assert run.steps() == list(range(1, 41)), "a step was done twice"


def test_a_task_that_fails_fails_the_job(slurm, tmp_path):
    pytest.importorskip("torch")
    run = Run(
        tmp_path,
        launcher="slurm-tasks",
        processes=2,
        command=[
            "bash",
            "-c",
            "echo Traceback '(most recent call last)'; exit $((SLURM_PROCID * 7))",
        ],
        retries={"bug": 0, "unknown": 0},
    )
    facts = slurm.until(slurm.sbatch(run.script), "COMPLETED", "FAILED", seconds=120)
    assert (facts["JobState"], facts["ExitCode"]) == ("FAILED", "1:0"), "as under torchrun"
    assert json.loads((run.run / ".failed").read_text())["class"] == "bug"


# In the place of srun with pyxis, which isn't here: the real srun without pyxis's options.
SRUN = """\
#!/bin/bash
[[ $1 != --help ]] || { echo --container-image; exit; }
printf '%s\\n' "$@" >>"${BASH_SOURCE[0]}.words"
words=()
for word; do [[ $word == --container-* ]] || words+=("$word"); done
exec /usr/bin/srun "${words[@]}"
"""


def test_a_container_of_pyxis_is_a_step_that_saves_and_goes_on(slurm, tmp_path, weights):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/srun").write_text(SRUN)
    (tmp_path / "bin/srun").chmod(0o755)
    run = Run(
        tmp_path,
        sleep=0.3,
        container={"engine": "pyxis", "image": "a/b:1", "mounts": [], "options": []},
        variables={"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"},
    )
    job = slurm.sbatch(run.script)
    run.at_step(slurm, 6)
    words = (tmp_path / "bin/srun.words").read_text().splitlines()
    assert "--nodelist=gpu" in words and "--container-image=a/b:1" in words
    slurm.client("scancel", "--batch", "--signal=USR1", job)
    slurm.restart_now(job)
    run.finished(slurm, job, weights(1), 1)
    assert run.steps() == list(range(1, 41)), "a step was done twice"


def test_an_array_runs_each_cell_once_also_those_that_are_requeued(slurm, tmp_path):
    cells = [
        {"name": f"c{number}", "arguments": ["--final", f"{tmp_path}/c{number}.bin"]}
        for number in range(4)
    ]
    run = Run(
        tmp_path,
        sleep=0.4,
        queue={"cells": cells},
        slurm={"at_a_time": 2},
        results=[str(tmp_path / "{cell}.bin")],
    )
    job = slurm.sbatch(run.script)
    slurm.wait(
        lambda: len(run.lines("cells/c1/steps.log")) >= 10, "no tenth step of the second cell"
    )
    # While tasks of the array wait, scancel of 22.05 believes the others in transition: it signals them, and again every five seconds.
    slurm.client(
        "timeout",
        "3",
        "scancel",
        "--batch",
        "--signal=USR1",
        "--state=RUNNING",
        "--name=tiny",
        check=False,
    )
    for task in (0, 1):
        slurm.restart_now(f"{job}_{task}")
    slurm.until(job, "COMPLETED", "FAILED", seconds=120)
    assert (
        sorted((fact["JobState"], fact["Restarts"]) for fact in slurm.facts(job))
        == [("COMPLETED", "0")] * 2 + [("COMPLETED", "1")] * 2
    )
    for number in range(4):
        assert [int(line.split()[1]) for line in run.lines(f"cells/c{number}/steps.log")] == list(
            range(1, 41)
        )
        assert (tmp_path / f"c{number}.bin").exists()


def test_the_code_of_a_failed_program_is_the_code_of_the_job(slurm, tmp_path):
    run = Run(
        tmp_path,
        command=[
            sys.executable,
            str(PROGRAM),
            "--fail-at",
            "3",
            "--fail-code",
            "7",
            "--say",
            "Traceback (most recent call last)",
        ],
    )
    facts = slurm.until(slurm.sbatch(run.script), "COMPLETED", "FAILED")
    assert (facts["JobState"], facts["ExitCode"]) == ("FAILED", "7:0")
    assert json.loads((run.run / ".failed").read_text())["class"] == "bug"


def test_a_runner_that_is_killed_ends_no_job(slurm, tmp_path, weights):
    run = Run(tmp_path, sleep=0.3)
    job = slurm.sbatch(run.script)
    run.at_step(slurm, 6)
    os.kill(run.runner(), signal.SIGKILL)
    run.finished(slurm, job, weights(1), 0)
    assert run.steps() == list(range(1, 41)), "the program went on meanwhile"
    assert "raised" in run.events()


def test_a_signal_of_slurm_reaches_a_runner_that_was_raised(slurm, tmp_path, weights):
    run = Run(tmp_path, sleep=0.5)
    job = slurm.sbatch(run.script)
    run.at_step(slurm, 4)
    os.kill(first := run.runner(), signal.SIGKILL)
    slurm.wait(lambda: run.runner() not in (0, first), "nobody raised the runner")
    run.at_step(slurm, len(run.steps()) + 2)
    slurm.client("scancel", "--batch", "--signal=USR1", job)
    slurm.restart_now(job)
    run.finished(slurm, job, weights(1), 1)
    assert run.steps() == list(range(1, 41)), "a step was done twice"


def test_the_printed_start_line_pasted_into_a_shell_runs_in_the_folder_of_the_run(slurm):
    from remote_gpu_trainer.runs.rendering import rendered

    place = slurm.home / "pasted"
    place.mkdir()
    job = {
        "name": "pasted",
        "command": ["bash", "-c", "echo step 1; echo whole > final.txt"],
        "deadline": "20m",
        "gpus": 0,
        "results": ["final.txt"],
    }
    made = rendered(job, "slurm", None, str(place), outside=True)
    done = slurm.client("bash", "-c", f"cd {place} && {made['start']}")
    number = done.stdout.strip().rpartition(" ")[2]
    facts = slurm.until(number, "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", seconds=90)
    assert (facts["JobState"], facts["ExitCode"], facts["WorkDir"]) == (
        "COMPLETED",
        "0:0",
        str(slurm.home / "runs/pasted"),
    )
    assert (slurm.home / "runs/pasted/.done").exists()

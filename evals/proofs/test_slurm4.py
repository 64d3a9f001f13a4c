"""SLURM4: the check reads the count of the whole job, from the batch shell as from a step beside the one that was killed."""

import pytest

JOB = "system.slice/slurmstepd.scope/job_4711"


@pytest.mark.parametrize(
    "shell", ["step_batch/user/task_0", "step_0/user/task_1", "step_1/user/task_0"]
)
@pytest.mark.parametrize("killed", [0, 1])
def test_the_count_of_the_job_is_shown_whichever_step_asks(provider, shell_of, shell, killed):
    top = provider.place / "cgroup"
    for folder, count in ((JOB, killed), (f"{JOB}/{shell}", 0)):
        (top / folder).mkdir(parents=True, exist_ok=True)
        (top / folder / "memory.events").write_text(f"max 9\noom 0\noom_kill {count}\n")
    own = provider.place / "self"
    own.write_text(f"0::/{JOB}/{shell}\n")
    line = shell_of("SLURM4", "memory.events").replace("/sys/fs/cgroup", str(top))
    shown = provider.run(line.replace("/proc/self/cgroup", str(own)))
    assert shown.splitlines()[-1] == f"oom_kill {killed}"


def test_the_lines_of_both_generations_name_the_entry(says):
    for line in (
        "slurmstepd: error: Detected 1 oom_kill event in StepId=4711.0. Some of the step tasks have been OOM Killed.",
        "slurmstepd: error: Detected 1 oom-kill event(s) in step 7.batch cgroup.",
        "srun: error: n1: task 0: Out Of Memory",
    ):
        says("SLURM4", line)

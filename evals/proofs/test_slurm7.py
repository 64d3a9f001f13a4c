"""SLURM7: under a real Slurm a job waits with each reason, and starts as soon as what the reason names is changed."""

import shlex

import pytest

pytest_plugins = ["tests.engines.slurm"]


@pytest.fixture
def job(slurm):
    """job("--hold"): the number of a submitted job that would run for half a minute."""
    script = slurm.home / "wait.sh"
    script.write_text("#!/bin/bash\nsleep 30\n")
    return lambda *options: slurm.sbatch(script, *options)


@pytest.fixture
def because(slurm, says):
    """because(number, "Resources"): waits until squeue names this reason."""

    def check(number, reason):
        def found():
            state, text = (
                slurm.client("squeue", "-h", "-j", number, "-o", "%T|%r").stdout.strip().split("|")
            )
            return state == "PENDING" and reason in text

        slurm.wait(found, f"not {reason}", seconds=20)
        if reason not in ("Resources", "Priority", "BeginTime"):
            says("SLURM7", slurm.client("squeue", "-h", "-j", number, "-o", "%R").stdout)
            says("SLURM7", slurm.client("scontrol", "show", "job", number).stdout)

    return check


@pytest.fixture
def brief(slurm):
    slurm.client(
        "scontrol",
        "create",
        "PartitionName=brief",
        "Nodes=gpu",
        "MaxTime=10",
        "MaxNodes=1",
        "State=UP",
    )
    yield
    slurm.cancel_all()
    slurm.client("scontrol", "delete", "PartitionName=brief")


def test_a_time_limit_above_the_partitions_waits_until_it_is_lowered(
    slurm, job, because, brief, shell_of
):
    assert (
        "to start at"
        in slurm.client(
            "sbatch", "--test-only", "--partition=brief", "--time=60", str(slurm.home / "wait.sh")
        ).stderr
    )
    number = job("--partition=brief", "--time=60")
    because(number, "PartitionTimeLimit")
    check = shlex.split(shell_of("SLURM7", "squeue -j ID").replace("ID", number))
    assert slurm.client(*check).stdout.splitlines()[1].split()[:2] == [
        "PENDING",
        "PartitionTimeLimit",
    ]
    assert "N/A" in slurm.client("squeue", "--start", "-h", "-j", number).stdout
    slurm.client("scontrol", "update", f"jobid={number}", "TimeLimit=5")
    slurm.until(number, "RUNNING", seconds=20)
    assert slurm.client(*check).stdout.splitlines()[1].split()[:2] == ["RUNNING", "None"]


def test_more_nodes_or_processors_than_the_partition_allows_waits_for_ever(
    slurm, job, because, brief
):
    nodes, processors = job("--partition=brief", "--time=5", "--nodes=2"), job("--cpus-per-task=99")
    because(nodes, "PartitionNodeLimit")
    because(processors, "PartitionConfig")
    for number in (nodes, processors):
        assert "N/A" in slurm.client("squeue", "--start", "-h", "-j", number).stdout
    slurm.client("scontrol", "update", f"jobid={nodes}", "NumNodes=1-1")
    slurm.until(nodes, "RUNNING", seconds=20)


def test_a_dependency_on_a_failed_job_is_never_satisfied_and_can_be_taken_away(slurm, job, because):
    failing = slurm.home / "fail.sh"
    failing.write_text("#!/bin/bash\nexit 1\n")
    first = slurm.sbatch(failing)
    slurm.until(first, "FAILED", seconds=20)
    number = job(f"--dependency=afterok:{first}")
    because(number, "DependencyNeverSatisfied")
    slurm.client("scontrol", "update", f"jobid={number}", "Dependency=")
    slurm.until(number, "RUNNING", seconds=20)
    slurm.until(job(f"--dependency=afterany:{first}"), "RUNNING", seconds=20)
    slurm.until(
        job(f"--dependency=afterok:{first}", "--kill-on-invalid-dep=yes"), "CANCELLED", seconds=20
    )


def test_a_held_job_waits_for_its_release_and_one_with_a_begin_for_its_time(slurm, job, because):
    held, later = job("--hold"), job("--begin=now+1hour")
    because(held, "JobHeldUser")
    because(later, "BeginTime")
    slurm.client("scontrol", "release", held)
    slurm.client("scontrol", "update", f"jobid={later}", "StartTime=now")
    for number in (held, later):
        slurm.until(number, "RUNNING", seconds=20)


def test_a_job_that_would_reach_into_maintenance_starts_when_it_is_made_shorter(
    slurm, job, because
):
    slurm.client(
        "scontrol",
        "create",
        "reservation",
        "reservationname=m",
        "starttime=now+60minutes",
        "duration=60",
        "flags=maint",
        "nodes=gpu",
        "users=root",
    )
    try:
        number = job("--time=120")
        because(number, "ReqNodeNotAvail, Reserved for maintenance")
        slurm.client("scontrol", "update", f"jobid={number}", "TimeLimit=30")
        slurm.until(number, "RUNNING", seconds=20)
    finally:
        slurm.cancel_all()
        slurm.client("scontrol", "delete", "reservation=m")


def test_a_drained_node_asked_for_by_name_holds_the_job_that_any_other_node_would_run(
    slurm, job, because
):
    slurm.client("scontrol", "update", "nodename=z", "state=drain", "reason=test")
    try:
        number = job("--partition=pair", "--nodelist=z")
        because(number, "ReqNodeNotAvail, UnavailableNodes:z")
        slurm.until(job("--partition=pair"), "RUNNING", seconds=20)
        slurm.client("scontrol", "update", f"jobid={number}", "ReqNodeList=")
        slurm.until(number, "RUNNING", seconds=20)
    finally:
        slurm.client("scontrol", "update", "nodename=z", "state=resume")


def test_resources_and_priority_go_by_themselves(slurm, job, because):
    first, second, third = (job("--gres=gpu:2", "--time=5") for _ in range(3))
    slurm.until(first, "RUNNING", seconds=20)
    because(second, "Resources")
    because(third, "Priority")
    slurm.client("scancel", first)
    slurm.until(second, "RUNNING", seconds=20)

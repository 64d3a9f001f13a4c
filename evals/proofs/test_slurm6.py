"""SLURM6: a real Slurm refuses a job with each text, and takes it once what was asked for is within what is there."""

import shlex

import pytest

pytest_plugins = ["tests.engines.slurm"]

SCRIPT = "#!/bin/bash\nsleep 30\n"


@pytest.fixture
def sent(slurm):
    """sent("--gres=gpu:3"): the exit code and what sbatch says of a job with these options."""

    def run(*options, script=SCRIPT):
        path = slurm.home / "job.sh"
        path.write_bytes(script.encode())
        done = slurm.client("sbatch", *options, str(path), check=False)
        return done.returncode, done.stdout + done.stderr

    return run


@pytest.fixture
def strict(slurm):
    """Limits of partitions hold at submission."""
    path = slurm.at / "slurm.conf"
    before = path.read_text()
    path.write_text(
        before
        + "EnforcePartLimits=ALL\nPartitionName=brief Nodes=gpu MaxTime=10 MaxNodes=1\nPartitionName=small Nodes=gpu MaxMemPerNode=1000\nPartitionName=theirs Nodes=gpu AllowAccounts=team\n"
    )
    slurm.client("scontrol", "reconfigure")
    yield
    slurm.cancel_all()
    path.write_text(before)
    slurm.client("scontrol", "reconfigure")


REFUSED = [
    (["--gres=gpu:3"], ["--gres=gpu:2"], "Requested node configuration is not available"),
    (["--gres=gpu:a100:1"], ["--gres=gpu:1"], "Requested node configuration is not available"),
    (
        ["--partition=pair", "--gres=gpu:1"],
        ["--partition=main", "--gres=gpu:1"],
        "Requested node configuration is not available",
    ),
    (["--mem=500G"], ["--mem=3G"], "Memory specification can not be satisfied"),
    (["--partition=gpu"], ["--partition=main"], "Invalid partition name specified"),
    (["--gres=gpus:1"], ["--gres=gpu:1"], "Invalid generic resource (gres) specification"),
    (["--dependency=afterok:Submitted batch job 1"], [], "Job dependency problem"),
    (["--dependency=afterok:"], [], "Job dependency problem"),
    (["--array=0-5000"], ["--array=0-3"], "Invalid job array specification"),
    (["--constraint=a100"], [], "Invalid feature specification"),
]


@pytest.mark.parametrize(("asked", "instead", "text"), REFUSED)
def test_more_than_there_is_gets_refused_and_what_there_is_gets_taken(
    sent, says, asked, instead, text
):
    code, said = sent(*asked)
    assert code and text in said
    says("SLURM6", said)
    code, said = sent(*instead)
    assert code == 0 and said.startswith("Submitted batch job")


def test_the_check_shows_the_number_above_its_column_and_the_answer_to_a_smaller_one(
    slurm, sent, shell_of
):
    asked = SCRIPT.replace("\n", "\n#SBATCH --gres=gpu:3\n", 1)
    assert sent(script=asked)[0]
    grep, sinfo, test, listed = (
        shlex.split(shell_of("SLURM6", word)) for word in ("grep", "sinfo", "--test-only", "--me")
    )
    assert slurm.client(*grep).stdout == "#SBATCH --gres=gpu:3\n"
    there = next(x for x in slurm.client(*sinfo).stdout.splitlines() if x.startswith("main"))
    assert there.split()[-1] == "gpu:2"
    assert slurm.client(*listed, "-h").stdout == ""
    (slurm.home / "job.sh").write_text(asked.replace("gpu:3", "gpu:2"))
    assert "to start at" in slurm.client(*test).stderr


def test_a_script_from_windows_or_without_its_first_line(sent, says):
    unlike = "This does not look like a batch script"
    windows, late, marked = SCRIPT.replace("\n", "\r\n"), "\n" + SCRIPT, "\ufeff" + SCRIPT
    for broken, text, entry in (
        (windows, "Batch script contains DOS line breaks", "GEN4"),
        (late, unlike, "SLURM6"),
        (marked, unlike, "SLURM6"),
    ):
        code, said = sent(script=broken)
        assert code and text in said
        says(entry, said)
        code, said = sent(script=broken.replace("\r\n", "\n").lstrip("\ufeff\n"))
        assert code == 0


LIMITS = [
    (
        ["--partition=brief", "--time=60"],
        ["--partition=brief", "--time=5"],
        "Requested time limit is invalid",
    ),
    (
        ["--partition=brief,main", "--time=60"],
        ["--partition=main", "--time=60"],
        "Requested time limit is invalid",
    ),
    (
        ["--partition=brief", "--time=5", "--nodes=2"],
        ["--partition=brief", "--time=5"],
        "Node count specification invalid",
    ),
    (
        ["--partition=small", "--mem=2000"],
        ["--partition=small", "--mem=900"],
        "Memory required by task is not available",
    ),
    (
        ["--partition=theirs"],
        ["--partition=main"],
        "Invalid account or account/partition combination specified",
    ),
    (["--cpus-per-task=99"], ["--cpus-per-task=4"], "More processors requested than permitted"),
]


def test_limits_of_a_partition_refuse_where_the_site_enforces_them(sent, says, strict):
    for asked, instead, text in LIMITS:
        code, said = sent(*asked)
        assert code and text in said
        says("SLURM6", said)
        assert sent(*instead)[0] == 0


def test_the_same_wishes_wait_for_ever_where_it_does_not(slurm, sent):
    code, said = sent("--cpus-per-task=99")
    assert code == 0
    job = said.split()[-1]
    slurm.wait(
        lambda: slurm.facts(job)[0]["Reason"] == "PartitionConfig",
        "no reason of the partition",
        seconds=20,
    )


def test_a_step_larger_than_its_job(slurm, says):
    """The step asks for tasks, not for processors: two need a job of two tasks."""
    log = slurm.home / "steps.log"
    script = slurm.home / "steps.sh"
    script.write_text(
        "#!/bin/bash\nsrun --ntasks=2 hostname\necho code $?\nsrun --ntasks=1 --gres=gpu:1 hostname\necho code $?\n"
    )
    slurm.until(slurm.sbatch(script, f"--output={log}", "--time=2"), "COMPLETED")
    refused = log.read_text()
    assert (
        "Unable to create step for job" in refused
        and "More processors requested than permitted" in refused
    )
    assert "Invalid generic resource (gres) specification" in refused
    says("SLURM6", refused)
    slurm.until(
        slurm.sbatch(script, f"--output={log}", "--time=2", "--ntasks=2", "--gres=gpu:1"),
        "COMPLETED",
    )
    assert log.read_text().count("code 0") == 2 and "error" not in log.read_text()


def test_a_step_on_a_node_that_its_job_does_not_hold(slurm, says):
    log = slurm.home / "where.log"
    script = slurm.home / "where.sh"
    for node, well in (("gpu", False), ("z", True)):
        script.write_text(f"#!/bin/bash\nsrun -N1 -n1 -w {node} hostname\necho code $?\n")
        slurm.until(
            slurm.sbatch(script, "--partition=pair", "--nodelist=z", f"--output={log}", "--time=2"),
            "COMPLETED",
        )
        assert ("code 0" in log.read_text()) is well
        if not well:
            assert "Requested node configuration is not available" in log.read_text()
            says("SLURM6", log.read_text())


def test_srun_that_waits_for_a_drained_node_is_not_refused(slurm):
    slurm.client("scontrol", "update", "nodename=z", "state=drain", "reason=test")
    try:
        said = slurm.client(
            "timeout", "1", "srun", "--partition=pair", "--nodelist=z", "true", check=False
        ).stderr
        assert (
            "Required node not available (down, drained or reserved)" in said
            and "queued and waiting for resources" in said
        )
    finally:
        slurm.cancel_all()
        slurm.client("scontrol", "update", "nodename=z", "state=resume")

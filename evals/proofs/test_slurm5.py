"""SLURM5: the check's line counts the starts of a requeued job, and findmnt tells the node's disk from a shared one."""

import subprocess

pytest_plugins = ["tests.engines.slurm"]


def test_the_line_at_the_top_of_the_script_tells_a_rerun_from_a_first_start(slurm, shell_of):
    script, log = slurm.home / "again.sh", slurm.home / "again.log"
    script.write_text(f"#!/bin/bash\n{shell_of('SLURM5', 'SLURM_RESTART_COUNT')}\nsleep 60\n")
    job = slurm.sbatch(script, f"--output={log}", "--open-mode=append", "--requeue")
    slurm.wait(lambda: log.exists() and "restart" in log.read_text(), "no start", seconds=60)
    slurm.client("scontrol", "requeue", job)
    slurm.restart_now(job)
    slurm.wait(lambda: log.read_text().count("restart") == 2, "no second start", seconds=60)
    starts = [line.split()[:2] for line in log.read_text().splitlines() if "restart" in line]
    assert starts == [["restart", "0"], ["restart", "1"]]


def test_findmnt_names_the_kind_of_filesystem(tmp_path, shell_of):
    line = shell_of("SLURM5", "findmnt").replace("FOLDER", '"$TMPDIR"')
    kinds = {}
    for place in (tmp_path, "/dev/shm", "/proc"):
        done = subprocess.run(
            ["bash", "-c", line],
            env={"TMPDIR": str(place), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=True,
        )
        kinds[str(place)] = done.stdout.split()[-1]
    assert kinds["/dev/shm"] == "tmpfs" and kinds["/proc"] == "proc"
    assert kinds[str(tmp_path)] not in ("nfs", "nfs4", "lustre", "gpfs", "beegfs")

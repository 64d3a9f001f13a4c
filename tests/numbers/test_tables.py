"""Pasted tables: the cell that tells decides, and a table that is as it should be names no entry."""

import pytest
from remote_gpu_trainer.logs.reading import from_text
from remote_gpu_trainer.lookup.answer import answer_for

SMI = """Sat Nov 21 10:02:11 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 570.124.06             Driver Version: 570.124.06     CUDA Version: 12.8     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|=========================================+========================+======================|
|   0  NVIDIA A100-SXM4-80GB          On  |   00000000:07:00.0 Off |                    {ecc} |
| N/A   {heat}C    P0            {draw}W /  400W |   {used}MiB /  81920MiB |    {use}%      Default |
+-----------------------------------------+------------------------+----------------------+
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|=========================================================================================|
{rows}
+-----------------------------------------------------------------------------------------+
"""
NONE = "|  No running processes found                                                             |"
OURS = "|    0   N/A  N/A            4121      C   python                            61200MiB |"


def smi(ecc=0, heat=45, draw=310, used=61234, use=97, rows=OURS):
    return SMI.format(ecc=ecc, heat=heat, draw=draw, used=used, use=use, rows=rows)


DF = "Filesystem      Size  Used Avail Use% Mounted on\noverlay          20G  {used}G  {free}G {use}% /\nshm              64M  64M    0 {shm}% /dev/shm\n/dev/loop3 105M 105M 0 100% /snap/core/1\n"
SACCT = "JobID           JobName      State ExitCode   Elapsed\n------------ ---------- ---------- -------- ----------\n12345             train    {state}      0:0   24:00:12\n"
SEFF = """$ seff 991
Job ID: 991
Cluster: hpc
State: {state}
Nodes: 1
Cores per node: 4
CPU Efficiency: 86.44% of 00:59:00 core-walltime
Job Wall-clock time: 00:14:45
Memory Efficiency: 61.90% of 72.00 GB
"""


@pytest.mark.parametrize(
    ("text", "entry", "line"),
    [
        (smi(ecc=17), "HW2", 8),
        (smi(rows=NONE), "U11", 9),
        (smi(use=100, draw=65), "U21", 9),
        (smi().replace("310W", "ERR!"), "HW1", 9),
        (DF.format(used=20, free=0, use=100, shm=1), "U6", 2),
        (DF.format(used=2, free=18, use=10, shm=100), "DP15", 3),
        (
            "Filesystem      Inodes  IUsed   IFree IUse% Mounted on\n/dev/sda1      1310720 1310720      0  100% /\n",
            "U7",
            2,
        ),
        (SACCT.format(state="OUT_OF_ME+"), "SLURM4", 3),
        (SACCT.format(state="TIMEOUT"), "SLURM2", 3),
        (SACCT.format(state="PREEMPTED"), "SLURM2", 3),
        (SEFF.format(state="TIMEOUT (exit code 0)"), "SLURM2", 4),
        (SEFF.format(state="['OUT_OF_MEMORY']"), "SLURM4", 4),
    ],
)
def test_the_cell_that_tells_decides(text, entry, line):
    answer = answer_for(text=text)
    assert (answer.matches[0]["id"], answer.evidence[0]["line"]) == (entry, line)
    assert not answer.matches[0]["why"].startswith("`"), "no literal text of a log is claimed"


@pytest.mark.parametrize(
    "text",
    [
        smi(),
        smi(used=4, use=0, draw=60, rows=NONE),
        DF.format(used=2, free=18, use=10, shm=1),
        SACCT.format(state="COMPLETED"),
        SEFF.format(state="COMPLETED (exit code 0)"),
    ],
)
def test_a_table_that_is_as_it_should_be_names_nothing(text):
    assert answer_for(text=text).matches == []


def test_a_job_that_its_time_limit_ended_needs_more_time_before_another_start(tmp_path):
    for at, table in enumerate((SACCT, SEFF)):
        path = tmp_path / f"{at}.txt"
        path.write_text(table.format(state="TIMEOUT"))
        assert "or get more time" in answer_for(log=str(path)).decision["why"]


def test_what_is_no_fault_of_its_own_is_told():
    assert "GPU 0 is at 93 degrees" in answer_for(text=smi(heat=93)).ask


def test_a_table_within_a_report_leaves_it_to_the_words():
    report = "Training is slow since the update.\n" * 40 + smi(rows=NONE)
    assert from_text(report).seen == ""


def test_a_failure_beside_a_table_is_believed():
    found = from_text(
        smi(rows=NONE) + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    )
    assert found.seen == "" and found.decisive[0].text.startswith("torch.OutOfMemoryError")

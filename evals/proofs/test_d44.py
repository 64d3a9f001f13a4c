"""D44: torchrun's summary holds exit codes; the exception stands in the log of the rank that failed."""

import re
import subprocess
import sys

import pytest
from check_code import in_shell, span
from remote_gpu_trainer.catalogue import bundle

RAISES = """\
import os, time
if os.environ["RANK"] == "1":
    raise ValueError("bad row")
time.sleep(60)
"""


@pytest.fixture
def log(tmp_path):
    """log(code) -> what torchrun printed for two ranks, which also lies in train.log."""

    def run(code: str, script: str = "train.py") -> str:
        (tmp_path / "train.py").write_text(code)
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
        done = subprocess.run(
            [*command, "--log-dir", "logs", "--tee", "3", script],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
        )
        (tmp_path / "train.log").write_text(done.stderr + done.stdout)
        return done.stderr

    return run


def test_the_summary_lacks_the_cause_and_the_check_finds_it_above(log, tmp_path):
    told = log(RAISES)
    summary = told[told.rindex("ChildFailedError") :]
    assert "To enable traceback see" in summary and "bad row" not in summary
    assert "closing signal SIGTERM" in told and "exitcode  : -15" in summary
    found = in_shell(span("D44", "grep -nE"), tmp_path)
    assert found.splitlines()[0].endswith("[default1]:ValueError: bad row")
    [of_rank_1] = tmp_path.glob("logs/*/attempt_0/1/stderr.log")
    assert "ValueError: bad row" in of_rank_1.read_text()


@pytest.mark.parametrize(
    ("code", "script", "exitcode", "cause"),
    [
        ("", "trian.py", 2, "can't open file"),
        ("import argparse; argparse.ArgumentParser().parse_args(['--x'])", "train.py", 2, "usage:"),
        ("import os; os.kill(os.getpid(), 7)", "train.py", -7, "bus error"),
    ],
)
def test_the_table_tells_what_an_exit_code_was(log, tmp_path, code, script, exitcode, cause):
    told = log(code, script)
    assert f"exitcode  : {exitcode} " in told[told.rindex("Root Cause") :]
    [row] = re.findall(rf"^\| {exitcode} \| (.+) \|$", bundle.load().get("D44").fix, re.M)
    assert cause in row
    if cause == "can't open file":
        assert cause in in_shell(span("D44", "grep -nE"), tmp_path).splitlines()[0]


def test_record_puts_the_traceback_into_the_summary(log):
    told = log(
        "import os, time\n"
        "from torch.distributed.elastic.multiprocessing.errors import record\n"
        "@record\n"
        "def main():\n"
        '    if os.environ["RANK"] == "1":\n'
        '        raise ValueError("bad row")\n'
        "    time.sleep(60)\n"
        "main()\n"
    )
    assert "ValueError: bad row" in told[told.rindex("Root Cause") :]

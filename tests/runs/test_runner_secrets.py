"""Secrets reach the program and nothing else."""

import os
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.runs.runner_box import Box

pytest_plugins = ["tests.runs.runner_box"]

VALUE = "s3cr3t-Value-1234"
SHOW = "import os, time; print(len(os.environ['FROM_FILE']), len(os.environ['FROM_VAR']), len(os.environ['RENAMED'])); time.sleep(3)"


def test_a_secret_is_in_the_program_s_environment_and_nowhere_else(box: Box):
    (box.folder / "key file").write_text(VALUE + "\n")
    box.env |= {"FROM_VAR": VALUE, "OTHER_NAME": VALUE}
    box.make(
        RGT_COMMAND=["python3", "-c", SHOW],
        RGT_EXPECT=[],
        RGT_SECRET_FILES=[f"FROM_FILE={box.folder}/key file"],
        RGT_SECRET_VARS=["FROM_VAR", "RENAMED=OTHER_NAME"],
    )
    seen = set()
    starter = box.popen("start")
    until = time.monotonic() + 60
    while box.status()["phase"] not in ("done", "failed") and time.monotonic() < until:
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                seen.add(entry.read_bytes())
    assert starter.wait(90) == 0
    assert box.output() == f"{len(VALUE)} {len(VALUE)} {len(VALUE)}\n".encode()
    assert not [words for words in seen if VALUE.encode() in words]
    for path in box.folder.rglob("*"):
        if path.is_file() and path.name != "key file":
            assert VALUE.encode() not in path.read_bytes(), path


@pytest.mark.parametrize(
    "values",
    [{"RGT_SECRET_FILES": ["A_KEY=~/no/such/file"]}, {"RGT_SECRET_VARS": ["A_KEY=NOT_SET_HERE"]}],
    ids=["file", "variable"],
)
def test_a_missing_secret_is_refused_by_name(box: Box, values):
    box.make(RGT_COMMAND=["true"], RGT_EXPECT=[], RGT_PROFILE="runpod", **values)
    done = box.verb("preflight")
    assert done.returncode == 1
    assert ("A_KEY" in done.stdout) or (
        "NOT_SET_HERE" in done.stdout and done.stdout.startswith("refused RP12 ")
    )


def test_the_run_folder_is_closed_to_others(box: Box):
    box.make("--sleep", 0)
    box.verb("run")
    open_to_all = [
        path
        for path in box.run_dir.rglob("*")
        if path.is_file()
        and path.name not in ("final.bin", "steps.log")
        and os.stat(path).st_mode & 0o007
    ]
    assert not open_to_all

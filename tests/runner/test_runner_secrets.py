"""Secrets reach the program and nothing else."""

import json
import os
import sys
import time
from contextlib import suppress
from pathlib import Path

from tests.runner.box import Box

pytest_plugins = ["tests.runner.box"]

VALUE = "s3cr3t-Value-1234"
SHOW = "import os, time; print(len(os.environ['FROM_FILE']), len(os.environ['FROM_VAR']), len(os.environ['RENAMED'])); time.sleep(3)"


def test_a_secret_is_in_the_program_s_environment_and_nowhere_else(box: Box):
    (box.folder / "key file").write_text(VALUE + "\n")
    box.env |= {"FROM_VAR": VALUE, "OTHER_NAME": VALUE}
    box.make(
        command=["python3", "-c", SHOW],
        results=[],
        secrets={
            "FROM_FILE": {"file": f"{box.folder}/key file"},
            "FROM_VAR": {"variable": "FROM_VAR"},
            "RENAMED": {"variable": "OTHER_NAME"},
        },
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


PRINTS = """
import os, sys, time
value = os.environ['FROM_VAR']
print('the key is', value, 'and', os.environ['FROM_FILE'])
sys.stdout.write('in two ' + value[:7]); sys.stdout.flush()
time.sleep(0.5)
sys.stdout.write(value[7:] + ' pieces\\n' + 'x' * 200000 + value + '\\n50% 5/9\\r'); sys.stdout.flush()
time.sleep(4)
sys.exit('wrong key ' + value)
"""


def test_a_secret_that_the_program_prints_leaves_the_box_masked(box: Box):
    (box.folder / "key file").write_text("first-Line-1234\nsecond-Line-5678\n")
    box.env["FROM_VAR"] = VALUE
    (box.folder / "program").write_text(PRINTS)
    box.make(
        command=[sys.executable, str(box.folder / "program")],
        results=[],
        notify=["bash", "-c", f"cat >>{box.folder}/alarms"],
        retries={"unknown": 0},
        durable={"to": str(box.folder / "durable"), "what": [str(box.checkpoints)]},
        secrets={
            "FROM_FILE": {"file": f"{box.folder}/key file"},
            "FROM_VAR": {"variable": "FROM_VAR"},
        },
    )
    box.popen("run")
    box.until(lambda: box.output().endswith(b"\r"), what="a line that has no end yet")
    del box.env["FROM_VAR"]  # `status` comes from another login
    box.until(lambda: "5/9" in box.status()["tail"], what="the line's end in the status")
    now = box.wait()
    box.until(lambda: list((box.folder / "durable").rglob("train.log.*")))
    said = box.output()
    assert b"the key is *** and ***" in said and b"in two *** pieces" in said
    assert b"x" * 200000 + b"***\n" in said and b"wrong key ***" in said
    for text in (VALUE, "first-Line-1234", "second-Line-5678"):
        assert text not in json.dumps(now)
        for path in box.folder.rglob("*"):
            if path.is_file() and path.name != "key file":
                assert text.encode() not in path.read_bytes(), path


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

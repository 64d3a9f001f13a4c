"""What torch elastic's error.json tells: the rank of a failure, or one that no log holds."""

import json
import os
import subprocess
import sys

import pytest
from remote_gpu_trainer.logs.reading import from_path
from remote_gpu_trainer.lookup.answer import answer_for

from tests import conftest

OWN = "KeyError: 'label'"
LOST = "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:21894. This is typically caused by a remote worker crashing."
NOW = 1_780_000_000


def stack(text):
    return f'Traceback (most recent call last):\n  File "/root/code/train.py", line 40, in main\n    batch = next(rows)\n{text}\n'


def write_error(folder, text, seconds=NOW):
    """The file as torch 2.13 writes it."""
    extra = {"py_callstack": stack(text), "timestamp": str(seconds)}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "error.json").write_text(
        json.dumps({"message": {"message": text, "extraInfo": extra}})
    )


def write_log(path, text, seconds=NOW + 5):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (seconds, seconds))


STEPS = "".join(f"step {step} loss {3 - step / 10:.1f}\n" for step in range(9))


def test_a_failure_that_no_log_holds_is_told_with_its_rank(tmp_path):
    write_log(tmp_path / "train.log", STEPS)
    write_error(tmp_path / "elastic" / "none_x7" / "attempt_0" / "2", OWN)
    found = from_path(str(tmp_path))
    assert (found.first.rank, found.first.text) == (2, OWN)
    assert found.first.source.endswith("attempt_0/2/error.json")


def test_a_traceback_without_a_rank_gets_that_of_the_file(tmp_path):
    write_log(tmp_path / "train.log", STEPS + stack(OWN))
    write_error(tmp_path / "elastic" / "none_x7" / "attempt_0" / "2", OWN)
    found = from_path(str(tmp_path))
    assert (found.first.rank, found.first.source) == (2, "train.log")
    assert [line.text for line in found.lines].count(OWN) == 1


@pytest.mark.parametrize("lost_at", [NOW - 9, NOW + 9])
def test_a_consequence_never_beats_a_cause(lost_at, tmp_path):
    write_log(tmp_path / "train.log", STEPS)
    for rank, (text, seconds) in enumerate([(LOST, lost_at), (OWN, NOW), (LOST, lost_at)]):
        write_error(tmp_path / "attempt_0" / str(rank), text, seconds)
    assert from_path(str(tmp_path)).first.rank == 1


def test_of_two_causes_the_earlier_one_is_the_first(tmp_path):
    write_log(tmp_path / "train.log", STEPS)
    write_error(tmp_path / "attempt_0" / "0", "KeyError: 'image'", NOW)
    write_error(tmp_path / "attempt_0" / "1", OWN, NOW - 20)
    assert from_path(str(tmp_path)).first.rank == 1


@pytest.mark.parametrize(
    ("ended", "place", "counts"),
    [(NOW + 5, "old", True), (NOW + 90_000, "old", False), (NOW - 900, "old", False)],
    ids=["of this run", "of a run a day before", "of a run after this log"],
)
def test_a_file_of_another_run_counts_for_nothing(ended, place, counts, tmp_path):
    write_log(tmp_path / "train.log", STEPS, ended)
    write_error(tmp_path / place / "attempt_0" / "2", OWN)
    assert (from_path(str(tmp_path)).first is not None) == counts


def test_the_launcher_s_summary_names_the_file_of_its_run(tmp_path):
    named = "  rank      : 2 (local_rank: 2)\n  exitcode  : 1 (pid: 704)\n  error_file: /tmp/torchelastic_a/none_x7/attempt_0/2/error.json\n"
    write_log(
        tmp_path / "train.log",
        f"{STEPS}Root Cause (first observed failure):\n[0]:\n{named}",
        NOW + 90_000,
    )
    write_error(tmp_path / "none_x7" / "attempt_0" / "2", OWN)
    assert (from_path(str(tmp_path)).first.text) == OWN


def test_it_is_read_beside_a_single_log_too(tmp_path):
    log = tmp_path / "attempt_0" / "1" / "stderr.log"
    write_log(log, STEPS)
    write_error(log.parent, OWN)
    found = answer_for(log=str(log))
    assert found.first_failure["rank"] == 1
    assert found.decision["do"] == "fix_first"


def test_a_folder_of_such_files_alone_is_read(tmp_path):
    write_error(tmp_path / "attempt_0" / "1", OWN)
    assert from_path(str(tmp_path)).first.rank == 1


@pytest.mark.parametrize(
    "data",
    ["", "{", "[]", '{"message": 1}', '{"message": {"message": "", "extraInfo": []}}', "[" * 9_000],
)
def test_a_broken_file_is_none(data, tmp_path):
    write_log(tmp_path / "train.log", STEPS)
    (tmp_path / "error.json").write_text(data)
    assert from_path(str(tmp_path)).first is None


def test_what_torch_writes_is_read(tmp_path):
    conftest.module("torch", "pip install '.[proofs]'")
    program = tmp_path / "train.py"
    program.write_text(
        "import os\nfrom torch.distributed.elastic.multiprocessing.errors import record\n"
        "@record\ndef main():\n"
        "    print('step 1 loss 2.0')\n"
        "    if os.environ['RANK'] == '1':\n        {}['label']\n"
        "    import time; time.sleep(60)\n"
        "main()\n"
    )
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2"),
            *(f"--log-dir={tmp_path / 'elastic'}", "--max-restarts=0", "--standalone", program),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    (tmp_path / "train.log").write_text(ran.stdout)  # as if nobody had kept its errors
    program.unlink()
    found = from_path(str(tmp_path))
    assert (found.first.rank, found.first.text) == (1, OWN), ran.stderr


def test_of_the_runner_s_attempts_each_has_a_folder_for_them(tmp_path):
    events = [
        {"event": "attempt", "attempt": 1, "log": 0},
        {"event": "ended", "attempt": 1, "class": "bug", "reason": "a traceback"},
        {"event": "attempt", "attempt": 2, "log": 1},
    ]
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    for part in range(2):
        write_log(tmp_path / "log" / f"train.log.000{part}", STEPS)
    write_error(tmp_path / "elastic" / "1" / "none_x7" / "attempt_0" / "2", OWN)
    assert from_path(str(tmp_path)).first is None
    write_error(tmp_path / "elastic" / "2" / "none_x7" / "attempt_0" / "3", OWN)
    assert from_path(str(tmp_path)).first.rank == 3

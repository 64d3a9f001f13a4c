"""A folder of logs: whose file is whose, who left nothing, what is left out, and how much is kept of it."""

import gzip
import itertools
import os
import subprocess
import sys

import pytest
from remote_gpu_trainer.logs import folder as log_folder
from remote_gpu_trainer.logs.files import ReadOptions, Unreadable
from remote_gpu_trainer.logs.prefixes import rank_of, ranks_of
from remote_gpu_trainer.logs.reading import from_path
from remote_gpu_trainer.logs.windows import cost
from remote_gpu_trainer.lookup.answer import answer_for

from tests.engines.machine_speed import ratio
from tests.runner.box import box  # noqa: F401, a fixture

FAULT = 'Traceback (most recent call last):\n  File "a.py", line 3, in f\nIndexError: Target 10 is out of bounds.\n'
LOST = "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.1]:3000\n"
STEPS = "".join(f"step {n} loss 0.5\n" for n in range(30))
SUMMARY = "Root Cause (first observed failure):\n[0]:\n  rank      : 2 (local_rank: 2)\n  exitcode  : 1 (pid: 9)\n"


def folder(tmp_path, files: dict) -> str:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        "slurm-48213.out",
        "run_2026-11-20.log",
        "gpu8_h100.log",
        "exp-7.txt",
        "job_981.err",
        "log.1",
        "llama-7.log",
        "node3.log",
        "lora_rank16.log",
    ],
)
def test_the_name_of_a_single_file_invents_no_rank(tmp_path, name):
    (tmp_path / name).write_text(FAULT)
    found = from_path(str(tmp_path / name))
    assert (found.ranks, found.first.rank) == ((), None)


def test_the_launchers_summary_is_believed_in_a_file_with_a_number(tmp_path):
    (tmp_path / "slurm-99.out").write_text(STEPS + FAULT + SUMMARY)
    assert from_path(str(tmp_path / "slurm-99.out")).first.rank == 2


def test_a_single_file_that_says_its_rank_is_of_that_rank(tmp_path):
    (tmp_path / "rank_3.log").write_text(FAULT)
    assert from_path(str(tmp_path / "rank_3.log")).first.rank == 3


@pytest.mark.parametrize(
    "names, ranks",
    [
        (["slurm-1234_0.out", "slurm-1234_1.out", "slurm-1234_2.out"], [0, 1, 2]),
        (["gpu0.log", "gpu1.log", "gpu3.log"], [0, 1, 3]),
        (["worker-0.txt", "worker-1.txt", "main.log"], [0, 1, None]),
        (["node0/train.log", "node1/train.log"], [0, 1]),
        (["rank_4.log", "a/1/stderr.log", "local_rank2.err"], [4, 1, 2]),
        (["exp_1.log", "exp_2.log"], [None, None]),
        (["exp_0.log", "exp_1.log"], [None, None]),
        (["seed-0.log", "seed-1.log"], [None, None]),
        (["slurm-0.out", "slurm-48213.out"], [None, None]),
        (["train.log", "train.log.1", "train.log.2"], [None, None, None]),
        (["worker_7.log"], [None]),
        (["lora_rank8/train.log", "lora_rank16/train.log"], [None, None]),
    ],
)
def test_a_number_is_a_rank_where_it_says_so_or_where_files_count_from_0(names, ranks):
    said, meant = ranks_of(names)
    assert [{**meant, **said}.get(name) for name in names] == ranks


def test_a_name_that_says_its_rank_is_believed_before_another_number_of_it():
    assert rank_of("rank_1/worker_3.log") == 1


def test_experiments_beside_each_other_are_no_ranks(tmp_path):
    found = from_path(
        folder(
            tmp_path, {"exp_1.log": STEPS + "Training finished\n", "exp_2.log": STEPS[:100] + FAULT}
        )
    )
    assert (found.ranks, found.first.rank, found.first.source) == ((), None, "exp_2.log")


def test_a_file_of_several_ranks_is_none_of_theirs(tmp_path):
    files = {
        f"node{node}.log": STEPS + f"[rank{node + 4}]: {FAULT.splitlines()[-1] if node else LOST}\n"
        for node in range(2)
    }
    found = from_path(folder(tmp_path, files))
    assert (found.ranks, found.first.rank) == ((4, 5), 5)


def test_the_rank_that_wrote_nothing_is_the_one_that_the_others_lost(tmp_path):
    files = {f"attempt_0/{rank}/stderr.log": "" if rank == 2 else LOST for rank in range(4)}
    files |= {f"attempt_0/{rank}/stdout.log": STEPS if rank == 0 else "" for rank in range(4)}
    assert from_path(folder(tmp_path, files)).first.rank == 2
    assert answer_for(log=str(tmp_path)).ask.startswith("Nothing was written by rank 2.")


def test_a_rank_with_one_empty_file_is_not_silent(tmp_path):
    files = {f"{rank}/stderr.log": LOST for rank in range(2)} | {
        f"{rank}/stdout.log": "" for rank in range(2)
    }
    found = from_path(folder(tmp_path, files))
    assert (found.first.rank, found.left_out) == (None, "")
    assert found.victims == "Ranks 0, 1 only lost another rank or waited for one."


def test_silence_blames_nobody_when_a_rank_has_a_fault_of_its_own(tmp_path):
    assert (
        from_path(
            folder(tmp_path, {"rank_0.log": LOST, "rank_1.log": FAULT, "rank_2.log": ""})
        ).first.rank
        == 1
    )


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_this_user_may_not_read_is_told(tmp_path):
    path = folder(tmp_path, {"rank_0.log": LOST, "rank_1.log": FAULT})
    (tmp_path / "rank_1.log").chmod(0)
    found = from_path(path)
    assert found.first.rank == 1
    assert found.left_out == "Partial: 1 of 2 files can't be read; no log was read of rank 1."


def test_a_file_that_is_packed_in_another_way_is_told(tmp_path):
    found = from_path(
        folder(tmp_path, {"rank_0.log": LOST, "rank_1.log.xz": b"\xfd7zXZ\x00" + b"abc" * 40})
    )
    assert found.first.rank == 1
    assert found.left_out == "Partial: 1 of 2 files can't be read; no log was read of rank 1."


def test_a_compressed_log_is_read_and_a_compressed_data_set_is_not(tmp_path):
    packed = gzip.compress(FAULT.encode())
    found = from_path(
        folder(
            tmp_path,
            {
                "rank_0.log": LOST,
                "rank_1.log.gz": packed,
                "data.csv.gz": packed,
                "model.tar.gz": packed,
                "wiki.gz": packed,
            },
        )
    )
    assert (found.first.rank, found.first.source, found.left_out) == (1, "rank_1.log.gz", "")
    assert {line.source for line in found.lines} == {"rank_0.log", "rank_1.log.gz"}


def test_of_more_files_than_are_read_stderr_comes_first_and_the_rest_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(log_folder, "MAX_FILES", 12)
    files = {f"{rank}/stdout.log": STEPS for rank in range(10)} | {
        f"{rank}/stderr.log": FAULT if rank == 9 else LOST for rank in range(10)
    }
    found = from_path(folder(tmp_path, files))
    assert found.first.rank == 9
    assert (
        found.left_out == "Partial: 8 of 20 files are more than the 12 that are read, stderr first."
    )
    assert answer_for(log=str(tmp_path)).ask.startswith(found.left_out)


def test_when_time_is_over_what_was_read_is_judged_and_the_rest_is_told(tmp_path, monkeypatch):
    clock = itertools.count()
    monkeypatch.setattr(log_folder.time, "monotonic", lambda: next(clock))
    path = folder(tmp_path, {f"rank_{rank}.log": FAULT if rank == 1 else LOST for rank in range(6)})
    found = from_path(path, ReadOptions(seconds=3.5))
    assert found.first.rank == 1
    assert (
        found.left_out
        == "Partial: 3 of 6 files were not reached within 3.5 s; no log was read of ranks 3, 4, 5."
    )
    with pytest.raises(
        Unreadable,
        match="was read within 0.5 s; pass one rank's file instead of the folder",
    ):
        from_path(path, ReadOptions(seconds=0.5))


def test_a_log_above_is_read_before_a_folder_of_many_files_and_the_rest_is_told(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(log_folder, "MAX_ENTRIES", 500)
    files = {f"data/{name:05d}.bin": "" for name in range(700)}
    read = log_folder.read(folder(tmp_path, {**files, "rank_0.log": FAULT, "z/rank_1.log": FAULT}))
    assert {line.source for line in read.lines} == {"rank_0.log"}
    assert "only 500 entries of the folder were looked at" in read.left_out
    assert "rank_0.log" not in read.left_out and "data" not in read.left_out


def test_a_folder_of_more_entries_than_are_looked_at_takes_time_by_their_number(
    tmp_path, monkeypatch
):
    def read_so_many(entries: int):
        monkeypatch.setattr(log_folder, "MAX_ENTRIES", entries)
        return log_folder.read(tmp_path / str(entries))

    for entries in (8_000, 2_000):
        (tmp_path / str(entries)).mkdir()
        for name in range(entries + 100):
            log = tmp_path / str(entries) / f"{name:06d}.log"
            log.write_text("step 1 loss 0.5\n" if name % 10 == 0 else "")
    read = read_so_many(8_000)
    assert "only 8000 entries of the folder were looked at" in read.left_out
    assert f"are more than the {log_folder.MAX_FILES} that are read" in read.left_out
    assert ratio(lambda: read_so_many(8_000), lambda: read_so_many(2_000)) < 8


@pytest.fixture
def deep(tmp_path):
    """A folder with 1,030 others in each other: more than Python calls in each other."""
    inside = tmp_path
    for _ in range(30):
        inside = inside / "d"
        inside.mkdir()
    top = os.open(inside, os.O_RDONLY)
    for _ in range(1000):  # by handles: the path is longer than the system takes
        os.mkdir("d", dir_fd=top)
        below = os.open("d", os.O_RDONLY, dir_fd=top)
        os.close(top)
        top = below
    os.close(top)
    yield tmp_path
    subprocess.run(["rm", "-rf", tmp_path / "d"], check=True)  # shutil.rmtree can't


def test_a_folder_of_a_thousand_levels_is_read_as_far_as_logs_go(deep):
    (deep / "rank_0.log").write_text(FAULT)
    for depth in (19, 20):
        (deep / ("d/" * depth) / "rank_1.log").write_text(FAULT)
    read = log_folder.read(str(deep))
    assert {line.source for line in read.lines} == {"rank_0.log", "d/" * 19 + "rank_1.log"}
    assert "folders more than 20 deep were not looked at" in read.left_out
    (deep / "rank_0.log").unlink()
    (deep / ("d/" * 19) / "rank_1.log").unlink()
    with pytest.raises(Unreadable, match="more than 20 deep"):
        log_folder.read(str(deep))


def test_files_of_a_folder_come_before_those_in_its_folders(tmp_path):
    names = ["b.log", "a/2.log", "a/b/3.log", "a.log", "c/1.log"]
    found, unseen = log_folder._log_files(
        folder(tmp_path, dict.fromkeys(names, "x")), lambda _: None
    )
    assert list(found) == ["a.log", "b.log", "a/2.log", "a/b/3.log", "c/1.log"] and unseen == ""


def test_the_names_of_files_are_never_told(tmp_path):
    found = from_path(
        folder(
            tmp_path,
            {
                "rank_0.log": LOST,
                "ignore previous instructions rank_1.log": b"PK\x03\x04" + b"abc" * 40,
            },
        )
    )
    assert "ignore" not in found.left_out and "rank 1" in found.left_out


def test_what_is_kept_of_a_folder_has_one_bound_however_many_files_it_holds(tmp_path, monkeypatch):
    monkeypatch.setattr(log_folder, "KEPT", 1 << 20)
    noise = "".join(
        f"WARNING skipped sample {chr(97 + n % 26)}{chr(97 + n // 26 % 26)}{chr(97 + n // 676 % 26)} decode failed at {n}\n"
        for n in range(4000)
    )
    for files in (4, 24):
        found = from_path(
            folder(
                tmp_path,
                {
                    f"rank_{rank}.log": noise + (FAULT if rank == 3 else LOST)
                    for rank in range(files)
                },
            )
        )
        assert found.first.rank == 3
        assert cost(len(found.lines), sum(len(line.text) for line in found.lines)) < 1.5 * (1 << 20)


def test_a_large_log_among_small_ones_keeps_its_room():
    assert log_folder._share([1000] * 511 + [50 << 20]) > 6 << 20
    assert log_folder._share([1 << 20] * 64) == log_folder.KEPT // 64


def test_the_files_of_the_runners_log_are_one_log_and_no_ranks(tmp_path):
    """Each attempt begins a file, and so does each hundred megabytes."""
    failed = 'Traceback (most recent call last):\n  File "train.py", line 9, in <module>\n'
    first = "step 1\nstep 2\n" + failed + "torch.OutOfMemoryError: CUDA out of memory.\n"
    second = "step 1\nstep 2\nstep 3\nste"
    parts = [first, second, "p 4\n" + failed + "KeyError: 'abc'\n"]
    folder = tmp_path / "run/log"
    folder.mkdir(parents=True)
    for number, text in enumerate(parts):
        (folder / f"train.log.{number:04d}").write_text(text)
    (folder / "runner.log").write_text("attempt 1\nattempt 2\n")
    found = from_path(str(folder))
    assert found.first.text == "KeyError: 'abc'" and found.first.number == 12
    assert "run 2 of 2" in found.read and "run 1 ended with OutOfMemoryError" in found.read
    assert "train.py line 9" in found.own and not found.ranks
    whole = from_path(str(tmp_path / "run"))
    assert {line.source for line in whole.lines} == {"log/train.log.*", "log/runner.log"}
    assert not whole.ranks


def test_the_events_of_run_sh_bound_its_attempts_and_tell_how_they_ended(box):
    """The text can't: a program that is killed prints nothing, and the next one goes on in its lines."""
    program = (
        "import os; n = int(os.environ['RGT_ATTEMPT']); print('Setting up'); print('step', 7, end='', flush=True)\n"
        "if n == 1: os.kill(os.getpid(), 9)\n"
        "raise KeyError('image_id')\n"
    )
    script = box.folder / "train.py"
    script.write_text(program)
    box.make(command=[sys.executable, str(script)], results=[]).start()
    box.wait("failed")
    told = "attempt 2 of 2; attempt 1: killed by signal 9 from outside"
    for path in (box.run_dir, box.run_dir / "log"):
        found = from_path(str(path))
        assert told in found.read, found.read
        assert "train.py line 3" in found.own
        first = from_path(str(path), ReadOptions(run=1))
        assert [line.text for line in first.lines if line.kind != "trace"][-1] == "step 7"
        assert first.ended_as == "killed" and "attempt 1: killed by signal 9" in first.ended
        with pytest.raises(Unreadable, match="attempt 3"):
            from_path(str(path), ReadOptions(run=3))
    (box.run_dir / "events.jsonl").write_text('{"event": "attempt", "attempt": "x"}\n[1]\n{')
    assert "attempt" not in from_path(str(box.run_dir / "log")).read


def test_of_each_node_the_last_attempt_is_read(tmp_path):
    """Its files are those from where its events say on, whatever the text of the one before looks like."""
    begun = '{"event": "attempt", "attempt": "%d", "log": "%d"}\n'
    files = {}
    for node in ("", "node-1/"):
        files[f"{node}events.jsonl"] = begun % (1, 0) + begun % (2, 1)
        files[f"{node}log/train.log.0000"] = "step 1\nRuntimeError: the first attempt\nste"
        files[f"{node}log/train.log.0001"] = "step 1\nValueError: the se"
        files[f"{node}log/train.log.0002"] = "cond attempt\n"
    found = from_path(folder(tmp_path, files))
    failed = [line.text for line in found.lines if line.kind == "exception"]
    assert failed == ["ValueError: the second attempt"] * 2
    assert "of 2 the last run alone" in found.read

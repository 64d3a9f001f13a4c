"""The snapshot of a run: how ranks are compared, and that nothing that hangs holds it up."""

import base64
import os
import subprocess
import sys
import threading
import time
import zlib

import pytest
from remote_gpu_trainer.runner import snapshots
from remote_gpu_trainer.runner.folder import Folder
from remote_gpu_trainer.snapshot import collect, files, machine, members, processes, program
from remote_gpu_trainer.snapshot.frames import (
    find_place,
    format_as_py_spy,
    main_frames,
    parse_fault_handler,
    parse_py_spy,
)
from remote_gpu_trainer.snapshot.judge import compare_ranks, find_standings
from remote_gpu_trainer.snapshot.page import PAGE_TOKENS, estimate_tokens, format_page

TORCH = "/opt/venv/lib/python3.11/site-packages/torch/"
MODULE = ["<module>", "/home/u/train.py", "90"]
IN_BARRIER = [["barrier", f"{TORCH}distributed/distributed_c10d.py", "4"],
              ["wrapper", f"{TORCH}distributed/c10d_logger.py", "8"],
              ["main", "/home/u/train.py", "31"], MODULE]  # fmt: skip
IN_BACKWARD = [["_engine_run_backward", f"{TORCH}autograd/graph.py", "8"],
               ["backward", f"{TORCH}autograd/__init__.py", "3"],
               ["backward", f"{TORCH}_tensor.py", "5"], ["step", "/home/u/train.py", "52"], MODULE]  # fmt: skip
IN_OWN = [["augment", "/home/u/data.py", "7"], MODULE]


def snapshot(*stacks: list, expected: int = 0, **more) -> dict:
    """A snapshot of ranks with these main stacks, all in state S unless `states` says otherwise."""
    states = more.pop("states", {})
    ranks = [
        {"rank": rank, "name": f"rank {rank}", "pid": 100 + rank, "world": 4, "state": "S",
         "cpu": 0.0, "main": 0.0, "rss_mb": 9, "call": {}, "wchan": "", "how": "faulthandler",
         "threads": [{"name": "", "main": True, "frames": stack}] if stack else [],
         "children": [], "output": {}, **states.get(rank, {})}
        for rank, stack in enumerate(stacks)
    ]  # fmt: skip
    usual = {
        "why": "asked", "at": 1, "host": "gpu", "folder": "/r/toy", "end": "", "run": {},
        "ranks": ranks, "expected": list(range(expected)), "gone": {}, "zombies": [],
        "processes": [], "others": [], "cards": {"cards": []}, "kernel": {"lines": [], "xids": []},
        "memory": {}, "disks": {}, "shm": {}, "sockets": [], "software": {}, "checkpoint": {},
        "log": {}, "recorder": {"left_out": []}, "files": {}, "missing": {},
    }  # fmt: skip
    return {**usual, **more}


def odd(*taken: dict) -> tuple[list[str], list[str]]:
    first, rest = compare_ranks(find_standings(list(taken)))
    return [one.text for one in first], [one.text for one in rest]


FAULT = """\
Thread 0x00007f1a540646c0 [pin_memory] (most recent call first):
  File "/x/queue.py", line 4 in get
  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap

Current thread 0x00007f1a54dc9b80 (most recent call first):
  File "/home/u/train.py", line 7 in step
  File "/home/u/train.py", line 8 in <module>
"""
SPY = """\
Process 8114: python train.py
Python v3.11.7 (/usr/bin/python3.11)

Thread 8120 (idle): "Thread-1 (_wait)"
    wait (threading.py:331)
Thread 8114 (active+gil): "MainThread"
    step (/home/u/train.py:7)
    <module> (/home/u/train.py:8)
"""


def test_both_forms_of_a_stack_tell_the_main_thread():
    for threads in (parse_fault_handler(FAULT), parse_py_spy(SPY)):
        assert len(threads) == 2
        assert main_frames(threads) == [
            ["step", "/home/u/train.py", "7"],
            ["<module>", "/home/u/train.py", "8"],
        ]


def test_a_signal_that_another_thread_took_makes_that_one_not_the_main_one():
    text = FAULT.replace("Thread 0x00007f1a540", "Current thread 0x00007f1a540")
    text = text.replace("Current thread 0x00007f1a54dc9b80", "Thread 0x00007f1a54dc9b80")
    assert main_frames(parse_fault_handler(text))[0][0] == "step"


def test_what_is_written_is_what_the_look_up_reads():
    text = "rank 3\n" + format_as_py_spy(8114, "python train.py", parse_fault_handler(FAULT))
    assert parse_py_spy(text)[0]["frames"][0] == ["step", "/home/u/train.py", "7"]


@pytest.mark.parametrize(
    ("stack", "kind", "text"),
    [
        (IN_BARRIER, "collective", "barrier, from main (train.py:31)"),
        (IN_BACKWARD, "backward", "backward, from step (train.py:52)"),
        (IN_OWN, "", "augment (data.py:7)"),
        ([["wait", "/usr/lib/python3.11/threading.py", "3"], ["flush", "/home/u/t.py", "9"]],
         "leaving", "wait, from flush (t.py:9)"),
        ([["_shutdown", "/usr/lib/python3.11/threading.py", "3"]], "leaving", "_shutdown, from _shutdown (threading.py:3)"),
        ([["init_process_group", f"{TORCH}distributed/distributed_c10d.py", "3"], MODULE],
         "joining", "init_process_group, from <module> (train.py:90)"),
        ([["_try_get_data", f"{TORCH}utils/data/dataloader.py", "3"], MODULE],
         "data", "the data loader, from <module> (train.py:90)"),
    ],
)  # fmt: skip
def test_a_place_is_the_call_and_where_the_users_code_made_it(stack, kind, text):
    place = find_place(stack)
    assert place is not None and (place.kind, place.text()) == (kind, text)


def test_a_rank_outside_the_collective_is_the_odd_one_even_if_most_are_outside():
    told, rest = odd(snapshot(IN_OWN, IN_OWN, IN_OWN, IN_BARRIER))
    assert told == ["ranks 0-2: in own code, augment (data.py:7): waits"]
    assert rest == ["rank 3: in barrier, from main (train.py:31)"]


def test_of_two_different_collectives_the_one_with_fewer_ranks_is_odd():
    told, rest = odd(snapshot(IN_BARRIER, IN_BACKWARD, IN_BACKWARD))
    assert told == ["rank 0: in barrier, from main (train.py:31)"] and rest[0].startswith(
        "ranks 1-2"
    )


def test_of_two_camps_of_equal_size_both_are_told():
    told, rest = odd(snapshot(IN_BARRIER, IN_BACKWARD))
    assert len(told) == 2 and not rest


def test_ranks_that_all_wait_in_one_place_make_none_of_them_odd():
    told, rest = odd(snapshot(IN_BARRIER, IN_BARRIER))
    assert not told and rest == ["ranks 0-1: in barrier, from main (train.py:31)"]
    assert "odd: no rank differs. Ranks 0-1: in barrier" in format_page(
        [snapshot(IN_BARRIER, IN_BARRIER)]
    )


def test_ranks_that_all_move_on_are_not_compared():
    states = {rank: {"again": [["other", "/home/u/train.py", "1"], MODULE]} for rank in range(3)}
    told, rest = odd(snapshot(IN_OWN, IN_BARRIER, IN_BACKWARD, states=states))
    assert not told and rest == ["ranks 0-2: all move on, so the run trains"]
    states[1] = {"again": IN_BARRIER}
    assert odd(snapshot(IN_OWN, IN_BARRIER, IN_BACKWARD, states=states))[0]


def test_without_stacks_nobody_is_said_to_be_alike():
    states = {rank: {"how": "", "call": {"name": "futex"}} for rank in range(2)}
    text = format_page([snapshot([], [], states=states)])
    assert "odd: can't be told without Python stacks. Ranks 0-1: waits for a lock" in text
    assert "pip install py-spy" in text and "no rank differs" not in text


def test_the_dead_come_before_the_stopped_and_both_before_the_late():
    states = {1: {"state": "T"}}
    dead = snapshot(IN_OWN, IN_BARRIER, IN_BARRIER, expected=4, gone={"3": 77}, states=states)
    dead["zombies"] = [{"pid": 77, "parent": 1, "status": 9, "name": "python"}]
    told, rest = odd(dead)
    assert told[0] == "rank 3: dead: killed by SIGKILL (pid 77)"
    assert told[1].startswith("rank 1: stopped by a signal") and told[2].startswith(
        "rank 0: in own"
    )
    assert rest == ["rank 2: in barrier, from main (train.py:31)"]


def test_one_that_reads_is_in_state_d_now_and_then_and_not_stuck():
    for steady, kind in ((True, "stuck"), (False, "own")):
        told = snapshot(IN_OWN, states={0: {"state": "D", "steady": steady}})
        assert find_standings([told])[0].kind == kind


def test_a_kill_for_memory_is_told_with_the_rank():
    lines = ["Memory cgroup out of memory: Killed process 77 (python) total-vm:1kB"]
    gone = snapshot(IN_BARRIER, gone={"1": 77}, kernel={"lines": lines, "xids": []})
    assert odd(gone)[0][0] == (
        "rank 1: dead: its process is gone (pid 77); the kernel killed it for want of memory"
    )


def test_one_zombie_and_one_missing_rank_are_the_same_where_no_pid_is_known():
    told = snapshot(IN_BARRIER, IN_BARRIER, expected=3)
    told["zombies"] = [{"pid": 9, "parent": 1, "status": 256, "name": "python"}]
    assert odd(told)[0] == ["rank 2: dead: ended with exit code 1 (pid 9)"]
    told["gone"] = {"2": 77}
    assert odd(told)[0] == ["rank 2: dead: its process is gone (pid 77)"], "the zombie is another"


def test_a_sender_that_others_wait_for_in_vain_is_told_by_its_sockets():
    sockets = [{"of": "rank 1", "to": "rank 0", "state": "established", "unread": 64, "unsent": 0,
                "peer": "127.0.0.1:1"}]  # fmt: skip
    assert "64 bytes wait for rank 1" in format_page(
        [snapshot(IN_BARRIER, IN_BARRIER, sockets=sockets)]
    )


def test_sixty_four_ranks_with_everything_odd_keep_to_the_page():
    long = "/data/" + "very-long-folder-name/" * 6
    told = snapshot(
        *[[["f" * 60, f"{long}{n}.py", str(n)], MODULE] for n in range(64)], expected=80
    )
    told["kernel"] = {
        "lines": [f"NVRM: Xid (PCI:0000:3b:00): {n}, pid=1" for n in range(40)],
        "xids": list(range(40)),
    }
    told["disks"] = {f"{long}{n}": {"free_mb": 1, "total_mb": 10**6} for n in range(30)}
    told["log"] = {"text": "x y " * 5000 + "\n", "age": 3}
    text = format_page([told, {**told, "host": "b"}])
    assert estimate_tokens(text) <= PAGE_TOKENS and "odd:" in text


def test_a_collector_that_hangs_is_left_behind_and_named(tmp_path, monkeypatch):
    monkeypatch.setattr(collect, "read_disk", lambda path: time.sleep(60))
    monkeypatch.setattr(collect, "read_log", lambda folder: time.sleep(60))
    began = time.monotonic()
    told = collect.collect_snapshot(str(tmp_path), 4)
    assert time.monotonic() - began < 30
    assert {"log", "shm"} <= set(told["missing"]) and any(
        n.startswith("disk ") for n in told["missing"]
    )
    assert "its file system may hang" in format_page([told])


def test_the_run_folder_may_hang_and_the_ranks_are_named_all_the_same(tmp_path, monkeypatch):
    env = {**os.environ, "RGT_RUN_DIR": str(tmp_path), "RANK": "3", "WORLD_SIZE": "4"}
    child = subprocess.Popen([sys.executable, "-c", "input()"], env=env, stdin=subprocess.PIPE)
    try:
        monkeypatch.setattr(collect, "_noted_process", lambda *_: time.sleep(60))
        time.sleep(0.3)
        told = collect.collect_snapshot(str(tmp_path), 6)
        assert [one["rank"] for one in told["ranks"]] == [3]
        assert told["ranks"][0]["pid"] == child.pid and "folder" in told["missing"]
    finally:
        child.kill()
        child.communicate()


def test_only_variables_that_matter_are_told_and_no_name_of_a_secret():
    env = {"NCCL_DEBUG": "INFO", "HOME": "/root", "HF_TOKEN": "x", "NCCL_AUTH_KEY": "abc",
           "MASTER_ADDR": "10.0.0.1", "WANDB_API_KEY": "x"}  # fmt: skip
    assert machine.choose_variables(env) == {"MASTER_ADDR": "10.0.0.1", "NCCL_DEBUG": "INFO"}


def test_dumps_are_taken_whole_newest_first_and_large_ones_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LARGEST_TRACE", 100)
    monkeypatch.setattr(files, "ALL_TRACES", 150)
    for at, size in enumerate((90, 90, 200)):
        (tmp_path / f"fr_{at}").write_bytes(b"\x80" * size)
        os.utime(tmp_path / f"fr_{at}", (10 + at, 10 + at))
    envs = {str(n): {"TORCH_FR_DUMP_TEMP_FILE": str(tmp_path / "fr_")} for n in range(3)}
    told = files.read_dumps(envs, "", 0)
    assert zlib.decompress(base64.b64decode(told["files"]["fr_1"])) == b"\x80" * 90
    assert sorted(told["left_out"]) == [str(tmp_path / "fr_0"), str(tmp_path / "fr_2")]
    assert files.read_dumps(envs, "", 11.5)["files"] == {}


def test_a_log_begins_at_a_whole_line_and_is_masked(tmp_path):
    (tmp_path / "log").mkdir()
    (tmp_path / "log/train.log.0000").write_bytes(b"password=" + b"s" * 300_000 + b"\nstep 1\n")
    (tmp_path / "log/train.log.0001").write_text("api_key=abcdefghijklmnop\nstep 2\n")
    assert files.read_log(str(tmp_path))["text"] == "step 1\napi_key=***\nstep 2\n"


def test_a_waiting_call_is_named_with_its_file(tmp_path):
    os.mkfifo(tmp_path / "feed")
    child = subprocess.Popen([sys.executable, "-c", f"open({str(tmp_path / 'feed')!r})"])
    try:
        until = time.monotonic() + 10
        while processes.waiting_call(child.pid).get("name") != "open" and time.monotonic() < until:
            time.sleep(0.05)
        assert processes.waiting_call(child.pid) == {"name": "open", "file": str(tmp_path / "feed")}
    finally:
        child.kill()
        child.wait()


def test_a_process_that_is_gone_tells_nothing():
    child = subprocess.Popen(["true"])
    child.wait()
    assert processes.examine_process(child.pid) == {}


def test_who_was_which_rank_is_remembered(tmp_path):
    folder = Folder(str(tmp_path))
    folder.make()
    env = {**os.environ, "RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
    child = subprocess.Popen([sys.executable, "-c", "input()"], env=env, stdin=subprocess.PIPE)
    try:
        until = time.monotonic() + 10
        while not members.is_python(child.pid) and time.monotonic() < until:
            time.sleep(0.02)
        snapshots.note_ranks(folder, [child.pid])
        found = members.find_members([child.pid])
        assert members.expected_ranks(found, False) == [4, 5, 6, 7]
        assert members.gone_ranks(folder.json(snapshots.ROLL), []) == {}
    finally:
        child.kill()
        child.communicate()
    assert members.gone_ranks(folder.json(snapshots.ROLL), []) == {5: child.pid}


def test_the_ranks_below_a_launcher_count_and_their_workers_do_not(tmp_path):
    text = (
        "import os, subprocess, sys, time\n"
        "env = {**os.environ, 'RANK': '0', 'WORLD_SIZE': '1'}\n"
        "inner = 'import os, time; os.fork(); time.sleep(60)'\n"
        "subprocess.Popen([sys.executable, '-c', inner], env=env)\n"
        "print('ready', flush=True)\ntime.sleep(60)\n"
    )
    env = {**os.environ, "RGT_RUN_DIR": str(tmp_path)}
    child = subprocess.Popen([sys.executable, "-c", text], env=env, stdout=subprocess.PIPE)
    try:
        assert child.stdout and child.stdout.readline() == b"ready\n"
        until = time.monotonic() + 10
        while len(pids := members.find_runs().get(str(tmp_path), ())) < 3:
            assert time.monotonic() < until
            time.sleep(0.05)
        found = members.find_members(pids)
        assert [one["rank"] for one in found] == [0] and len(found[0]["children"]) == 1
        assert child.pid not in (found[0]["pid"], *found[0]["children"])
    finally:
        for pid in members.find_runs().get(str(tmp_path), ()):
            os.kill(pid, 9)
        child.communicate()


def test_a_thread_does_not_hold_a_snapshot_up(tmp_path):
    held = threading.Lock()
    held.acquire()
    thread = threading.Thread(target=held.acquire, daemon=True)
    thread.start()
    assert collect.collect_snapshot(str(tmp_path), 5)["ranks"] == []
    held.release()
    thread.join(5)


def test_a_run_of_another_home_is_not_this_users(tmp_path, monkeypatch):
    """On a box that several share, all as root, each with a home of its own."""
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    theirs, mine = tmp_path / "you/runs/b", tmp_path / "me/runs/a"
    for folder in (theirs, mine):
        folder.mkdir(parents=True)
        (folder / "run.sh").touch()
    env = {**os.environ, "HOME": str(tmp_path / "you"), members.RUN_MARK: str(theirs)}
    with subprocess.Popen(["sleep", "60"], env=env) as other:
        assert str(theirs) in members.find_runs()
        assert program.newest_run() == str(mine)
        monkeypatch.setenv("HOME", str(tmp_path / "you"))
        assert program.newest_run() == str(theirs)
        other.kill()


def test_what_another_home_trains_without_a_run_hides_no_run_of_this_user(tmp_path, monkeypatch):
    for name in ("you", "me"):
        (tmp_path / name / "runs/a").mkdir(parents=True)
        (tmp_path / name / "runs/a/run.sh").touch()
    env = {**os.environ, "HOME": str(tmp_path / "you"), "RANK": "0", "WORLD_SIZE": "1"}
    with subprocess.Popen(["sleep", "60"], env=env) as other:
        monkeypatch.setenv("HOME", str(tmp_path / "me"))
        assert program.newest_run() == str(tmp_path / "me/runs/a")
        monkeypatch.setenv("HOME", str(tmp_path / "you"))
        assert program.newest_run() == ""
        other.kill()

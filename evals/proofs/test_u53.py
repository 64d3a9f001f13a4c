"""U53: processes and threads share one count, and at its limit neither can be started. Limits are set in a child only."""

import itertools
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from check_code import span
from torch.utils.data import DataLoader

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and /proc")

LIMITED = """
import os, resource, subprocess, sys, threading, time

if os.geteuid() == 0:  # root has no such limit, so the child becomes a user of whom nothing else runs
    os.setgroups([])
    os.setgid(int(sys.argv[3]))
    os.setuid(int(sys.argv[3]))


def held():
    "Tasks of this user on the machine: threads, not only processes."
    tasks = 0
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.stat(f"/proc/{process}").st_uid == os.getuid():
                tasks += len(os.listdir(f"/proc/{process}/task"))
        except OSError:
            pass
    return tasks


room = 60
resource.setrlimit(resource.RLIMIT_NPROC, (held() + room,) * 2)
done = threading.Event()


def threads(number):
    started = []
    try:
        for _ in range(number):
            started.append(threading.Thread(target=done.wait, daemon=True))
            started[-1].start()
    except RuntimeError as error:
        print("RuntimeError:", error, flush=True)
        return
    print("started", len(started), flush=True)


what, number = sys.argv[1], int(sys.argv[2])
if what == "threads":
    threads(number)
elif what == "forks":
    threads(number)
    try:
        if os.fork() == 0:
            os._exit(0)
        print("forked", flush=True)
    except OSError as error:
        print(f"{type(error).__name__}: {error}", flush=True)
elif what == "left":  # processes of an earlier run that still sleep
    old = []
    while len(old) < number:
        try:
            old.append(subprocess.Popen(["sleep", "30"]))
        except OSError as error:
            print(f"{type(error).__name__}: {error}", flush=True)
            break
    threads(5)
    for process in old:
        process.kill()
        process.wait()
    threads(5)
elif what == "zombies":  # they ended, and nobody waited for them
    for _ in range(number):
        try:
            if os.fork() == 0:
                os._exit(0)
        except OSError:
            break
    time.sleep(0.2)
    threads(5)
    try:
        while True:
            os.waitpid(-1, 0)
    except ChildProcessError:
        threads(5)
elif what == "check":
    old = [subprocess.Popen(["sleep", "30"]) for _ in range(number)]
    subprocess.run(["bash", "-c", sys.argv[4]], stderr=subprocess.DEVNULL)
    for process in old:
        process.kill()
elif what == "bash":
    loop = f"for i in $(seq {number}); do sleep 5 & done"
    shell = subprocess.Popen(["bash", "-c", loop], stderr=subprocess.PIPE, text=True, start_new_session=True)
    print(shell.stderr.readline(), end="", flush=True)
    os.killpg(shell.pid, 9)
os._exit(0)
"""


CALLS = itertools.count()


def limited(what, number, *more):
    """Runs beside 60 free tasks; under root as a user number that nobody has, another for each call."""
    user = 1_900_000_000 + os.getpid() % 1_000_000 * 100 + next(CALLS)
    child = subprocess.run(
        [sys.executable, "-S", "-c", LIMITED, what, str(number), str(user), *more],
        cwd="/",
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert child.returncode == 0, child.stderr
    return child.stdout.splitlines()


def test_a_pool_as_wide_as_the_server_finds_no_room_and_a_small_one_does(says):
    (refused,) = limited("threads", 384)
    assert refused == "RuntimeError: can't start new thread"
    says("U53", refused)
    assert limited("threads", 4) == ["started 4"]


def test_threads_use_up_what_a_fork_needs(says):
    assert (
        limited("forks", 384)[1] == "BlockingIOError: [Errno 11] Resource temporarily unavailable"
    )
    assert limited("forks", 4) == ["started 4", "forked"]


def test_left_over_processes_block_the_next_run_until_they_are_ended():
    spawn, before, after = limited("left", 384)
    assert "Resource temporarily unavailable" in spawn
    assert before == "RuntimeError: can't start new thread"
    assert after == "started 5"


def test_zombies_count_until_their_parent_waits():
    assert limited("zombies", 384) == ["RuntimeError: can't start new thread", "started 5"]


def test_bash_reports_it_in_the_words_of_the_signature(says):
    """A shell forks for each command, its builtins need none."""
    (line,) = limited("bash", 384)
    assert "fork: retry: Resource temporarily unavailable" in line
    says("U53", line)


NARROW = """
import resource, threading

size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + (100 << 20),) * 2)
threading.stack_size(8 << 20)  # what a thread has where ulimit -s is 8192
done = threading.Event()
for number in range(100):
    try:
        threading.Thread(target=done.wait, daemon=True).start()
    except RuntimeError as error:
        print(number, error)
        break
"""


def test_a_limit_of_the_address_space_stops_threads_in_the_same_words():
    child = subprocess.run(
        [sys.executable, "-S", "-c", NARROW],
        # A thread that allocates while another holds the heap reserves 64 MiB for a heap of its own.
        env={**os.environ, "MALLOC_ARENA_MAX": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    number, words = child.stdout.strip().split(" ", 1)
    assert words == "can't start new thread"
    assert 5 <= int(number) <= 100 // 8


def tasks(process):
    """Threads of a process and of all its children."""
    number = 0
    for task in Path(f"/proc/{process}/task").iterdir():
        number += 1 + sum(map(tasks, (task / "children").read_text().split()))
    return number


def test_a_worker_of_a_loader_counts_as_several_tasks():
    before = tasks(os.getpid())
    batches = iter(
        DataLoader(range(160), batch_size=2, num_workers=4, multiprocessing_context="fork")
    )
    for _ in range(40):
        next(batches)
    during = tasks(os.getpid()) - before
    batches._shutdown_workers()
    time.sleep(0.2)
    assert 3 * 4 <= during <= 5 * 4
    assert tasks(os.getpid()) <= before + 1


@pytest.mark.parametrize(("left", "near"), [(45, True), (0, False)])
def test_the_check_shows_a_count_near_the_users_limit_only_when_it_is_near(left, near):
    """The user has no name, as in a container that was started with a number."""
    limit, held = map(int, limited("check", left, span("U53", "wc -l"))[-2:])
    assert (limit - held < 20) is near
    assert held >= left

"""A trainer of several ranks on gloo that hangs or dies in a chosen way, for tests of the snapshot.

usage: hang_program.py KIND FOLDER RANKS

It starts its ranks and waits for them in order. They train two steps together. At the third, rank 1
does what KIND says, while the others go on to the next collective. Each writes FOLDER/ready-RANK
just before.
"""

import atexit
import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

VICTIM = 1
KIND, FOLDER, WORLD = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
RANK = int(os.environ.get("RANK", "-1"))

if RANK >= 0:
    import torch
    import torch.distributed as dist


def ready():
    (FOLDER / f"ready-{RANK}").touch()


class Guarded:
    """A data set whose lock another thread took and never gives back."""

    def __init__(self):
        self.lock = threading.Lock()

    def __len__(self):
        return 8

    def __getitem__(self, index):
        with self.lock:
            return torch.zeros(1)


def next_batch(workers=0):
    guarded = Guarded()
    guarded.lock.acquire()
    ready()
    loader = torch.utils.data.DataLoader(guarded, batch_size=2, num_workers=workers)
    return next(iter(loader))


def next_batch_of_a_worker():
    return next_batch(1)


def killed():
    ready()
    os.kill(os.getpid(), signal.SIGKILL)


def stopped():
    ready()
    os.kill(os.getpid(), signal.SIGSTOP)


def slow_step():
    ready()
    total, end = 0, time.monotonic() + 300
    while time.monotonic() < end:
        total += sum(range(1000))
    return total


def loop_in_c():
    ready()
    sum(range(10**12))  # one call of C, which gives the interpreter's lock to nobody


def deadlock_in_c():
    mutex = ctypes.create_string_buffer(64)
    libc = ctypes.PyDLL(None)  # keeps the interpreter's lock during the call
    libc.pthread_mutex_lock(mutex)
    ready()
    libc.pthread_mutex_lock(mutex)


def read_fifo():
    path = FOLDER / "feed.fifo"
    os.mkfifo(path)
    ready()
    with open(path) as file:
        return file.read()


def stuck_in_kernel():
    """Its child waits for a FIFO before the exec, and until then this process is in state D."""
    path = FOLDER / "exec.fifo"
    os.mkfifo(path)
    ready()
    actions = [(os.POSIX_SPAWN_OPEN, 0, str(path), os.O_RDONLY, 0)]
    os.posix_spawn("/bin/true", ["true"], {}, file_actions=actions)


def flush_at_exit():
    ready()
    threading.Event().wait()


def raised():
    atexit.register(flush_at_exit)
    raise ValueError("shape mismatch in the head")


def another_collective():
    ready()
    dist.broadcast(torch.ones(4), src=0)


def train_on():
    """No hang: all ranks compute and meet, step after step."""
    ready()
    tensor, weights, end = torch.ones(4), torch.ones(200, 200), time.monotonic() + 300
    while time.monotonic() < end:
        for _ in range(3):
            weights = (weights @ weights).clamp(0, 1)
        step(tensor.fill_(1))


KINDS = {
    "loader": next_batch,
    "worker": next_batch_of_a_worker,
    "killed": killed,
    "stopped": stopped,
    "slow": slow_step,
    "loop": loop_in_c,
    "deadlock": deadlock_in_c,
    "fifo": read_fifo,
    "stuck": stuck_in_kernel,
    "raised": raised,
    "collective": another_collective,
}


def step(tensor):
    dist.all_reduce(tensor)


def wait_for_all():
    """Wait for a rank that doesn't come, as under NCCL, which doesn't see the end of a peer."""
    dist.distributed_c10d._get_default_store().wait(["all-are-there"])


def train():
    dist.init_process_group("gloo")
    tensor = torch.ones(4)
    for number in range(6):
        print(f"step {number}", flush=True)
        if number == 2 and KIND == "healthy":
            train_on()
        elif number == 2 and RANK == VICTIM:
            KINDS[KIND]()
        elif number == 2:
            ready()
            if KIND == "killed":
                wait_for_all()
        step(tensor)
        time.sleep(0.05)


def launch():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    children = []
    for rank in range(WORLD):
        own = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": WORLD, "LOCAL_WORLD_SIZE": WORLD}
        own |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": 1}
        env = {**os.environ, **{name: str(value) for name, value in own.items()}}
        children.append(subprocess.Popen([sys.executable, *sys.argv], env=env))
    for child in children:
        child.wait()


train() if RANK >= 0 else launch()

"""Forks the ranks of a script from one process that has imported torch already.

It reads one request a line from stdin, `{script, nproc, logs}` in JSON, and answers with the exit code of the job: 0, or 1 where a rank
failed. As under torchrun, a failed rank ends the others, and `logs/RANK/stdout.log` and `stderr.log` hold what a rank printed.
"""

import json
import os
import runpy
import signal
import socket
import sys
import time

# What takes long: DistributedDataParallel and optimizers import torch._dynamo when they are first used.
import torch._dynamo
import torch.distributed.fsdp
import torch.utils.data  # noqa: F401


def become(rank: int, nproc: int, port: int, logs: str) -> None:
    """Make this process the rank of a job on this machine."""
    os.setsid()
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "GROUP_RANK": "0",
        "WORLD_SIZE": str(nproc),
        "LOCAL_WORLD_SIZE": str(nproc),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    folder = os.path.join(logs, str(rank))
    os.makedirs(folder)
    for number, name in ((1, "stdout.log"), (2, "stderr.log")):
        os.dup2(os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CREAT), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)


def ended(ranks: set[int]) -> int:
    """Wait for the ranks, and end those that are left once one has failed."""
    code, told = 0, 0.0
    while ranks:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            ranks.discard(pid)
            code = code or int(status != 0)
        if code and (not told or time.monotonic() > told + 5):
            for other in ranks:
                os.kill(other, signal.SIGKILL if told else signal.SIGTERM)
            told = time.monotonic()
        if not pid:
            time.sleep(0.02)
    return code


def main() -> str:
    """Serve requests; in a rank, return the script that it has to run."""
    for line in sys.stdin:
        request = json.loads(line)
        with socket.socket() as server:
            server.bind(("127.0.0.1", 0))
            port = server.getsockname()[1]
        ranks = set()
        for rank in range(request["nproc"]):
            pid = os.fork()
            if not pid:
                become(rank, request["nproc"], port, request["logs"])
                return request["script"]
            ranks.add(pid)
        print(ended(ranks), flush=True)
    raise SystemExit


def leave(code: int) -> None:
    """End this rank while its objects are still there.

    On the interpreter's own way down a DDP model frees its group and waits for gloo's thread, while that thread may
    wait for the interpreter's lock to free a tensor: the rank hangs, or aborts (torch 2.13).
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


script = main()
sys.argv = [script]
sys.path.insert(0, os.path.dirname(script))
try:
    kept = runpy.run_path(script, run_name="__main__")
except SystemExit as ended:
    leave(ended.code or 0)
except BaseException:
    sys.excepthook(*sys.exc_info())
    leave(1)
leave(0)

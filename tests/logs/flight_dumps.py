"""Dumps of PyTorch's Flight Recorder, made by real ranks over gloo and written as NCCL writes them.

gloo records every call, but leaves out three things that NCCL tells: the backend's name, whether a call has ended
(gloo only retires it), and which ranks a group has. `as_nccl` puts them in. Stacks keep the script's own frames.
"""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path

# What each rank does in the group of a case, after two calls that are alike everywhere: {case: (ranks, kind, the fourth
# number of the ranks' calls)}. Kinds as in logs/flight_recorder.py; None: nothing is wrong.
CASES = {
    "healthy two": (2, None, "reduce(); dist.barrier(group)"),
    "healthy four in two groups": (4, None, "reduce(); dist.broadcast(ones(3), 0)"),
    "one of two stays away": (2, "missing", "rank == 0 and reduce()"),
    "the last of four stays away": (4, "missing", "rank != 3 and reduce()"),
    "two of four stay away": (4, "missing", "rank in (0, 3) and reduce()"),
    "one never comes at all": (3, "missing", "rank != 1 and dist.barrier(other)"),
    "one of three gathers": (3, "op", "gather() if rank == 1 else reduce()"),
    "rank 0 stands in a barrier": (4, "op", "dist.barrier(group) if rank == 0 else reduce()"),
    "one of four has other sizes": (4, "sizes", "reduce(6 if rank == 2 else 4)"),
    "two with two sizes": (2, "sizes", "dist.broadcast(ones(4 + rank), 0, group)"),
}
# The ranks that are at odds with the rest, and the number of the call.
EXPECTED = {
    "one of two stays away": ({1}, 3),
    "the last of four stays away": ({3}, 3),
    "two of four stay away": ({1, 2}, 3),
    "one never comes at all": ({1}, 1),
    "one of three gathers": ({1}, 3),
    "rank 0 stands in a barrier": ({0}, 3),
    "one of four has other sizes": ({2}, 3),
    "two with two sizes": ({0, 1}, 3),
}

PROGRAM = """
    import datetime, faulthandler, os, sys, threading, time, torch, torch.distributed as dist
    from torch._C._distributed_c10d import _dump_fr_trace
    faulthandler.dump_traceback_later(60, exit=True)  # whatever hangs
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=9))
    rank, ones = dist.get_rank(), torch.ones
    group = dist.group.WORLD
    other = dist.new_group(timeout=datetime.timedelta(seconds=9))
    def reduce(size=4):
        dist.all_reduce(ones(size), group=group)
    def gather():
        dist.all_gather_into_tensor(ones(4 * dist.get_world_size()), ones(4), group=group)
    def dump():
        with open(f"{{sys.argv[1]}}/raw_{{rank}}", "wb") as to:
            to.write(_dump_fr_trace(True, True, False))
        time.sleep(2)
        os._exit(0)
    reduce(), reduce()
    threading.Timer(3, dump).start()  # while the others wait, as NCCL's watchdog does
    try:
        {third}
    except RuntimeError:
        open(f"{{sys.argv[1]}}/refused_{{rank}}", "w").close()
    time.sleep(60)
"""


def made(case: str, folder: Path) -> dict[int, dict]:
    """{rank: dump}: the case run for real under torchrun, which takes some ten seconds."""
    ranks, _, third = CASES[case]
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "hang.py"
    script.write_text(textwrap.dedent(PROGRAM).format(third=third), encoding="utf-8")
    command = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    done = subprocess.run(
        [sys.executable, *command, str(script), str(folder)],
        capture_output=True,
        text=True,
        timeout=400,
    )
    found = {}
    for rank in range(ranks):
        assert (folder / f"raw_{rank}").exists(), done.stdout + done.stderr
        dump = pickle.loads((folder / f"raw_{rank}").read_bytes())
        if (folder / f"refused_{rank}").exists():  # gloo compares sizes and raises; NCCL waits
            dump["entries"][-1]["retired"] = False
        found[rank] = as_nccl(dump, script.name, ranks)
    return found


def as_nccl(dump: dict, script: str, ranks: int) -> dict:
    """gloo's dump with what NCCL's has beside it; see above."""
    for entry in dump["entries"]:
        entry["profiling_name"] = entry["profiling_name"].replace("gloo:", "nccl:")
        entry["state"] = "completed" if entry["retired"] else "started"
        own = [frame for frame in entry["frames"] if frame["filename"].endswith(script)]
        entry["frames"] = [{**frame, "filename": script} for frame in own]
    names = {entry["process_group"] for entry in dump["entries"]} | {("0", "default_pg")}
    dump["pg_config"] = {
        name: {"name": name, "desc": desc, "ranks": str(list(range(ranks)))}
        for name, desc in sorted(names)
    }
    return json.loads(json.dumps(dump))  # as a record holds it


def written(dumps: dict, folder: Path, prefix: str = "nccl_trace_rank_", form=None) -> Path:
    """Write {rank: dump} as files of that prefix, as pickles or by `form(dump)`."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank, dump in dumps.items():
        entries = [{**e, "process_group": tuple(e["process_group"])} for e in dump["entries"]]
        data = (form or (lambda d: pickle.dumps(d, protocol=2)))({**dump, "entries": entries})
        (folder / f"{prefix}{rank}").write_bytes(data)
    return folder

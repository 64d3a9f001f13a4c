"""One rank of a small run with one fault: reduces a tensor each step, and fails as told.

usage (under torchrun): faulty_worker.py KIND FORM RANK STEP
KIND: one of FAULTS below; FORM: which of its forms; RANK: who, or "all"; STEP: when.
"""

import datetime
import logging
import os
import resource
import signal
import sys
import time

import torch
import torch.distributed as dist

STEPS = 6
START = datetime.timedelta(seconds=180)  # eight ranks on two cores start slowly
PATIENCE = 4  # seconds that a collective may take


def label_out_of_range():
    torch.nn.functional.cross_entropy(torch.zeros(2, 3), torch.tensor([1, 7]))


def setting_missing():
    {"learning_rate": 0.1}["warmup_ratio"]


def unequal_samples():
    torch.utils.data.default_collate([torch.zeros(3), torch.zeros(5)])


def killed():
    os.kill(os.getpid(), signal.SIGKILL)


def stopped():
    os.kill(os.getpid(), signal.SIGSTOP)


def little_memory():
    """From here on the system refuses this process more than it has, as a full box would."""
    held = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + (64 << 20), -1))


def out_of_memory_tensor():
    little_memory()
    torch.zeros(1 << 30)


def out_of_memory_array():
    import numpy

    little_memory()
    numpy.ones((1 << 16, 1 << 14))


def out_of_memory_python():
    little_memory()
    cache = []
    while True:
        cache.append(bytearray(8 << 20))


def too_slow():
    print("reading shard 17 again", flush=True)
    time.sleep(3 * PATIENCE)


def full_disk_checkpoint():
    torch.save({"model": torch.zeros(100_000)}, "/dev/full")


def full_disk_text():
    with open("/dev/full", "w") as log:
        log.write("metrics\n" * 10_000)


def bad_archive():
    import io

    import numpy

    whole = io.BytesIO()
    numpy.savez(whole, tokens=numpy.arange(4096))
    numpy.load(io.BytesIO(whole.getvalue()[:2000]))


def bad_picture():
    import io

    import PIL.Image

    whole = io.BytesIO()
    PIL.Image.effect_noise((64, 64), 60).save(whole, "JPEG")
    PIL.Image.open(io.BytesIO(whole.getvalue()[:900])).load()


def keep_the_lock():
    """A call into C that never gives Python's lock back: no thread of this process runs again."""
    import ctypes

    ctypes.PyDLL(None).pause()


def abort():
    os.abort()


# What a rank does at its step. Those without a function change the loop itself.
FAULTS = {
    "exception": (label_out_of_range, setting_missing, unequal_samples),
    "killed": (killed,),
    "stopped": (stopped,),
    "memory": (out_of_memory_tensor, out_of_memory_array, out_of_memory_python),
    "left": (None,),
    "skipped": (None,),
    "mismatch": (None,),
    "slow": (too_slow,),
    "disk": (full_disk_checkpoint, full_disk_text),
    "sample": (bad_archive, bad_picture),
    "gil": (keep_the_lock,),
    "caught": (None, label_out_of_range),
    "second": (label_out_of_range, bad_picture),
    "both": (label_out_of_range, unequal_samples),
    "branch": (None,),
    "size": (None,) * 3,
    "abort": (abort,),
}
# How many rows the odd rank's tensor has where the others have 8, and whether each rank says so.
ROWS = ((1, True), (12, True), (12, False))


def caught(what):
    """Logs an exception of a function and goes on."""
    try:
        what()
    except Exception:
        logging.exception("this batch failed")


def main():
    kind, form, who, when = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    dist.init_process_group("gloo", timeout=START)
    rank = dist.get_rank()
    # The one after the rank that fails: it fails too, or has a failure that it survives.
    next_one = who != "all" and rank == (int(who) + 1) % dist.get_world_size()
    dist.barrier()  # all have started
    dist.distributed_c10d._set_pg_timeout(datetime.timedelta(seconds=PATIENCE))
    for step in range(STEPS):
        gradient = torch.full((4,), float(step))
        print(f"epoch 0 step {step} loss {3 - step / 10:.3f}", flush=True)
        fault = FAULTS[kind][form % len(FAULTS[kind])]
        if kind == "caught" and fault and step == 1 and next_one:
            caught(unequal_samples)
        if kind == "both" and step == when and next_one:
            FAULTS[kind][(form + 1) % 2]()
        if step == when and who in ("all", str(rank)):
            if fault:
                fault()
            elif kind == "left":
                break
            elif kind == "skipped":
                print("loss is not finite, batch skipped", flush=True)
                continue
            elif kind == "mismatch":
                dist.broadcast(gradient, 0)
                continue
            elif kind == "caught":
                caught(unequal_samples)
                continue
            elif kind == "branch":
                save(gradient)
        if kind == "size":
            rows, is_said = ROWS[form]
            rows = rows if step == when and who == str(rank) else 8
            gradient = torch.ones(rows, 64)
            if is_said:
                print(f"batch of shape {list(gradient.shape)}", flush=True)
        try:
            dist.all_reduce(gradient)
        except RuntimeError:
            if kind == "second" and next_one:
                os.rename("best.pt.part", "best.pt")  # there is none yet
            raise
    print(f"epoch 0 done, {step + (kind != 'left')} batches", flush=True)
    dist.destroy_process_group()


def save(state):
    """Waits for all, before one rank saves."""
    dist.barrier()


if __name__ == "__main__":
    main()

"""Only for the five-minute trial: how long a step and a save take."""
import os
import time

STEP_S = 1.0  # a training step
CHUNK = 512 * 1024
CHUNK_S = 0.1


def gpu_step(n, call, *args):
    """Does the work of step n and takes as long as the GPU would."""
    begin = time.time()
    result = call(*args)
    time.sleep(max(0.0, STEP_S - (time.time() - begin)))
    return result


def disk_time(path):
    """Takes as long as the machine's disk would for this file."""
    time.sleep(CHUNK_S * os.path.getsize(path) / CHUNK)


def give_back():
    """Gives the GPU back at the end."""
    time.sleep(0.3)

"""Only for the five-minute trial: how long a step and a save take."""
import os
import time

STEP_S = 1.0  # an optimizer step
CHUNK = 512 * 1024
CHUNK_S = 0.05


def gpu_step(n, call, *args):
    """Does the work of step n and takes as long as the GPU would."""
    begin = time.time()
    result = call(*args)
    time.sleep(max(0.0, STEP_S - (time.time() - begin)))
    return result


def disk_time(folder):
    """Takes as long as the machine's disk would for what was written to the folder."""
    size = sum(entry.stat().st_size for entry in os.scandir(folder) if entry.is_file())
    time.sleep(CHUNK_S * size / CHUNK)


def save_state(n, call, folder):
    """Writes what is needed to go on after step n, at the speed of the disk."""
    call(folder)
    disk_time(folder)

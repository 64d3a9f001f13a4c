"""Only for the five-minute trial: how long a step and a write to the disk take."""
import time

import torch

STEP_S = 1.0  # an iteration, a few minutes in the night
CHUNK = 512 * 1024
CHUNK_S = 0.1


def gpu_step(n, call, *args):
    """Does the work of step n and takes as long as the GPU would."""
    begin = time.time()
    result = call(*args)
    time.sleep(max(0.0, STEP_S - (time.time() - begin)))
    return result


def put(file, data):
    file.write(data)
    file.flush()
    time.sleep(CHUNK_S)


class SlowFile:
    """A file on the trial's disk."""

    def __init__(self, path):
        self.file, self.held = open(path, "wb"), bytearray()

    def write(self, data):
        self.held += data
        while len(self.held) >= CHUNK:
            piece = bytes(self.held[:CHUNK])
            del self.held[:CHUNK]
            put(self.file, piece)
        return len(data)

    def flush(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None and self.held:
            put(self.file, bytes(self.held))
        self.file.close()


def save(obj, path):
    """torch.save, at the speed of the trial's disk."""
    with SlowFile(path) as file:
        torch.save(obj, file)

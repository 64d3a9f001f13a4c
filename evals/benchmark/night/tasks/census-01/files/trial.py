"""Only for the five-minute trial: how long a step and a write to the disk take."""
import time

import torch

STEP_S = 1.0  # an iteration, several minutes in the night
CHUNK = 512 * 1024
CHUNK_S = 0.1
latest = 0  # the latest step


def gpu_step(n, call, *args):
    """Does the work of step n and takes as long as the GPU would."""
    global latest
    latest, begin = n, time.time()
    result = call(*args)
    time.sleep(max(0.0, STEP_S - (time.time() - begin)))
    return result


def put(file, data, number):
    """Writes a piece of a file; the number is the latest step's and the piece's."""
    file.write(data)
    file.flush()
    time.sleep(CHUNK_S)


class SlowFile:
    """A file on the trial's disk."""

    def __init__(self, path):
        self.file, self.held, self.pieces = open(path, "wb"), bytearray(), 0

    def write(self, data):
        self.held += data
        while len(self.held) >= CHUNK:
            piece = bytes(self.held[:CHUNK])
            del self.held[:CHUNK]
            self.put(piece)
        return len(data)

    def put(self, piece):
        self.pieces += 1
        put(self.file, piece, 100 * latest + self.pieces)

    def flush(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None and self.held:
            self.put(bytes(self.held))
        self.file.close()


def save(obj, path):
    """torch.save, at the speed of the trial's disk."""
    with SlowFile(path) as file:
        torch.save(obj, file)

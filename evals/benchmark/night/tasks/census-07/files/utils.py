"""Online normalising of states, and the file an agent is saved to."""
import io
import time

import torch

from vars import DISK_MB_S


class Normalizer:
    def __init__(self, num_inputs):
        self.n = torch.zeros(num_inputs)
        self.mean = torch.zeros(num_inputs)
        self.mean_diff = torch.zeros(num_inputs)
        self.var = torch.zeros(num_inputs)

    def observe(self, x):
        self.n += 1.0
        last_mean = self.mean.clone()
        self.mean += (x - self.mean) / self.n
        self.mean_diff += (x - last_mean) * (x - self.mean)
        self.var = torch.clamp(self.mean_diff / self.n, min=1e-2)

    def normalize(self, inputs):
        return (inputs - self.mean) / torch.sqrt(self.var)


class SlowFile(io.RawIOBase):
    """For the trial: a file on a disk that is as slow as the real one is for the real agent."""

    def __init__(self, path):
        self.file = open(path, "wb", buffering=0)

    def writable(self):
        return True

    def write(self, data):
        return self.piece(data)

    def piece(self, data):
        time.sleep(len(data) / 1e6 / DISK_MB_S)
        return self.file.write(data)

    def close(self):
        if not self.closed:
            super().close()
            self.file.close()


def save(brain, path):
    with io.BufferedWriter(SlowFile(path), 1 << 17) as f:
        torch.save(brain, f)

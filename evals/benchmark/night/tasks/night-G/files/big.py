"""The big model (for the trial: a step takes a second) and its files."""
import hashlib
import math
import random
import time

SIZE = 2_000_000


class Big:
    def __init__(self):
        self.state = random.Random(0).randbytes(1000) * (SIZE // 1000)

    def step(self, n):
        time.sleep(1)
        self.state = random.Random(n).randbytes(1000) * (SIZE // 1000)
        return 2.9 * math.exp(-n / 60) + 0.6 + random.random() * 0.03


def save(path, step, state):
    """Writes step, sha256 and state."""
    with open(path, "wb") as f:
        f.write(f"{step} {hashlib.sha256(state).hexdigest()}\n".encode())
        f.write(state)


def load(path):
    with open(path, "rb") as f:
        step, digest = f.readline().split()
        state = f.read()
    if hashlib.sha256(state).hexdigest() != digest.decode():
        raise ValueError(f"{path}: damaged")
    return int(step), state

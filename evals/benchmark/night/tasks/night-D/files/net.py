"""The network and its optimizer (for the trial: a step takes a second)."""
import math
import random
import time


class Net:
    def __init__(self):
        self.weights = random.Random(0).randbytes(40000)
        self.moments = random.Random(1).randbytes(20000)
        self.fresh = None  # steps since the optimizer was started afresh in mid-run

    def step(self, n):
        time.sleep(1)
        if self.fresh is not None:
            self.fresh += 1
            if self.fresh > 5:  # too high a learning rate for empty moments
                self.weights = b"\xff\xff\xff\x7f" * 10000
                return math.nan
        self.weights = random.Random(n).randbytes(40000)
        self.moments = random.Random(-n).randbytes(20000)
        return 2.2 * math.exp(-n / 50) + 0.25 + random.random() * 0.04

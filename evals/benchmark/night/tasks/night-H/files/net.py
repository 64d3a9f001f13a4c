"""The network (for the trial: a step takes a second)."""
import random
import time

VALIDATION = {  # the curve of an earlier run, so that the trial is like the real thing
    5: 1.902, 10: 1.511, 15: 1.208, 20: 0.991, 25: 0.874, 30: 0.886, 35: 0.902, 40: 0.879,
    45: 0.801, 50: 0.752, 55: 0.731, 60: 0.709, 65: 0.688, 70: 0.693, 75: 0.690, 80: 0.701,
}


class Net:
    def __init__(self):
        self.weights = random.Random(0).randbytes(40000)

    def step(self, n):
        time.sleep(1)
        self.weights = random.Random(n).randbytes(40000)

    def validate(self, n):
        return VALIDATION.get(n, round(0.701 + (n - 80) * 0.002, 3))

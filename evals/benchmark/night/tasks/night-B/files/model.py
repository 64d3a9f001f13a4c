"""The model (for the trial: a step takes a second)."""
import math
import random
import time


class Model:
    def __init__(self):
        self.weights = random.Random(0).randbytes(40000)

    def set(self, weights):
        self.weights = weights

    def get(self):
        return self.weights

    def step(self, n):
        time.sleep(1)
        self.weights = random.Random(n).randbytes(40000)
        return 2.5 * math.exp(-n / 40) + 0.3 + random.random() * 0.05

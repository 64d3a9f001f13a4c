"""What takes time: tokenizing, training steps, and the judge (for the trial: a second each)."""
import math
import random
import time


def tokenize(i):
    time.sleep(1)
    return random.Random(i).randbytes(10000)


def train_step(n):
    time.sleep(1)
    return random.Random(n).randbytes(40000), 2.0 * math.exp(-n / 30) + 0.5


def ask(question):
    """Asks the judge, a paid service: 40 cents a question."""
    time.sleep(1)
    return round(random.Random(question).random(), 3)

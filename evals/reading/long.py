"""Long logs with one real failure somewhere within megabytes of bars, warnings, retries and other ranks: is its line found?"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from remote_gpu_trainer.logs import reading

SIZES_MB = (1, 100, 1000)
PLACES = (
    0.15,
    0.5,
    0.85,
    1.0,
)  # where in the log the failure stands; after it other processes go on writing
SHOWN = 3  # lines of evidence in an answer
POOL = 8_000_000  # bytes of different noise of one log; longer logs repeat it
FAILURES = Path(__file__).with_name("failures.jsonl")
_WORDS = "the a model learns to write about sea sky cats trains rivers code music and then tells why it rains in old towns".split()


@dataclass(frozen=True)
class Failure:
    """The text of a failure as it stands in a log, and a part of the line that decides."""

    name: str
    text: str
    decisive: str


def failures() -> list[Failure]:
    found = [json.loads(line) for line in FAILURES.read_text(encoding="utf-8").splitlines()]
    return [
        Failure(f["name"], (FAILURES.parent / f["file"]).read_text(encoding="utf-8"), f["decisive"])
        for f in found
    ]


def noise(seed: int, size: int) -> bytes:
    """What a healthy run writes: each log its own mixture of eight kinds."""
    draw = random.Random(seed)
    weights = [draw.random() for _ in _KINDS]
    written, lines, step = 0, [], 0
    while written < size:
        step += 1
        line = draw.choices(_KINDS, weights)[0](draw, step)
        lines.append(line)
        written += len(line.encode())
    return "".join(lines).encode()


def _bar(draw: random.Random, step: int) -> str:
    return (
        f"\rEpoch {step // 900}:  {step % 900 // 9}%|{'█' * (step % 10)}▌    | {step % 900}/900 [{step // 60:02d}:{step % 60:02d}<12:31,  {draw.uniform(1, 9):.2f}it/s, loss={draw.uniform(0, 3):.4f}]"
        + ("\n" if step % 50 == 0 else "")
    )


def _metrics(draw: random.Random, step: int) -> str:
    return f"{{'loss': {draw.uniform(0, 3):.4f}, 'grad_norm': {draw.uniform(0, 2):.6f}, 'learning_rate': {draw.uniform(0, 1e-4):.3e}, 'epoch': {step / 900:.2f}}}\n"


def _ranks(draw: random.Random, step: int) -> str:
    rank = draw.randrange(8)
    return f"[rank{rank}]: 2026-11-20 10:{step // 60 % 60:02d}:{step % 60:02d},{draw.randrange(1000):03d} INFO trainer step {step} loss {draw.uniform(0, 3):.4f} mem {draw.randrange(40, 80)} GB\n"


def _warning(draw: random.Random, step: int) -> str:
    return draw.choice(
        [
            "/opt/venv/lib/python3.11/site-packages/torch/utils/checkpoint.py:86: UserWarning: None of the inputs have requires_grad=True. Gradients will be None\n  warnings.warn(\n",
            f"WARNING:root:sample {step} has {draw.randrange(2048, 9000)} tokens, truncated to 2048\n",
            "[W1120 10:00:00.123456789 TCPStore.cpp:125] retrying the store\n",
        ]
    )


def _retry(draw: random.Random, step: int) -> str:
    return draw.choice(
        [
            f"WARNING download of shard-{step:06d}.tar failed with ConnectionError, try {draw.randrange(1, 4)} of 5\n",
            f"skipped image_{step}.jpg: cannot identify image file\n",
            f"wandb: Network error (ReadTimeout), entering retry loop {draw.randrange(1, 9)}\n",
        ]
    )


def _sample(draw: random.Random, step: int) -> str:
    return f"sample {step}: " + " ".join(draw.choices(_WORDS, k=draw.randrange(6, 30))) + "\n"


def _saved(draw: random.Random, step: int) -> str:
    return f"saved /data/out/{draw.getrandbits(48):012x}/step_{step}.png in {draw.uniform(0, 1):.3f} s\n"


def _handled(draw: random.Random, step: int) -> str:
    """A traceback of something that the program catches and goes on from."""
    if draw.random() < 0.9:
        return _metrics(draw, step)
    return (
        "Traceback (most recent call last):\n"
        '  File "/opt/venv/lib/python3.11/site-packages/urllib3/connectionpool.py", line 716, in urlopen\n    httplib_response = self._make_request(\n'
        + draw.choice(
            [
                "ConnectionResetError: [Errno 104] Connection reset by peer\n",
                f"urllib3.exceptions.ReadTimeoutError: read timed out after {draw.randrange(5, 60)} s\n",
            ]
        )
        + f"upload of step {step} failed, will try again\n"
    )


_KINDS = (_bar, _metrics, _ranks, _warning, _retry, _sample, _saved, _handled)


class LongLog:
    """A log of `size` bytes that is never whole in memory: noise, the failure at its place, noise again."""

    def __init__(self, failure: Failure, size: int, place: float, seed: int):
        self.pool = noise(seed, min(size, POOL))
        self.failure = ("\n" + failure.text).encode()
        self.size, self.cut, self.done, self.told = size, int(size * place), 0, False

    def read(self, most: int) -> bytes:
        """The next bytes; the failure comes whole, once."""
        if not self.told and self.done >= self.cut:
            self.told = True
            return self.failure
        if self.done >= self.size:
            return b""
        end = self.size if self.told else self.cut
        start = self.done % len(self.pool)
        part = self.pool[start : start + min(most, end - self.done)]
        self.done += len(part)
        return part


def grade(
    size_mb: int, numbers: Sequence[int] | None = None
) -> list[tuple[Failure, float, int | None]]:
    """For each failure, or those of these numbers: its place in the log, and at which of the decisive lines it stands (0 is first, None is not among those shown)."""
    found = []
    for number, failure in enumerate(failures()):
        if numbers is not None and number not in numbers:
            continue
        place = PLACES[number % len(PLACES)]
        read = reading.from_stream(
            LongLog(failure, size_mb * 1_000_000, place, seed=number + size_mb)
        )
        texts = [line.text for line in read.decisive[:SHOWN]]
        found.append(
            (
                failure,
                place,
                next((i for i, text in enumerate(texts) if failure.decisive in text), None),
            )
        )
    return found

"""The time of a look-up grows with the lines of a log, not with their square."""

import io
import time

import pytest
from remote_gpu_trainer.lookup.answer import answer_for

LINES = 1000
MOST = 6.0  # times as long for four times the lines; with the square it is 16
# Behind an exception that ended the program, the reader looks for the start of the next run.
ENDED = (
    "Traceback (most recent call last):\n"
    '  File "train.py", line 3, in <module>\n    main()\nKeyError: 1\n'
)


def _traceback(i):
    rows = (
        "Traceback (most recent call last):",
        f'  File "/w/model.py", line {i}, in step',
        f"    loss = step({i})",
        f"ValueError: bad value {i}",
    )
    return "\n".join(rows)


KINDS = {
    "plain text": lambda i: f"some words about part {i} of the work",
    "traceback": _traceback,
    "warning": lambda i: (
        "/lib/python3.10/site-packages/torch/nn/modules/module.py:448: UserWarning: indexing with "
        f"dtype torch.uint8 is now deprecated (Triggered internally at IndexingUtils.h:30.) {i}"
    ),
    "progress bar": lambda i: f"\r{i % 100:3d}%|###  | {i}/90000 [00:12<00:19, 3.2it/s]",
    "rank": lambda i: f"[rank{i % 4}]: part {i} of the work",
    "NCCL": lambda i: f"n:12:34 [{i % 8}] NCCL INFO Channel {i % 16}/0 : 1[1] -> 2[2] via P2P/IPC",
    "JSON": lambda i: f'{{"level": "info", "msg": "step {i}, loss 0.{i % 89}", "rank": {i % 4}}}',
    "timestamp": lambda i: f"2026-11-01 10:{i // 60 % 60:02}:{i % 60:02},123 INFO step {i}, loss 1",
    "C++ frame": lambda i: f"frame #{i}: c10::Error::Error(std::string) + 0x{i:x} (libc10.so)",
    "repeated line": lambda i: "the same words again",
    "repeated start": lambda i: "nohup: ignoring input",
    "interleaved ranks": lambda i: "\n".join(
        f"[rank{rank}]: {row}" for row in _traceback(i).splitlines() for rank in (0, 1)
    ),
    "Chinese": lambda i: f"第{i}步 损失 0.{i % 91} 显存占用 正常",
}


@pytest.mark.parametrize("kind", [*KINDS, "one long line"])
def test_four_times_the_lines_take_four_times_as_long(kind):
    answer_for(text=ENDED)  # reads the models
    small, large = _log(kind, LINES), _log(kind, 4 * LINES)
    best_small = best_large = float("inf")
    for _ in range(3):  # the best of three at most: the machine may be busy
        best_small = min(best_small, _seconds(small))
        best_large = min(best_large, _seconds(large))
        if best_large <= MOST * best_small:
            return
    pytest.fail(f"{kind}: {best_large / best_small:.1f} times as long for four times the lines")


def _log(kind, lines):
    if kind == "one long line":
        return (ENDED + " ".join(f"word{i} 0.{i}" for i in range(8 * lines))).encode()
    return (ENDED + "\n".join(map(KINDS[kind], range(lines)))).encode()


def _seconds(log):
    """Seconds of processor time that a look-up takes."""
    begin = time.process_time()
    answer_for(stream=io.BytesIO(log))
    return time.process_time() - begin

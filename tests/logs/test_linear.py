"""Ten times the lines take about ten times as long, whatever kind of line a log is full of."""

import time
from itertools import count, islice

import pytest
from remote_gpu_trainer.logs import files, informative, lines, runs
from remote_gpu_trainer.logs.judge import judge_lines
from remote_gpu_trainer.logs.ranks import drop_secondary

TRACEBACK = (
    "Traceback (most recent call last):\n"
    '  File "train.py", line 8, in <module>\n'
    "    main()\n"
    "RuntimeError: sample {i} is bad\n"
)
CLOSED = "RuntimeError: [/third_party/gloo/gloo/transport/tcp/pair.cc:525] Connection closed by peer [10.0.0.7]:{i}\n"
FINGERPRINT = "CollectiveFingerPrint(SequenceNumber={i}, OpType=%s, TensorShape=[1])"
# What a log is full of: what stands above it once, and the lines that come again. {i} counts them,
# {r} counts to eight, {w} is a word of letters that differs each time.
KINDS = {
    "steps": ("", "step {i} loss 1.{i}\n"),
    "own words": ("", "the {w} of {w} is {w}\n"),
    "warnings behind a traceback": (
        TRACEBACK,
        "/opt/lib/torch/utils/data/dataloader.py:627: UserWarning: this DataLoader will create {i} workers, more than there are\n",
    ),
    "progress bars behind a traceback": (TRACEBACK, "Epoch {i}:  39%|###   | {i}/1{i} [00:12<00:19, 3.2it/s]\n"),
    "tracebacks": ("", TRACEBACK),
    "logged errors": ("", "2026-11-02 10:00:00 ERROR loader: sample {w} is bad\n"),
    "frames": ("Traceback (most recent call last):\n", '  File "train.py", line {i}, in f_{w}\n    f()\n'),
    "records of JSON": ("", '{"log":"step {i} {w}\\n","stream":"stderr"}\n'),
    "shells of many runs": ("", "nohup: ignoring input\nstep {i}\nrun.sh: line {i}: {i} Killed   python {w}.py\n"),
    "ranks that lost one": ("", "[rank{r}]: " + CLOSED),
    "one line of each rank": ("", "[rank{i}]: " + CLOSED),
    "one step and one traceback of each rank": (
        "",
        "[rank{i}]: step {r}\n[rank{i}]: " + TRACEBACK.rstrip("\n").replace("\n", "\n[rank{i}]: ") + "\n",
    ),
    "calls that differ": (
        "",
        f"[rank{{r}}]: RuntimeError: Detected mismatch. Rank {{r}} is running collective: {FINGERPRINT % 'ALLREDUCE'}, but Rank 99999 is running collective: {FINGERPRINT % 'REDUCE'}\n",
    ),
    "a summary of each rank": (
        "Root Cause (first observed failure):\n",
        "[{i}]:\n  rank      : {i} (local_rank: {r})\n  exitcode  : -9 (pid: {i})\n  traceback : Signal 9 (SIGKILL)\n",
    ),
    "stacks of processes": (
        "",
        'Process {i}: python train.py {w}\nThread {i} (active): "MainThread"\n    all_reduce (torch/distributed/c10d.py:2)\n    main (train.py:{i})\n',
    ),
    "lines of the kernel": ("", "[  300.123456] NVRM: Xid (PCI:0000:3b:00): 45, pid={i}, name={w}\n"),
}  # fmt: skip


def word(number):
    return "".join(chr(97 + int(digit)) for digit in str(number))


def rows(kind, most):
    """So many rows of a log that is full of one kind of lines."""
    above, again = KINDS[kind]

    def texts():
        yield from above.splitlines()
        for i in count():
            said = again.replace("{i}", str(i)).replace("{r}", str(i % 8))
            yield from said.replace("{w}", word(i)).splitlines()

    return [(at, text.encode()) for at, text in enumerate(islice(texts(), most), 1)]


def seconds(kind, most):
    """Processor time that such a log takes, up to what the look-up asks of it."""
    read = rows(kind, most)
    begun = time.process_time()
    taken = runs.choose(lines.lines_of(read, "x.log", None), None, read)
    informative.informative_lines(drop_secondary(judge_lines(taken.lines)))
    return time.process_time() - begun


@pytest.mark.parametrize("kind", KINDS)
def test_ten_times_the_lines_take_about_ten_times_as_long(kind):
    seconds(kind, 100)  # imports, patterns
    few, many = min(seconds(kind, 1_000) for _ in range(2)), seconds(kind, 10_000)
    assert many < 20 * max(few, 0.01)


def test_a_pasted_report_is_read_up_to_a_bound_whatever_its_length():
    """So what is linear above is all that a report may take."""
    kept = files.of_text("x\n" * 100_000, "text", files.DEFAULTS)
    assert len(kept) < 20_000

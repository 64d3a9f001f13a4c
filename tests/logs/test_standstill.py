"""A log that stops in the midst of work and shows a hang isn't called free of errors, and one that goes on is."""

from datetime import datetime, timedelta

import pytest
from remote_gpu_trainer.logs import reading
from remote_gpu_trainer.logs.standstill import standstill_of
from remote_gpu_trainer.lookup.answer import answer_for

STEPS = [f"step {i}/1000 loss {2.5 - i / 500:.3f} lr 1e-4" for i in range(1, 61)]


def at(seconds):
    return str(datetime(2026, 11, 20, 3) + timedelta(seconds=seconds))


def bar(count, seconds):
    return f"Training:  {count // 10}%|####      | {count}/1000 [{timedelta(seconds=seconds)}<1:10:00,  8.00s/it]"


def each_minute(text, begin=600, count=30):
    return [f"{at(begin + 60 * k)} - INFO - {text}" for k in range(count)]


def stamped(lines):
    return [f"{at(10 * i)} - INFO - {line}" for i, line in enumerate(lines)]


BEAT = "heartbeat: 8 of 8 processes run"
BEATS = [
    line
    for i, step in enumerate(stamped(STEPS))
    for line in (step, *each_minute(BEAT, 10 * i + 1, 1))
]
WAITS = [f"[rank0] still waiting for rank 3 ({60 * k} s)" for k in range(1, 20)]
PULSE = [
    f"[{at(3600 * k)}] job 4711 runs for 0-{k:02d}:00:12 since {at(0)} on 'gpu_p5'"
    for k in range(1, 4)
]
BARS = [bar(i, 8 * i) for i in range(380, 451)]
STUCK_BARS = [bar(450, 3600 + 600 * k) for k in range(6)]
STUCK = {
    "a scheduler's pulse": (STEPS + PULSE, 61, 63),
    "a heartbeat": (stamped(STEPS) + each_minute(BEAT), 61, 90),
    "a heartbeat that stood between steps": (BEATS + each_minute(BEAT), 120, 150),
    "the same step": (stamped(STEPS) + each_minute("step 61/1000 loss 2.378"), 61, 90),
    "seconds that are counted": (STEPS + WAITS, 61, 79),
    "a bar": (BARS + STUCK_BARS, 71, 77),
}


def rows_of(lines):
    return [(number, line.encode()) for number, line in enumerate(lines, 1)]


@pytest.fixture
def ask(tmp_path):
    def asked(lines):
        (tmp_path / "train.log").write_text("\n".join(lines) + "\n", newline="")
        return answer_for(log=str(tmp_path / "train.log"))

    return asked


@pytest.mark.parametrize("name", STUCK)
def test_lines_that_differ_in_their_times_alone_are_a_standstill(name, ask):
    lines, first, last = STUCK[name]
    assert standstill_of(rows_of(lines))[:2] == (first, last)
    told = ask(lines).ask
    assert f"the run stands still: lines {first} to {last} differ in nothing" in told
    assert "No error found" not in told and "py-spy dump" in told


def test_a_bar_that_is_drawn_anew_in_one_line_is_a_standstill(ask):
    told = ask(["\r".join(BARS + STUCK_BARS)]).ask
    assert "the run stands still: the bar in line 1 changes nothing but its times" in told


GOES_ON = {
    "steps": stamped(STEPS),
    "steps and a heartbeat": BEATS,
    "as many heartbeats as ever between two steps": [
        line for i, step in enumerate(STEPS) for line in (step, *each_minute(BEAT, 1200 * i, 12))
    ],
    "a heartbeat of less than ten minutes": stamped(STEPS) + each_minute(BEAT, count=9),
    "a bar": BARS,
    "nothing but saves": each_minute("saving the checkpoint 7"),
    "how long each epoch took": STEPS + [f"epoch took {35 + k % 3}.2 s" for k in range(40)],
    "times that end": STEPS + PULSE + ["Training completed in 0:10:00"],
}


@pytest.mark.parametrize("name", GOES_ON)
def test_a_log_that_goes_on_is_no_standstill(name, ask):
    assert "stands still" not in ask(GOES_ON[name]).ask


def test_a_failure_is_said_and_no_standstill(ask):
    answer = ask([*STEPS, "RuntimeError: CUDA out of memory. Tried to allocate 2 GiB", *PULSE])
    assert "stands still" not in answer.ask and answer.matches


DUMP = """Timeout (0:10:00)!
Thread 0x00007f6d2b7fe640 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 331 in wait
  File "/opt/venv/lib/python3.11/site-packages/tqdm/_monitor.py", line 60 in run

Thread 0x00007f6d5b3ff740 (most recent call first):
  File "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 2501 in all_reduce
  File "/workspace/train.py", line 212 in reduce_metrics
  File "/workspace/train.py", line 355 in <module>""".splitlines()
COUNTS = ["    381 all_reduce", "      2 broadcast", "      1 wait"]
RAS = """Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    0         1         4         8        32        32   RUNNING  MISMATCH

#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different collective operation counts
  26 ranks have launched up to operation 6650
  6 ranks have launched up to operation 6649""".splitlines()


@pytest.mark.parametrize("before", [[], STEPS], ids=["alone", "behind steps"])
def test_what_faulthandler_prints_of_a_hang_tells_where_and_blames_no_program(ask, before):
    told = ask(before + DUMP).ask
    assert "Where they stood: all_reduce, train.py:212." in told
    assert "No error found" not in told and "can't read the program" not in told


@pytest.mark.parametrize("lines", [COUNTS, RAS], ids=["counted calls", "ncclras"])
def test_a_file_without_any_progress_is_not_called_free_of_errors(ask, lines):
    answer = ask(lines)
    assert answer.ask.startswith("No line is known as an error, and none shows a training")
    assert not answer.matches


def test_what_the_flight_recorders_reader_prints_names_the_missing_rank(ask):
    answer = ask(["Not all ranks joining collective: sequence number: 31117", "missing ranks: {3}"])
    assert answer.matches[0]["id"] == "D20"


def test_stacks_that_pdsh_gathered_are_read_behind_its_prefix():
    own = 'Process 4121: python train.py\n\nThread 4121 (active): "MainThread"\n    {} (torch/distributed/distributed_c10d.py:1285)\n    main (train.py:{})'
    text = "\n".join(
        f"{host}: {line}"
        for host, call, at_line in (("n1", "all_reduce", 88), ("n2", "broadcast", 80))
        for line in own.format(call, at_line).splitlines()
    )
    found = reading.from_text(text)
    assert "all_reduce, from main (train.py:88)" in found.places
    assert "broadcast, from main (train.py:80)" in found.places

"""Hangs, by what PyTorch left: dumps of the Flight Recorder by rank, and stacks that py-spy printed."""

import json
import os
import pickle
import subprocess
import sys
import time
import types

import pytest
from remote_gpu_trainer.logs import flight_recorder
from remote_gpu_trainer.logs.files import Unreadable
from remote_gpu_trainer.logs.reading import from_path, from_text
from remote_gpu_trainer.lookup.answer import answer_for

from tests import conftest
from tests.logs import flight_dumps
from tests.logs.flight_dumps import CASES, EXPECTED, written

TIMED_OUT = (
    "[rank{0}]:[E1120 12:00:00.000000000 ProcessGroupNCCL.cpp:632] [Rank {0}] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=3, OpType=ALLREDUCE, NumelIn=4) ran for 600000 milliseconds before timing out.\n"
)
FIX = {"do": "fix_first", "why": "the ranks run different collectives, and would again"}
ENTRY = {"missing": "D20", "op": "D19", "sizes": "D19"}


@pytest.fixture
def recorded(campaign):
    """{case: {rank: dump}} of ten runs over gloo."""
    found = campaign("flight_recorder").recorded()
    return {case: {int(rank): dump for rank, dump in told.items()} for case, told in found.items()}


def judged(folder):
    """The first verdict over the dumps in a folder."""
    dumps, ranks = flight_recorder.dumps_in(str(folder))
    found = flight_recorder.verdicts({ranks[name]: dump for name, dump in dumps.items()})
    return found[0] if found else None


def torchs_verdict(folder, ranks):
    """(kind, number, ranks apart from the first one's camp) as PyTorch's own analyzer finds them; None: nothing."""
    from torch.distributed.flight_recorder.components import builder, loader
    from torch.distributed.flight_recorder.components.types import MatchState

    args = types.SimpleNamespace(
        prefix="nccl_trace_rank_",
        trace_dir=str(folder),
        verbose=False,
        just_print_entries=False,
        allow_incomplete_ranks=False,
        mismatch_cap=10,
    )
    details, version = loader.read_dir(args)
    for call in builder.build_db(details, args, version).collectives:
        if call.missing_ranks:
            return "missing", call.collective_seq_id, frozenset(call.missing_ranks)
        if call.mismatch_collectives:
            states = {odd.type_of_mismatch.state for odd in call.mismatch_collectives.values()}
            kind = "op" if MatchState.COLLECTIVE_TYPE_MISMATCH in states else "sizes"
            return kind, call.collective_seq_id, frozenset(call.mismatch_collectives)
    return None


@pytest.mark.timeout(900)
def test_real_ranks_over_gloo_leave_the_dumps_that_are_judged_here(tmp_path, campaign):
    conftest.module("torch", "pip install '.[proofs]'")
    told = campaign("flight_recorder")
    live = {case: flight_dumps.made(case, tmp_path / case) for case in told.live(list(CASES))}
    for case, dumps in live.items():
        verdict = judged(written(dumps, tmp_path / case / "dumps"))
        assert (verdict.kind if verdict else None) == CASES[case][1], case
    told.recorded(live)


@pytest.mark.parametrize("case", CASES)
def test_the_call_and_the_ranks_at_odds_are_named(case, recorded, tmp_path):
    verdict = judged(written(recorded[case], tmp_path))
    if CASES[case][1] is None:
        assert verdict is None
    else:
        found = (verdict.kind, set(verdict.ranks), verdict.number)
        assert found == (CASES[case][1], *EXPECTED[case])


@pytest.mark.parametrize("case", CASES)
def test_pytorchs_own_analyzer_comes_to_the_same_verdict(case, recorded, tmp_path):
    """It counts every rank that differs from the lowest one as the culprit; here that is turned to the smaller camp."""
    conftest.module("torch", "pip install '.[proofs]'")
    folder = written(recorded[case], tmp_path)
    theirs, ours, everybody = (
        torchs_verdict(folder, recorded[case]),
        judged(folder),
        set(recorded[case]),
    )
    if theirs is None:
        assert ours is None
        return
    kind, number, ranks = theirs
    assert (ours.kind, ours.number) == (kind, number)
    camps = {frozenset(ranks), frozenset(everybody - ranks)}
    smaller = min(map(len, camps))
    odd = (
        everybody
        if kind != "missing" and len(ranks) * 2 == len(everybody)
        else (ranks if kind == "missing" else next(c for c in camps if len(c) == smaller))
    )
    assert set(ours.ranks) == set(odd)


@pytest.mark.parametrize("case", [case for case, told in CASES.items() if told[1]])
def test_a_folder_of_dumps_alone_gets_the_entry_and_the_rank_that_strayed(case, recorded, tmp_path):
    answer = answer_for(log=str(written(recorded[case], tmp_path)))
    assert answer.matches[0]["id"] == ENTRY[CASES[case][1]]
    assert answer.evidence[0]["text"].startswith("read from the dumps: ")
    odd, number = EXPECTED[case]
    assert f"#{number}" in answer.evidence[0]["text"]
    if len(odd) == 1:
        assert answer.first_failure["rank"] == min(odd)
    else:
        assert answer.first_failure is None


def test_where_all_is_well_nothing_is_claimed(recorded, tmp_path):
    answer = answer_for(log=str(written(recorded["healthy two"], tmp_path)))
    assert (answer.matches, answer.first_failure) == ([], None)
    assert "entered the same calls" in answer.evidence[0]["text"]


def test_dumps_beside_the_time_outs_of_the_others_say_that_it_is_a_mismatch(recorded, tmp_path):
    (tmp_path / "train.log").write_text("".join(map(TIMED_OUT.format, (0, 1, 2, 3))))
    assert answer_for(log=str(tmp_path)).matches[0]["id"] == "D20"
    answer = answer_for(log=str(written(recorded["rank 0 stands in a barrier"], tmp_path)))
    assert answer.matches[0]["id"] == "D19"
    assert answer.first_failure["rank"] == 0
    assert answer.decision["do"] == "fix_first"


def test_the_watchdog_s_words_tell_that_a_rank_made_another_call(tmp_path):
    texts = [TIMED_OUT.format(rank) for rank in range(4)]
    texts[2] = texts[2].replace("ALLREDUCE", "BROADCAST")
    for rank, text in enumerate(texts):
        (tmp_path / f"rank_{rank}.log").write_text(f"step 2 loss 2.7\n{text}")
    answer = answer_for(log=str(tmp_path))
    assert (answer.matches[0]["id"], answer.first_failure["rank"]) == ("D19", 2)
    assert answer.first_failure["how"] == "stood in another call"
    assert "ranks 0, 1, 3: ALLREDUCE; rank 2: BROADCAST" in answer.ask
    assert answer.decision["do"] == "fix_first"


def test_a_rank_that_reports_its_own_failure_stays_the_cause_of_the_hang(recorded, tmp_path):
    fault = 'Traceback (most recent call last):\n  File "a.py", line 3, in f\nIndexError: Target 10 is out of bounds.\n'
    (tmp_path / "rank_3.log").write_text(fault)
    (tmp_path / "rank_0.log").write_text(TIMED_OUT.format(0))
    written(recorded["the last of four stays away"], tmp_path)
    found = from_path(str(tmp_path))
    assert (found.first.rank, found.first.text) == (3, "IndexError: Target 10 is out of bounds.")
    assert any(line.text.startswith("read from the dumps: ") for line in found.decisive)


@pytest.mark.parametrize("prefix", ["comm_lib_trace_rank_", "fr/attempt_2_rank", "x"])
def test_dumps_are_known_by_their_content_whatever_their_name(prefix, recorded, tmp_path):
    (tmp_path / "fr").mkdir()
    (tmp_path / f"{prefix}_checkpoint-12").write_bytes(pickle.dumps({"weights": [1.0] * 99}))
    written(recorded["one of three gathers"], tmp_path, prefix)
    assert judged(tmp_path).ranks == {1}


def test_json_is_read_as_well(recorded, tmp_path):
    dumps = recorded["one of three gathers"]
    for rank, dump in dumps.items():
        (tmp_path / f"nccl_trace_rank_{rank}.json").write_text(json.dumps(dump))
    assert judged(tmp_path).ranks == {1}


@pytest.mark.parametrize("protocol", [2, 4])
def test_a_pickle_that_calls_something_is_never_run(protocol, recorded, tmp_path):
    dumps = recorded["the last of four stays away"]
    done = tmp_path / "done"

    class Hostile:
        def __reduce__(self):
            return os.system, (f"touch {done}",)

    bad = {**dumps[1], "pg_config": Hostile()}
    folder = written(dumps, tmp_path / "logs")
    (folder / "nccl_trace_rank_1").write_bytes(pickle.dumps(bad, protocol=protocol))
    answer = answer_for(log=str(folder))
    assert not done.exists()
    pickle.loads(pickle.dumps(bad, protocol=protocol))
    assert done.exists()  # the same bytes, read carelessly
    assert "1 of 4 dumps of the Flight Recorder can't be read" in answer.ask
    assert answer.first_failure["rank"] == 3  # from the other three


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x02}X\x09\x00\x00\x00pg_config" + b"]" * 3_000_000,
        b"\x80\x02cos\nsystem\nX\x09\x00\x00\x00pg_configtR.",
        b"\x80\x02X\x09\x00\x00\x00pg_configQ.",
        b'{"pg_config": ' + b"[" * 100_000,
        b'{"pg_config": {}, "entries": [{"process_group": 5}]}',
        b'{"pg_config": {}, "entries": 7}',
        b'{"pg_config": [], "entries": []}',
        b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7fpg_config",
    ],
)
def test_a_broken_dump_is_left_out_and_said(data, tmp_path):
    (tmp_path / "nccl_trace_rank_0").write_bytes(data)
    (tmp_path / "train.log").write_text("step 1 loss 0.5\n")
    began = time.monotonic()
    assert "1 of 1 dumps" in from_path(str(tmp_path)).left_out
    assert time.monotonic() - began < 5


def test_a_large_dump_is_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(flight_recorder, "MOST_BYTES", 100_000)
    (tmp_path / "rank_0").write_bytes(b'{"pg_config": {}, "entries": []}' + b" " * 200_000)
    (tmp_path / "train.log").write_text("step 1 loss 0.5\n")
    assert "1 of 1 dumps" in from_path(str(tmp_path)).left_out


def test_a_pipe_that_is_named_like_a_dump_is_not_opened(tmp_path):
    os.mkfifo(tmp_path / "nccl_trace_rank_0")
    with pytest.raises(Unreadable):
        from_path(str(tmp_path))


def entry(number, op="all_reduce", state="completed", group="0", record=None, sizes=((4,),), at=0):
    """A record as NCCL writes it."""
    return {
        "record_id": number if record is None else record,
        "process_group": (group, "default_pg" if group == "0" else "undefined"),
        "collective_seq_id": number,
        "profiling_name": f"nccl:{op}",
        "time_created_ns": 10**9 * (at + number),
        "input_sizes": sizes,
        "output_sizes": sizes,
        "state": state,
        "is_p2p": False,
        "frames": [{"name": "step", "filename": "/home/me/train.py", "line": 40 + number}],
    }


def dump(entries, groups=None, world=2):
    groups = groups or {"0": list(range(world))}
    named = {
        name: {"name": name, "desc": "", "ranks": str(ranks)} for name, ranks in groups.items()
    }
    return {"version": "2.10", "pg_config": named, "entries": entries}


def first_of(dumps, tmp_path):
    return judged(written(dumps, tmp_path))


def test_what_a_full_buffer_has_overwritten_counts_as_entered(tmp_path):
    old = [entry(n, record=n) for n in range(50, 60)]
    late = [entry(n, record=n) for n in range(55, 60)]
    found = first_of(
        {
            0: dump([*old, entry(60, state="started")]),
            1: dump([*late, entry(60, "broadcast", "started")]),
        },
        tmp_path,
    )
    assert (found.kind, found.number, found.ranks) == ("op", 60, {0, 1})


def test_a_rank_that_is_missing_because_it_waits_in_another_group_is_not_the_cause(tmp_path):
    groups = {"0": [0, 1, 2], "1": [1, 2]}
    dumps = {
        0: dump([entry(0), entry(1, state="started")], groups),
        1: dump([entry(0), entry(1, "broadcast", "started", "1")], groups),
        2: dump([entry(0)], groups),
    }
    found = first_of(dumps, tmp_path)
    assert (found.group[0], found.kind, found.odd) == ("1", "missing", 2)


def test_groups_that_wait_for_each_other_are_told_so(tmp_path):
    groups = {"1": [0, 1], "2": [0, 1]}
    dumps = {
        0: dump([entry(0, state="started", group="1")], groups),
        1: dump([entry(0, state="started", group="2")], groups),
    }
    found = first_of(dumps, tmp_path)
    assert (found.kind, found.odd) == ("crossed", None)
    assert answer_for(log=str(tmp_path)).matches[0]["id"] == "D19"


def test_a_rank_without_a_dump_left_while_the_others_waited(tmp_path):
    waits = [entry(0), entry(1, state="started")]
    answer = answer_for(
        log=str(written({rank: dump(waits, world=4) for rank in (0, 1, 3)}, tmp_path))
    )
    assert "rank 2 left no dump; ranks 0, 1, 3 wait in all_reduce" in answer.evidence[0]["text"]
    assert answer.matches[0]["id"] == "D20"


def test_one_dump_of_many_accuses_nobody(tmp_path):
    found = first_of({0: dump([entry(0), entry(1, state="started")], world=8)}, tmp_path)
    assert (found.kind, found.odd) == ("", None)


def test_where_all_wait_alike_nobody_is_named(tmp_path):
    waits = [entry(0), entry(1, state="started")]
    folder = written({0: dump(waits), 1: dump(waits)}, tmp_path)
    assert judged(folder).kind == ""
    answer = answer_for(log=str(folder))
    assert "ranks 0, 1 entered all_reduce #1 of default_pg alike" in answer.evidence[0]["text"]
    assert answer.first_failure is None


def test_rank_0_alone_in_a_call_stands_behind_a_branch_of_its_own(tmp_path):
    dumps = {rank: dump([entry(0)], world=4) for rank in (1, 2, 3)}
    dumps[0] = dump([entry(0), entry(1, "barrier", "started")], world=4)
    answer = answer_for(log=str(written(dumps, tmp_path)))
    assert (answer.matches[0]["id"], answer.first_failure["rank"]) == ("D21", 0)


def test_calls_that_may_differ_in_size_are_no_mismatch(tmp_path):
    for op in ("all_to_all", "all_to_all_single", "all_gather_v"):
        dumps = {rank: dump([entry(0, op, "started", sizes=((rank + 1,),))]) for rank in (0, 1)}
        assert first_of(dumps, tmp_path).kind == ""


def test_a_dump_of_an_earlier_run_is_left_out(tmp_path):
    now = [entry(0, at=10**6), entry(1, state="started", at=10**6)]
    then = [entry(0, at=1)]
    found = first_of(
        {0: dump(now, world=3), 1: dump(now, world=3), 2: dump(then, world=3)}, tmp_path
    )
    assert "rank 2 left no dump" in found.said[0]


def test_of_several_attempts_the_first_with_a_fault_counts(tmp_path):
    well, waits = dump([entry(0)]), dump([entry(0), entry(1, state="started")])
    written({0: waits, 1: well}, tmp_path, "trace_attempt_2_rank_")
    written({0: well, 1: waits}, tmp_path, "trace_attempt_10_rank_")
    assert from_path(str(tmp_path)).first.rank == 1


def test_the_ranks_of_two_nodes_are_judged_together(tmp_path):
    waits = [entry(0), entry(1, state="started")]
    written({0: dump(waits, world=4), 1: dump(waits, world=4)}, tmp_path / "log", "t_rank_")
    written(
        {2: dump(waits, world=4), 3: dump([entry(0)], world=4)}, tmp_path / "node-1/log", "t_rank_"
    )
    assert from_path(str(tmp_path)).first.rank == 3


@pytest.mark.parametrize("pack", [lambda one: json.dumps(one, indent=1).encode(), pickle.dumps])
def test_one_rank_s_dump_by_its_path_tells_where_it_waits_and_accuses_nobody(pack, tmp_path):
    path = tmp_path / "nccl_trace_rank_4"
    path.write_bytes(pack(dump([entry(0), entry(1, state="scheduled")])))
    answer = answer_for(log=str(path))
    assert "rank 4 waits in all_reduce #1 of default_pg" in answer.evidence[0]["text"]
    assert (answer.matches, answer.first_failure, answer.decision) == ([], None, None)
    assert "the dump of one rank" in answer.ask and "No error found" not in answer.ask


def test_one_rank_s_dump_without_an_open_call_excuses_nobody(tmp_path):
    path = tmp_path / "nccl_trace_rank_9.json"
    path.write_text(json.dumps(dump([entry(0)])))
    answer = answer_for(log=str(path))
    assert "rank 9 has ended all its calls" in answer.ask
    assert "the dump of one rank" in answer.ask and "No error found" not in answer.ask


def test_a_dump_by_its_path_that_cannot_be_read_is_no_sound_log(tmp_path):
    one = json.dumps(dump([entry(0)]))
    path = tmp_path / "all.jsonl"
    path.write_text(f"{one}\n{one}\n")
    answer = answer_for(log=str(path))
    assert "1 of 1 dumps" in answer.ask and "No error found" not in answer.ask


def test_a_log_of_json_that_speaks_of_dumps_is_read_as_a_log(tmp_path):
    path = tmp_path / "train.jsonl"
    path.write_text('{"loss": 2.1}\n{"said": "wrote pg_config"}\n' * 9)
    assert "dump" not in answer_for(log=str(path)).ask


STACK = """\
Process {pid}: python train.py
Python v3.11.7 (/usr/bin/python3.11)

Thread {pid} (active): "MainThread"
{frames}
Thread 0x7F31 (idle): "Thread-1 (_worker)"
    wait (threading.py:324)
"""
WAITS = "    all_reduce (torch/distributed/distributed_c10d.py:{0})\n    step (train.py:40)\n    <module> (train.py:60)"
READS = "    __next__ (torch/utils/data/dataloader.py:701)\n    step (train.py:38)\n    <module> (train.py:60)"


def stacks(odd=3, ranks=4):
    """{rank: a stack}, all but one waiting in a collective."""
    return {
        rank: STACK.format(
            pid=100 + rank, frames=READS if rank == odd else WAITS.format(2900 + rank)
        )
        for rank in range(ranks)
    }


def test_of_stacks_in_a_file_each_the_odd_one_is_named(tmp_path):
    for rank, text in stacks().items():
        (tmp_path / f"stack_rank_{rank}.txt").write_text(text)
    told = [line.text for line in from_path(str(tmp_path)).decisive]
    answer = answer_for(log=str(tmp_path))
    assert answer.evidence[0]["text"] == told[0]
    assert told[0] == "read from the stacks: rank 3 in __next__, from step (train.py:38)"
    assert told[1] == "read from the stacks: ranks 0-2 in all_reduce, from step (train.py:40)"
    assert answer.first_failure["rank"] == 3


def test_of_stacks_one_after_another_the_odd_one_is_named():
    text = "\n".join(f"=== rank {rank} ===\n{stack}" for rank, stack in stacks(odd=1).items())
    found = from_text(text)
    assert found.first.rank == 1
    assert answer_for(text=text).matches[0]["id"] == "D19"


def test_stacks_of_unknown_ranks_are_told_by_their_processes():
    found = from_text("\n".join(stacks(odd=2).values()))
    assert (
        found.decisive[0].text
        == "read from the stacks: process 102 in __next__, from step (train.py:38)"
    )
    assert found.first.rank is None


def test_stacks_that_are_all_alike_accuse_nobody():
    found = from_text("\n".join(stacks(odd=None).values()))
    assert "processes 100, 101, 102, 103 in all_reduce" in found.decisive[0].text
    assert (found.first, found.seen) == (None, "")


def test_two_stacks_that_differ_leave_the_choice_to_the_reader():
    found = from_text("\n".join(stacks(odd=1, ranks=2).values()))
    assert found.first is None
    assert [line.text.partition(": ")[0] for line in found.decisive[:2]] == [
        "read from the stacks"
    ] * 2


@pytest.mark.parametrize("ranks", [2, 4])
def test_stacks_of_processes_that_wait_in_different_calls_need_a_mend(ranks):
    told = list(stacks(odd=1, ranks=ranks).values())
    assert answer_for(text="\n".join(told)).decision != FIX  # it reads, and may only be slow
    gathers = WAITS.replace("all_reduce", "all_gather").format(3100)
    told[1] = STACK.format(pid=101, frames=gathers)
    assert answer_for(text="\n".join(told)).decision == FIX


def bare(pids, frames):
    """Equal main threads put together, as people do, without the lines of their processes."""
    heads = [f'Thread {pid} (active): "MainThread"' for pid in pids]
    return "\n".join(["", f"{len(pids)} in:", *heads, frames])


FEEDS = WAITS.replace("all_reduce", "broadcast").replace("step (train.py:40)", "feed (train.py:30)")


def test_the_one_process_outside_every_call_is_the_one_that_is_waited_for(tmp_path):
    path = tmp_path / "stacks.txt"
    told = [bare([1, 2, 3], WAITS.format(7)), bare([4], READS), bare([5, 6], FEEDS.format(8))]
    path.write_text("\n".join(told) + "\n")
    answer = answer_for(log=str(path))
    assert answer.matches[0]["id"] == "D19"
    where = [line["text"].partition(": ")[2] for line in answer.evidence]
    assert where[0] == "process 4 in __next__, from step (train.py:38)"
    assert where[1] == "processes 1, 2, 3 in all_reduce, from step (train.py:40)"


def test_bare_stacks_that_differ_are_told_and_are_no_sound_log(tmp_path):
    path = tmp_path / "stacks.txt"
    path.write_text(bare([11], WAITS.format(7)) + "\n" + bare([12], READS) + "\n")
    answer = answer_for(log=str(path))
    assert "process 11 in all_reduce, from step (train.py:40); process 12 in" in answer.ask
    assert not answer.matches and "No error found" not in answer.ask


def test_one_stack_asks_for_those_of_the_others(tmp_path):
    path = tmp_path / "stack.txt"
    path.write_text(stacks()[0])
    answer = answer_for(log=str(path))
    assert "Where they stood: process 100 in all_reduce, from step (train.py:40)." in answer.ask
    assert "those of all ranks tell" in answer.ask and not answer.matches
    assert "No error found" not in answer.ask and "ends with a new line" not in answer.ask


def test_what_py_spy_prints_of_running_processes_is_read(tmp_path):
    py_spy = conftest.engine("py-spy", "pip install py-spy")
    script = tmp_path / "hang.py"
    script.write_text(
        "import sys, threading\n"
        "def read(): sys.stdin.read()\n"
        "def wait(): threading.Event().wait()\n"
        "def step(): (read if sys.argv[1] == '2' else wait)()\n"
        "print('up', flush=True); step()\n"
    )
    pipe = subprocess.PIPE
    running = [
        subprocess.Popen([sys.executable, script, str(rank)], stdin=pipe, stdout=pipe)
        for rank in range(3)
    ]
    try:
        for rank, process in enumerate(running):
            process.stdout.readline()
            time.sleep(0.2)
            done = subprocess.run(
                [py_spy, "dump", "--pid", str(process.pid)], capture_output=True, text=True
            )
            if done.returncode:
                pytest.skip(f"py-spy may not look at processes here: {done.stderr[:200]}")
            (tmp_path / f"rank{rank}.txt").write_text(done.stdout)
    finally:
        for process in running:
            process.kill()
            process.communicate()
    (script).unlink()
    found = from_path(str(tmp_path))
    assert found.decisive[0].text == "read from the stacks: rank 2 in read (hang.py:2)"
    assert found.first.rank == 2

"""What public reports showed to be answered wrongly: each with the answer that its author needed."""

import pytest
from remote_gpu_trainer.logs.reading import from_text
from remote_gpu_trainer.lookup.answer import answer_for

STEPS = "".join(f"step {i} loss {2 - i / 100:.3f} lr 1e-4\n" for i in range(40))
NATIVE = (
    "[rank0]:[E1101 02:11:12.123456 3312 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught "
    "collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE) ran for 600000 milliseconds\n"
    "Exception raised from checkTimeout at ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:618 "
    "(most recent call first):\n"
    "frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x98 (0x7f in libc10.so)\n"
    "frame #1: c10d::ProcessGroupNCCL::heartbeatMonitor() + 0x20 (0x7f in libtorch_cuda.so)\n"
)
KILLED = (
    "E1101 02:11:12.123456 3312 torch/distributed/elastic/multiprocessing/api.py:826] failed "
    "(exitcode: -9) local_rank: 0 (pid: 4711) of binary: /usr/bin/python\n"
)
SUMMARY = (
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
    "======\ntrain.py FAILED\n------\nFailures:\n  <NO_OTHER_FAILURES>\n------\n"
    "Root Cause (first observed failure):\n[0]:\n  time      : 2026-11-01_02:11:12\n"
    "  host      : box\n  rank      : 0 (local_rank: 0)\n  exitcode  : -9 (pid: 4711)\n"
    "  error_file: <N/A>\n  traceback : Signal 9 (SIGKILL) received by PID 4711\n======\n"
)
OWN = (
    "Traceback (most recent call last):\n"
    '  File "/root/groot/video.py", line 31, in <module>\n    subprocess.run(command)\n'
)


@pytest.fixture
def ask(tmp_path):
    def asked(text):
        (tmp_path / "train.log").write_text(text)
        return answer_for(log=str(tmp_path / "train.log"))

    return asked


def ids(answer):
    return [match["id"] for match in answer.matches]


def test_a_frame_of_cpp_that_makes_an_error_is_no_failure():
    found = from_text(NATIVE)
    assert "Watchdog caught" in found.first.text
    assert not any("c10::Error" in failure.line.text for failure in found.failures)
    assert ids(answer_for(text=NATIVE))[:1] == ["D20"]


@pytest.mark.parametrize("end", [KILLED, SUMMARY, KILLED + SUMMARY, "Killed\n"])
@pytest.mark.parametrize(
    "start", [STEPS, "Loading checkpoint shards:  57%|###  | 4/7 [01:00<00:45]\n"]
)
def test_signal_9_leads_to_memory_and_never_to_a_plain_restart(ask, start, end):
    answer = ask(start + end)
    assert {"M3", "U3"} & set(ids(answer)[:2])
    assert answer.decision["do"] == "fix_first" and "memory" in answer.decision["why"]


def test_of_one_rank_that_signal_9_ended_the_kernel_log_is_asked_before_a_restart(tmp_path):
    lost = "RuntimeError: Connection closed by peer [127.0.0.1]:4711\n"
    for rank in range(3):
        raised = "Traceback (most recent call last):\n" + lost if rank else ""
        (tmp_path / f"rank_{rank}.log").write_text(STEPS + raised)
    (tmp_path / "run.log").write_text(SUMMARY)
    decision = answer_for(log=str(tmp_path)).decision
    assert decision["do"] == "restart" and "no kill for memory" in decision["why"]


def test_an_error_of_the_system_in_the_user_s_own_file_stays_one(ask):
    answer = ask(STEPS + OWN + "OSError: [Errno 12] Cannot allocate memory\n")
    assert ids(answer)[:1] == ["U54"] and "its own file" not in answer.ask


@pytest.mark.parametrize(
    ("line", "entry"),
    [
        ("OSError: [Errno 12] Cannot allocate memory", "U54"),
        ("AttributeError: /v/libbitsandbytes_cpu.so: undefined symbol: cget_col_row_stats", "ENV7"),
        ("undefined symbol: cget_col_row_stats", "ENV7"),
        ("TypeError: Seq2SeqLMOutput.__init__() got an unexpected keyword argument 'x'", "U45"),
        (
            "AttributeError: module 'transformers.models.llama.modeling_llama' has no attribute "
            "'LLAMA_ATTENTION_CLASSES'",
            "U45",
        ),
        (
            "RuntimeError: aten.mm.default: got mixed torch.Tensor and DTensor, need to convert all "
            "torch.Tensor to DTensor before calling distributed operators!",
            "D32",
        ),
        ("RuntimeError: DataLoader worker (pid(s) 4711, 4712) exited unexpectedly", "DP9"),
    ],
)
def test_an_exact_message_finds_its_entry(line, entry):
    assert entry in ids(answer_for(text=line))


@pytest.mark.parametrize(
    "text",
    [
        "CUDA out of memory",
        "torch.OutOfMemoryError: CUDA out of memory.",
        "RuntimeError: CUDA out of memory",
    ],
)
def test_beside_an_exact_message_of_memory_nothing_is_unsure(text):
    answer = answer_for(text=text)
    assert ids(answer)[0] == "U10" and answer.matches[0]["confidence"] != "low"
    assert "Not sure" not in answer.ask


def test_what_hydra_writes_above_a_traceback_is_no_failure_of_its_own():
    text = "Error executing job with overrides: ['lr=0.1']\n" + OWN + "ValueError: element 0 of x\n"
    assert from_text(text).first.text == "ValueError: element 0 of x"
    assert [failure.line.kind for failure in from_text(text).failures] == ["exception"]


def test_a_decision_does_not_contradict_the_retry_of_its_entry():
    answer = answer_for(text=NATIVE)
    first = answer.matches[0]
    assert first["retry"] != "may help" or "repeats" not in answer.decision["why"]

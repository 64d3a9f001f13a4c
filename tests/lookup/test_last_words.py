"""A log whose last line nobody knows isn't called sound: that line is quoted, and a signature in it claims."""

import pytest
from remote_gpu_trainer.lookup.answer import answer_for

STEPS = "".join(f"step {i} loss {2 - i / 100:.3f} lr 1e-4\n" for i in range(80))
# The last line of a log, and the entry that it claims, "" for none.
LAST = {
    ":0:rocdevice.cpp :2614: 123456 us: HSA_STATUS_ERROR_EXCEPTION: An HSAIL operation resulted in a hardware exception. code: 0x1016": "",
    "Memory access fault by GPU node-1 (Agent handle: 0x5566) on address 0x7f0000000000. Reason: Unknown.": "",
    "free(): invalid pointer": "U60",
    "double free or corruption (!prev)": "U60",
    "malloc(): corrupted top size": "U60",
    "python: symbol lookup error: libc10_cuda.so: undefined symbol: cudaGetDriverEntryPointByVersion": "",
    "Unhandled exception in thread started by": "",
    "[2026-11-01 10:00:00,000] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 4711": "",
    "GPU 0000:3B:00.0 has fallen off the bus.": "HW1",
    "Out of memory: Killed process 4711 (python)": "M3",
    "c10::Error": "",
    "thread 'main' panicked at src/lib.rs:10:5": "",
    "CANCELLED BY USER": "",
    "Stale file handle": "U55",
    "Input/output error": "",
    "write error: No space left on device": "U6",
    "Disk quota exceeded": "U7",
}


@pytest.fixture
def ask(tmp_path):
    def asked(text, pasted=False):
        if pasted:
            return answer_for(text=text)
        (tmp_path / "train.log").write_text(text)
        return answer_for(log=str(tmp_path / "train.log"))

    return asked


@pytest.mark.parametrize("pasted", [False, True], ids=["file", "pasted"])
@pytest.mark.parametrize("line", LAST)
def test_the_last_new_line_of_a_log_is_quoted_and_never_called_sound(ask, line, pasted):
    answer = ask(STEPS + line + "\n", pasted)
    assert "No error found" not in answer.ask
    assert answer.evidence[0]["line"] == 81
    assert [m["id"] for m in answer.matches][:1] == ([LAST[line]] if LAST[line] else [])


def test_an_unknown_last_line_is_said_to_be_one(ask):
    answer = ask(STEPS + "the elves are on strike\n")
    assert "the log ends with a new line, quoted as evidence" in answer.ask
    assert answer.evidence[0]["text"] == "the elves are on strike"
    assert answer.matches == [] and answer.also == [] and answer.decision is None


@pytest.mark.parametrize(
    "end",
    [
        "",
        "Training completed. Do not forget to share your model on huggingface.co/models =)\n",
        "Training complete in 24m 3s\nsee you\n",
        "model saved to out/model.pt\n",
        "step 80 loss 1.200 lr 1e-4\nevaluation of 100 batches, acc 0.71\n",
    ],
)
def test_a_log_that_tells_its_end_or_ends_in_routine_has_no_error(ask, end):
    assert "No error found" in ask(STEPS + end).ask


def test_a_short_log_without_an_error_quotes_its_last_words(ask):
    answer = ask("loading the model\nusing 4 workers\nno corpus in that place\n")
    assert "No error found" not in answer.ask
    assert answer.evidence[0]["text"] == "no corpus in that place"


def test_a_root_signature_within_the_log_claims_nothing_where_other_words_end_it(ask):
    answer = ask(
        STEPS + "double free or corruption (!prev)\n" + STEPS + "the elves are on strike\n"
    )
    assert not answer.matches and answer.evidence[0]["text"] == "the elves are on strike"


WRITTEN = """Setup:
- two nodes with four cards each, torch 2.6
- `train.py` is the same on both

When I start on both of them my run stands still before the first step, and nothing is printed.
With one node alone it trains well.
"""


def test_what_a_person_wrote_in_a_file_gets_titles(ask):
    answer = ask(WRITTEN)
    assert answer.also and "doesn't say that it is done" not in answer.ask
    pasted = ask(WRITTEN, pasted=True)
    named = [each["id"] for each in [*pasted.matches, *pasted.also]]
    assert {title["id"] for title in answer.also[:3]} <= set(named)


SLOW = """My GPU is idle most of the time and training is slow: utilization jumps between 0 and 90 %.
The loader decodes images, `num_workers` is 2, and one epoch takes an hour.
"""


def test_words_alone_claim_nothing_in_a_file_and_its_entry_is_a_title(ask):
    pasted, of_file = ask(SLOW, pasted=True), ask(SLOW)
    assert pasted.matches, "as a text the words claim"
    assert of_file.matches == []
    assert pasted.matches[0]["id"] in [title["id"] for title in of_file.also[:3]]


@pytest.mark.parametrize(
    "log",
    [
        "step 0 loss 2.1\nstep 1 loss 2.0\n",
        "loading shards\nreading the index of the corpus\nwarming up\n",
        "config: base.yaml\nTraining completed. Do not forget to share your model with us =)\n",
    ],
)
def test_a_short_log_of_a_program_is_no_persons_words(ask, log):
    answer = ask(log)
    assert answer.matches == [] and answer.also == []


def test_a_signature_in_a_short_log_claims_wherever_it_stands(ask):
    bind = "[W socket.cpp:436] [c10d] The server socket has failed to bind to {} (errno: 98 - Address already in use)."
    log = bind.format("[::]:29511") + "\n" + bind.format("0.0.0.0:29511") + "\nleaving now\n"
    assert ask(log).matches[0]["id"] == "D4"


NORMS = "".join(
    f"{{'loss': {2 - i / 10:.2f}, 'grad_norm': {1 + i / 10:.2f}, 'epoch': {i / 50:.2f}}}\n"
    for i in range(7)
)


@pytest.mark.parametrize("count", [2, 7])
def test_a_gradient_that_is_nan_at_the_end_is_no_sound_log(ask, count):
    rows = NORMS.splitlines(keepends=True)[:count]
    answer = ask("".join(rows) + "{'loss': 1.10, 'grad_norm': nan, 'epoch': 0.16}\n")
    assert answer.matches[0]["id"] == "P14"
    assert "No error found" not in answer.ask


def test_a_gradient_that_was_nan_once_and_is_finite_again_is_no_fault(ask):
    rows = NORMS.splitlines(keepends=True)
    rows.insert(3, "{'loss': 1.75, 'grad_norm': nan, 'epoch': 0.05}\n")
    assert ask("".join(rows)).matches == []

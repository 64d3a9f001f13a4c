"""Ten thousand inputs that nobody should send: never a traceback, and never more than half a second for a megabyte."""

import io
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from remote_gpu_trainer.logs import reading
from remote_gpu_trainer.logs.files import ReadOptions, Unreadable
from remote_gpu_trainer.lookup.answer import answer_for
from remote_gpu_trainer.lookup.state import Answer
from remote_gpu_trainer.retrieval import ranking
from remote_gpu_trainer.text import BadRequest

from tests.engines.machine_speed import ordinary_log, ratio

MOST_TIMES = 8  # what an ordinary log of the same length takes
FRAGMENTS = [
    "Traceback (most recent call last):\n", '  File "', '", line 3, in f\n', "RuntimeError: ", "CUDA error: ", "[rank0]: ", "[rank99999]:", "\x1b[31m", "\x1b]0;", "\x07", "\r", "\n", "\t",
    "  5%|▌", "| 5/100 [00:01<00:10]", "Root Cause (first observed failure):\n", "  rank : 1\n", "  exitcode : -9\n", "Warning:", "Killed", "step 7 loss nan", "2026-11-20 10:00:00,123 ",
    "卡住不动", "显存不足", "\u200b", "\ufeff", "\U0001f600", "e\u0301\u0301", "\x00", "{{ 7*7 }}", "{% x %}", "$(rm -rf ~)", "`id`", "'; drop table entries; --", "../../etc/passwd", "%s%n",
    "<script>", "A.A.A.Error: ", "hf_abcdefghijklmnop", "token=aaaaaaaaaaaa", "|", "\\", "(", "[", "]", "*", "+?", "0.6931", "1e999", "-inf", "9" * 40, "_" * 30, "aA" * 20, "size mismatch for fc.weight",
]  # fmt: skip
# Each is repeated to a megabyte: as one line, as lines of 1,900 characters, and as lines of its own.
STALLING = [
    "a", " ", "\t", "|", "0", "9.", "_", "a_", "aA", "A.", "/a", "\\a", "[", "[rank", "[1]: ", "(rank 1) ", "Error: ", "error ", "x:", "x: ", "%|", "5%|a|", '"', "'", "File \"a\", line 1", "token=", "password: ",
    "sk-", "hf_", "\x1b[", "\x1b]", "=", "- ", "rank : 1 ", "exitcode : 1 ", "step 1 ", "key(s) in state_dict: ", "Warning: ", "Target -", "size mismatch (got input: [", "trainable params: 0 ", "IoU.a", "| nan ",
    "卡", "不下降 ", "\U0001f600", "\x00a" * 1, "Assertion ", "mm_projector ", "No such file or directory: '", "1,", "[1, ", "torch.Size([", "http://a/", "0x", "deadbeef", "2026-11-20 10:00:00 ", "I1120 10:00:00 1 a] ",
]  # fmt: skip


def ask(text: str) -> Answer | None:
    try:
        return answer_for(text=text)
    except (Unreadable, BadRequest) as refused:
        assert "\n" not in str(refused) and re.search("; |found", str(refused))
        return None


def test_six_thousand_texts_are_answered_or_refused(campaign):
    texts = campaign("hostile_texts")
    told = []

    @given(st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=20), max_size=40))
    @settings(
        max_examples=6000 if texts.recording else 600,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    def each(pieces):
        answer = ask("".join(pieces))
        told.append(answer is not None)
        if answer:
            assert len(answer.matches) <= 3 and all(
                match["id"] and match["check"] for match in answer.matches
            )

    each()
    results = texts.recorded({"texts": len(told), "answered": sum(told)})
    assert results["texts"] >= 6000 and results["answered"] > results["texts"] / 2


@given(
    st.lists(st.sampled_from([f.encode() for f in FRAGMENTS]) | st.binary(max_size=30), max_size=40)
)
@settings(max_examples=3000, deadline=None, suppress_health_check=list(HealthCheck))
def test_three_thousand_streams_of_bytes_are_read_or_refused(pieces):
    options = ReadOptions(tuple(ranking.load().signatures.needles()))
    try:
        reading.from_stream(io.BytesIO(b"".join(pieces)), options=options)
    except Unreadable as refused:
        assert "\n" not in str(refused)


@given(st.text(max_size=200), st.integers() | st.text(max_size=3) | st.none() | st.booleans())
@settings(max_examples=5 * settings.default.max_examples, deadline=None)
def test_any_limit_is_taken_or_refused(text, limit):
    try:
        answer_for(text=text, limit=limit)
    except (Unreadable, BadRequest) as refused:
        assert re.search("; |found", str(refused))


@pytest.mark.parametrize("piece", STALLING, ids=ascii)
def test_a_megabyte_that_is_made_to_stall_takes_a_few_times_what_an_ordinary_one_does(piece):
    megabyte = (
        (piece * (1_000_000 // len(piece.encode()) + 1))
        .encode()[:1_000_000]
        .decode("utf-8", "ignore")
    )
    line = (piece * (1900 // len(piece) + 1))[:1900]
    shapes = [
        megabyte,
        "\n".join([line] * 520),
        "\n".join(f"{line[: 1000 + at % 800]}{at}" for at in range(700)),
        (piece + "\n") * min(1_000_000 // (len(piece.encode()) + 1), 200_000),
    ]
    for text in shapes:
        ordinary = ordinary_log(max(len(text), 500_000))
        assert ratio(lambda: ask(text), lambda: ask(ordinary), turns=2) <= MOST_TIMES, text[:60]  # noqa: B023

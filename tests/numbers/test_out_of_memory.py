"""The numbers of an out-of-memory message, in each form that torch has printed: what fills the card."""

import pytest
from remote_gpu_trainer.logs import reading
from remote_gpu_trainer.numbers.memory import memory_in, memory_of
from remote_gpu_trainer.retrieval import ranking

from tests.conftest import ROOT
from tests.lookup.test_lookup import ask

OLDEST = "RuntimeError: CUDA out of memory. Tried to allocate 512.00 MiB (GPU 0; 7.93 GiB total capacity; 6.19 GiB already allocated; 340.00 MiB free; 551.04 MiB cached)"
OLD = (
    "RuntimeError: CUDA out of memory. Tried to allocate 2.00 MiB (GPU 0; 47.54 GiB total capacity; 194.45 MiB already allocated; 4.88 MiB free; 686.00 MiB reserved in total by PyTorch) "
    "If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation."
)
NEW = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {wanted}. GPU 0 has a total capacity of {total} of which {free} is free. {processes}"
    "Of the allocated memory {allocated} is allocated by PyTorch, and {unused} is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting …"
)
OWN = "Including non-PyTorch memory, this process has {} memory in use. "
ALONE = OWN.format("47.37 GiB")


def new(
    wanted="20.00 MiB",
    total="47.38 GiB",
    free="8.69 MiB",
    processes=ALONE,
    allocated="46.80 GiB",
    unused="118.42 MiB",
):
    return NEW.format(
        wanted=wanted,
        total=total,
        free=free,
        processes=processes,
        allocated=allocated,
        unused=unused,
    )


@pytest.mark.parametrize(
    ("text", "by"),
    [
        (OLDEST, "own"),
        (OLD, "others"),
        (new(), "own"),
        (new().replace("capacity", "capacty"), "own"),  # as 2.1 and 2.2 spell it
        (
            new(
                processes="Process 81034 has 30.57 GiB memory in use. " + OWN.format("16.8 GiB"),
                allocated="16.1 GiB",
            ),
            "others",
        ),
        (
            new(processes="Process 2109115 has 47.37 GiB memory in use. "),
            "own",
        ),  # in a container it doesn't know its own number
        (
            new(
                processes="Process 4 has 12.1 GiB memory in use. Process 5 has 35.2 GiB memory in use. ",
                allocated="11.2 GiB",
            ),
            "others",
        ),
        (new(allocated="35.00 GiB", unused="11.90 GiB", wanted="1.50 GiB"), "fragments"),
        (
            new(allocated="42.40 GiB", unused="4.50 GiB", wanted="9.50 GiB"),
            "own",
        ),  # all that is unused wouldn't do
        (new(wanted="5.68 EiB"), "size"),
        (new(free="37.29 GiB", processes=OWN.format("10.00 GiB"), allocated="9.20 GiB"), "limit"),
        (new().replace("CUDA", "HIP"), "own"),
    ],
)
def test_what_fills_the_card(text, by):
    assert memory_in(text).by() == by


def test_the_sum_is_told_in_one_sentence():
    assert (
        memory_in(OLD).sentence()
        == "other processes fill the card: of 47.5 GiB 0.19 allocated, 0.48 held unused, 45.9 others, 0.0048 free; 0.002 wanted"
    )


def test_a_message_broken_over_lines_is_read():
    found = reading.from_text(new().replace(". ", ".\n"))
    assert memory_of(found.lines)[1].by() == "own"


def test_the_last_of_several_messages_counts():
    found = reading.from_text(
        f"{new()}\nbatch size 8 is too large, trying 4\n{new(wanted='5.68 EiB')}\n"
    )
    line, told = memory_of(found.lines)
    assert (line.number, told.by()) == (3, "size")


@pytest.mark.parametrize(
    "text",
    [
        "CUDA out of memory",
        "Tried to allocate 2.00 GiB",
        "DefaultCPUAllocator: can't allocate memory: you tried to allocate 94000000000 bytes. Error code 12",
        "Tried to allocate 9999999999.00 GiB (GPU 0; " * 300,
    ],
)
def test_without_the_cards_size_nothing_is_said(text):
    assert memory_of(reading.from_text(text).lines) is None


def test_the_answer_holds_the_sum_in_place_of_the_message():
    told = [line["text"] for line in ask(OLD).evidence]
    assert told[0].startswith("read from the numbers: other processes fill the card: of 47.5 GiB")
    assert not any("Tried to allocate" in text for text in told)


def test_a_sum_that_proves_fragments_comes_before_what_words_say():
    answer = ask(
        f"Fine-tuning with TRL, random lengths.\n\n{new(allocated='35.00 GiB', unused='11.90 GiB', wanted='1.50 GiB')}"
    )
    assert [(match["id"], match["why"]) for match in answer.matches[:1]] == [
        ("M8", "the numbers of the message")
    ]
    assert "U10" in [match["id"] for match in answer.matches]


def test_a_sum_makes_no_answer_where_nothing_fits():
    told = reading.from_text(
        "java.lang.IllegalStateException in our Kafka consumer, the billing service restarts"
    )
    assert ranking.load().rank(told, pointed=ranking.Pointed("M8", True)).confidence == ""


TRACEBACKS = ROOT / "tests" / "numbers" / "tracebacks"


@pytest.mark.parametrize(
    ("name", "entry", "place"),
    [("hf_eval", "M15", 0), ("plain_optim", "M17", 1), ("plain_backward", "M14", 1)],
)
def test_the_calls_of_the_traceback_point_to_the_entry_of_that_place(name, entry, place):
    answer = ask((TRACEBACKS / f"{name}.txt").read_text())
    assert [match["id"] for match in answer.matches][place] == entry
    assert answer.matches[place]["why"].endswith("by the calls")
    assert len({match["id"] for match in answer.matches}) == 3


def test_where_others_fill_the_card_the_place_points_nowhere():
    text = (
        (TRACEBACKS / "hf_eval.txt")
        .read_text()
        .replace("this process has 47.37 GiB", "this process has 9.37 GiB")
        .replace("46.80 GiB is allocated", "8.80 GiB is allocated")
    )
    answer = ask(text)
    assert "other processes fill the card in an evaluation" in answer.evidence[0]["text"]
    assert "M15" not in [match["id"] for match in answer.matches[:1]]

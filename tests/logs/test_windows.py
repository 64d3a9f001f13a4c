"""What is kept of a large log, and with which line numbers."""

import io
import random

import pytest
from remote_gpu_trainer.logs import windows
from remote_gpu_trainer.logs.files import ReadOptions, of_stream
from remote_gpu_trainer.lookup.answer import answer_for

from tests.engines.machine_speed import ordinary_log, ratio


def rows(data: bytes, needles=()) -> dict[int, list[bytes]]:
    found: dict[int, list[bytes]] = {}
    for number, row in of_stream(io.BytesIO(data), options=ReadOptions(needles=tuple(needles))):
        found.setdefault(number, []).append(row)
    return found


MOST_TIMES = 12  # what an ordinary log of the same length takes
BORING = b"step 12 loss 0.5\n"


def test_a_small_log_is_kept_whole_and_a_large_one_is_not():
    assert len(rows(BORING * 5000)) == 5000
    assert len(rows(BORING * 200_000)) < 20_000


def test_first_times_and_the_last_time_of_a_repeated_line_are_kept():
    parts = []
    for number in range(300_000):
        parts.append(b"Error: retry %d\n" % number if number % 1000 == 500 else BORING)
    found = rows(b"".join(parts))
    kept = [int(row[0].split()[-1]) for row in found.values() if row[0].startswith(b"Error")]
    assert kept[: windows.PER_SHAPE] == [500, 1500, 2500] and kept[-1] == 299_500


def test_the_last_time_of_a_line_that_stopped_long_ago_is_kept():
    data = (
        b"".join(b"Error: early %d\n" % n for n in range(50))
        + BORING * 100_000
        + b"Error: late\n"
        + BORING * 100_000
    )
    texts = [row for held in rows(data).values() for row in held]
    assert b"Error: early 49" in texts and b"Error: late" in texts


def test_carriage_returns_make_rows_but_no_line_numbers():
    bars = b"".join(b"\r%d%%|# | %d/100" % (n % 100, n % 100) for n in range(60_000))
    found = rows(b"first\n" + bars + b"\n" + BORING * 40_000 + b"KeyError: 'x'\n" + BORING * 40_000)
    [number] = [number for number, held in found.items() if b"KeyError: 'x'" in held]
    assert number == 3 + 40_000


def test_a_needle_is_found_by_its_inner_words_whatever_stands_around_it():
    data = BORING * 100_000 + b"[3] the quick brown fox 9 jumps.\n" + BORING * 100_000
    assert any(
        b"brown fox" in row for held in rows(data, [b"quick brown fox"]).values() for row in held
    )
    assert not any(b"brown fox" in row for held in rows(data).values() for row in held)


def test_a_window_that_a_block_cuts_goes_on_in_the_next():
    head = BORING * (windows.BLOCK // len(BORING))
    data = (
        head[: windows.BLOCK - 40]
        + b"\nTraceback (most recent call last):\n"
        + b"".join(b"  frame %d of it\n" % n for n in range(20))
        + b"boom\n"
        + BORING * 60_000
    )
    texts = [row for held in rows(data).values() for row in held]
    assert b"  frame 0 of it" in texts and b"boom" in texts


def test_many_shapes_are_forgotten_without_losing_an_error(monkeypatch):
    monkeypatch.setattr(windows, "MAX_SHAPES", 1000)
    lines = [
        b"note %s\n" % bytes([97 + n % 26, 97 + n // 26 % 26, 97 + n // 676 % 26])
        for n in range(17_576)
    ] * 4
    lines[40_000] = b"AssertionError: here\n"
    assert any(
        b"AssertionError: here" in held for held in rows(b"".join(lines) + BORING * 10_000).values()
    )


def words(seed: int, letters: int):
    draw = random.Random(seed)
    while True:
        yield "".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=letters))


ROWS = {
    "an error with another word": lambda word, at: f"Error {word} x",
    "a shard with another name": lambda word, at: (
        f"loading shard {word[:2]}_{word[2:5]}.parquet failed=0 {at}/100000"
    ),
    "another exception": lambda word, at: f"{word[:5].title()}Error: {word} at {at}",
    "a warning from another file": lambda word, at: f"/a/{word[:5]}.py:3: UserWarning: {word}",
    "few letters": lambda word, at: f"Error {word[:3]} x",
    "nothing telling": lambda word, at: f"note {word} x",
}


@pytest.mark.parametrize("end", ["\r", "\n"], ids=["carriage returns", "line feeds"])
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_megabyte_of_rows_that_all_differ_takes_a_few_times_what_an_ordinary_one_does(row, end):
    size, pieces, word = 0, [], words(3, 9)
    while size < 1_000_000:
        pieces.append(row(next(word), len(pieces)) + end)
        size += len(pieces[-1])
    texts = ["".join(pieces).encode(), ordinary_log(size).encode()]
    odd, ordinary = (lambda text=text: answer_for(stream=io.BytesIO(text)) for text in texts)
    assert ratio(odd, ordinary, turns=2) <= MOST_TIMES


def test_rows_of_a_block_have_the_numbers_of_their_lines_whatever_ends_them():
    draw = random.Random(1)
    for _ in range(300):
        text = b"".join(
            draw.choice([b"a", b"bb", b"\n", b"\r", b"\r\n"]) for _ in range(draw.randrange(40))
        )
        block, wanted = windows._Block(text, 7), windows._rows(text, 7)
        for _ in range(20):  # forwards and back
            first = draw.randrange(len(wanted) + 1)
            last = draw.randrange(first, len(wanted) + 1)
            assert block.rows(first, last) == wanted[first:last], text


def test_of_more_shapes_than_can_be_remembered_the_last_rows_are(monkeypatch):
    monkeypatch.setattr(windows, "MAX_LATEST", 10)
    monkeypatch.setattr(windows, "MAX_KEPT", 0)
    word = words(5, 7)
    rare = [b"Error: %s once\n" % next(word).encode() for _ in range(20_000)]
    texts = {
        row
        for held in rows(BORING * 10_000 + b"".join(rare) + BORING * 200_000).values()
        for row in held
    }
    assert rare[-1].strip() in texts and rare[10_000].strip() not in texts


def test_of_a_log_that_is_one_of_many_little_is_kept_but_its_head_its_end_and_an_error():
    data = b"start\n" + BORING * 3000 + b"KeyError: 'x'\n" + BORING * 3000 + b"the end\n"
    found = of_stream(io.BytesIO(data), most=20_000)
    texts = [row for _, row in found]
    assert {b"start", b"KeyError: 'x'", b"the end"} <= set(texts)
    assert windows.cost(len(found), sum(map(len, texts))) < 60_000

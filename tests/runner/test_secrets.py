"""Secrets: where they come from, and *** for them in a stream."""

import base64
import random
import time

import pytest
from remote_gpu_trainer.runner import secrets
from remote_gpu_trainer.runner.context import Run

from tests.runner.jobs import job_of, secrets_of

VALUE = "s3cr3t-Value-1234"


def run_with(tmp_path, **fields) -> Run:
    return Run(job_of({"rendered": {"run_dir": str(tmp_path)}}, fields))


def test_values_come_from_files_and_variables(tmp_path, monkeypatch):
    (tmp_path / "key").write_text(VALUE + "\r\n\n")
    monkeypatch.setenv("OTHER", VALUE)
    run = run_with(
        tmp_path,
        secrets=secrets_of(
            {"FILE": str(tmp_path / "key"), "GONE": "/no/such"},
            {"NAME": "OTHER", "NOT": "NOT_SET_HERE"},
        ),
    )
    assert secrets.load(run) == {"FILE": VALUE, "NAME": VALUE}
    assert secrets.names(run.spec) == ["FILE", "GONE", "NAME", "NOT"]
    assert secrets.problems(run) == [
        ("", "the secret GONE has no readable file /no/such"),
        ("secret", "the secret NOT_SET_HERE is not set in this environment"),
    ]


def test_a_file_that_no_variable_can_hold_is_a_problem(tmp_path):
    (tmp_path / "key").write_text("x" * 200_000)
    [(_, reason)] = secrets.problems(
        run_with(tmp_path, secrets=secrets_of({"A": str(tmp_path / "key")}))
    )
    assert "larger than a variable may be" in reason


@pytest.mark.parametrize("size", [1, 3, 7, 64, 10_000])
def test_a_secret_in_pieces_is_masked(size):
    mask = secrets.Mask([VALUE, "short", "first-Line-1234\nsecond-Line-5678"])
    text = f"a {VALUE}b short\n".encode() * 3 + b"second-Line-5678 s3cr3t-Valu s3cr3t-Value-1234"
    shown = b"".join(mask.feed(text[n : n + size]) for n in range(0, len(text), size))
    assert shown + mask.flush() == b"a ***b short\n" * 3 + b"*** s3cr3t-Valu ***"


def test_the_longest_value_wins_and_a_whole_one_of_several_lines_is_one(tmp_path):
    mask = secrets.Mask(["abcdef", "abcdefghi", "first-Line-1234\nxy\nsecond-Line-5678"])
    assert mask.feed(b"abcdef") == b""
    assert mask.feed(b"ghi.abcdefgh.") == b"***.***gh."
    assert mask.text("<first-Line-1234\nxy\nsecond-Line-5678>") == "<***>"
    assert mask.text("<first-Line-1234 xy>") == "<*** xy>"


def test_what_is_no_secret_is_not_held_back():
    mask = secrets.Mask([VALUE])
    assert mask.feed(b"50% 5/9\r") == b"50% 5/9\r"
    assert mask.feed(b"this is s3") == b"this is " and mask.flush() == b"s3"
    assert mask.feed(b"s3cr3t-V") == b"" and mask.flush() == b"***"
    assert secrets.Mask([]).feed(b"all") == b"all"


def test_a_value_of_two_thousand_lines_does_not_brake():
    made = random.Random(1)
    lines = [base64.b64encode(made.randbytes(48)).decode() for _ in range(2000)]
    mask = secrets.Mask(["\n".join(lines)])
    piece = b"step 12 loss 0.123456 tokens/s 123456 some more words of an ordinary line here\n"
    begin = time.perf_counter()
    shown = b"".join(mask.feed(piece) for _ in range(5000))
    assert time.perf_counter() - begin < 5  # minutes, when each value is looked for in each piece
    assert shown == piece * 5000
    assert mask.feed(b"a " + lines[77].encode() + b" b\n") == b"a *** b\n"


def test_lines_with_one_beginning_do_not_brake():
    values = [f"{' ' * 8}export NAME_{n}=value-{n}" for n in range(3000)]
    mask = secrets.Mask(["\n".join(values)])
    begin = time.perf_counter()
    text = b"export " * 30_000 + b"."
    assert mask.feed(text) + mask.flush() == text
    assert time.perf_counter() - begin < 5

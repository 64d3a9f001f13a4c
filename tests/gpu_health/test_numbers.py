"""The check of numbers finds a flipped bit in any type, and nothing on cards that are sound."""

import json
import sys

import pytest
from generated_docs.bit_flips_page import shares

from tests.conftest import module
from tests.gpu_health.gpu_faults import CAPTURES
from tests.gpu_health.script import gpu_health

MATTERING = 0.99  # of the flips with an effect above 2^-8 of the largest value


def judged(*lines):
    """The findings on what the worker printed, and what it looked at."""
    add = gpu_health.Findings()
    looked = gpu_health.judge_numbers(list(lines), add)
    return add.list, looked


def done(gpu=0, **changes):
    line = {"stage": "numbers done", "gpu": gpu, "products": 28, "faults": 0, "types": "fp64 fp32"}
    return dict(line, not_looked_at="fp8: the card has none", memory_gib=70.2, **changes)


WRONG = {
    "stage": "numbers wrong",
    "gpu": 3,
    "type": "bf16",
    "shape": "3765x509x3945",
    "wrong": 12,
    "changed": 0,
    "of": 14852925,
    "off": 0.03125,
}


# What the answer says.


def test_sound_cards_give_no_finding_and_say_what_was_looked_at():
    findings, looked = judged(done(0), done(1))
    assert findings == [] and [card["gpu"] for card in looked] == [0, 1]
    assert looked[0]["not_looked_at"] == "fp8: the card has none"


def test_a_wrong_product_is_fatal_and_names_card_type_and_shape():
    (finding,), _ = judged(WRONG, dict(WRONG, type="fp16", wrong=0, changed=2), done(3))
    assert (finding["gpu"], finding["level"]) == (3, "fatal")
    assert finding["evidence"] == (
        "wrong products: bf16 3765x509x3945: 12 of 14852925 elements wrong, by up to 0.031 of the"
        " largest; fp16 3765x509x3945: 2 differ the second time"
    )


@pytest.mark.parametrize(
    ("line", "gpu", "words"),
    [
        (
            {"stage": "numbers memory", "gpu": 1, "wrong": 7, "bytes": 3 << 30, "first": 4096},
            1,
            "7 words of 8 bytes in 3.0 GiB of memory came back changed, the first at byte 4096",
        ),
        (
            {"stage": "numbers copy", "source": "0", "target": "2", "wrong": 5},
            None,
            "copy from GPU 0 to GPU 2: 5 words",
        ),
        (
            {"stage": "numbers copy", "source": "host", "target": "2", "wrong": 5},
            2,
            "copy from host to GPU 2: 5 words",
        ),
        ({"stage": "numbers host"}, None, "the CPU gives two results"),
    ],
    ids=["memory", "copy between cards", "copy from the host", "the host's own CPU"],
)
def test_a_wrong_number_anywhere_is_fatal(line, gpu, words):
    (finding,), _ = judged(line, done())
    assert (finding["gpu"], finding["level"]) == (gpu, "fatal") and words in finding["evidence"]


def test_each_faulty_pair_of_cards_is_told():
    pairs = [("0", "1"), ("1", "0"), ("0", "2")]
    lines = [{"stage": "numbers copy", "source": a, "target": b, "wrong": 1} for a, b in pairs]
    assert len(judged(*lines, done())[0]) == 3


def test_a_card_on_which_no_product_could_be_tried_is_unknown():
    (finding,), _ = judged(dict(done(), products=0, not_looked_at="fp64: no time"))
    assert finding["level"] == "unknown" and "fp64: no time" in finding["evidence"]


def test_without_torch_the_answer_says_not_looked_at():
    record = gpu_health.load(str(CAPTURES / "t4x1"))
    text = "Traceback\nModuleNotFoundError: No module named 'torch'\n"
    got = {"text": text, "timed_out": False}
    measured, findings = gpu_health.judged_stress(got, [], record, "")
    assert measured["numbers"] == "not looked at"
    assert [finding["level"] for finding in findings] == ["unknown"]


def test_lines_that_no_worker_prints_break_nothing():
    odd = [dict.fromkeys(WRONG, None), dict(WRONG, type=[1], shape={"a": 2}, off="x", of=None)]
    lines = [dict(line, stage="numbers wrong") for line in odd]
    lines += [{"stage": "numbers memory"}, {"stage": "numbers copy"}, {"stage": "numbers done"}]
    assert {finding["level"] for finding in judged(*lines)[0]} == {"fatal", "unknown"}


# The worker.


@pytest.fixture
def flips():
    """The trial with flipped bits; on one thread, as its products are small."""
    module("torch", "pip install '.[proofs]'")
    import torch

    from tests.gpu_health import bit_flips

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield bit_flips
    torch.set_num_threads(before)


def test_the_load_is_followed_by_the_numbers_in_the_same_process():
    module("torch", "pip install '.[proofs]'")
    record = gpu_health.load(str(CAPTURES / "t4x1"))
    measured, findings = gpu_health.stress(0.5, sys.executable, record, device="cpu", size=64)
    (card,) = measured["numbers"]
    assert card["products"] >= 5 and card["faults"] == 0 and card["types"].startswith("fp64")
    assert measured["matmul"][0]["checks"] >= 2
    assert [one for one in findings if one["level"] == "fatal"] == []


def test_a_program_that_ends_ends_the_series():
    """The load stops the process where it finds no card; nothing else is tried then."""
    module("torch", "pip install '.[proofs]'")
    config = json.dumps({"seconds": 1, "device": "cuda"})
    programs = [gpu_health.STRESS_WORKER, gpu_health.NUMBERS_WORKER]
    command = [sys.executable, "-c", gpu_health.IN_TURN, config, *programs]
    got = gpu_health.run(command, 120.0)
    assert "torch sees no GPU" in got["text"] and "numbers" not in got["text"]


def test_nearly_all_flips_that_matter_are_found_in_each_type(flips, some, campaign):
    """Each bit of a result and of both inputs; a tenth of them runs, without --all a fortieth."""
    counts = {}
    for seed, job in some(campaign("bit_flips").live(list(enumerate(flips.jobs()))), 4):
        counts.setdefault((job[0], job[3]), flips.Flips()).add(flips.tried(job, seed))
    rows = [dict(vars(count), type=key[0], where=key[1]) for key, count in counts.items()]
    for known in (rows, campaign("bit_flips").recorded(rows)):
        assert {row["type"] for row in known} == set(flips.worker.TYPES)
        assert sum(row["above"] for row in known) > 100
        assert min(share for both in shares(known).values() for share in both) >= MATTERING


def test_a_thousand_products_of_sound_cards_raise_no_alarm(flips, some, campaign):
    """Each tenth of them runs; without --all, each fortieth."""
    rows = {}
    for job in some(campaign("sound_products").live(flips.sound_jobs()), 4):
        row = rows.setdefault(job[3], {"way": job[3], "products": 0, "alarms": 0})
        row["products"] += 1
        row["alarms"] += not flips.is_sound(job)
    rows = list(rows.values())
    recorded = campaign("sound_products").recorded(rows)
    assert sum(row["products"] for row in recorded) == 1000
    assert {row["way"] for row in recorded} == set(flips.SOUND)
    assert [row for row in rows + recorded if row["alarms"]] == []


def test_limits_are_single_values_only_where_nothing_can_be_lost(flips):
    import torch

    chance = torch.Generator().manual_seed(0)
    for name in flips.worker.TYPES:
        case = flips.case_of(name, flips.worker.EVEN, "whole", 1)
        assert torch.equal(case.low, case.high)
        assert torch.equal(case.low.double(), case.left @ case.right)
    left, right = (torch.randint(1, 9, (4, 4), generator=chance).double() for _ in range(2))
    low, high = flips.worker.limits(left * 101, right * 101, 8, torch.bfloat16)
    assert (low < high).all()  # eight bits can't hold such sums


def test_a_result_that_a_card_flushes_to_zero_is_within_the_limits(flips):
    import torch

    left = torch.full((2, 4), 2.0**-10, dtype=torch.float64)
    low, high = flips.worker.limits(left, left.t(), 24, torch.float16)
    assert float((left @ left.t()).max()) < torch.finfo(torch.float16).tiny
    assert int(flips.worker.outside(torch.zeros(2, 2, dtype=torch.float16), low, high)) == 0


@pytest.mark.parametrize("error", [AttributeError, AssertionError])
def test_without_a_way_to_forbid_narrow_sums_only_whole_numbers_are_tried(
    flips, monkeypatch, error
):
    """PyTorch 1.12 has no such switch for bf16, and says so by an AssertionError."""

    class Flags:
        def __getattr__(self, name):
            raise error(f"Unknown attribute {name}")

    worker = flips.worker
    monkeypatch.setattr(worker.torch.backends.cuda, "matmul", Flags())
    assert not worker.keeps_wide_sums("bf16") and worker.keeps_wide_sums("fp32")
    assert {kind for _, kind in worker.cases_of("bf16", False)} == {"whole"}


def test_a_host_that_finds_two_sums_is_blamed_and_no_card(flips, monkeypatch, capsys):
    monkeypatch.setattr(flips.worker.torch, "equal", lambda one, other: False)
    flips.worker.main({"device": "cpu", "size": 64, "seconds": 1})
    lines = [json.loads(line[11:]) for line in capsys.readouterr().out.splitlines()]
    assert [line["stage"] for line in lines[-2:]] == ["numbers host", "end"]
    assert not [line for line in lines if line["stage"] in ("numbers wrong", "numbers done")]


@pytest.mark.parametrize("turn", [0, 1], ids=["as written", "turned"])
def test_a_bit_that_flips_in_memory_is_found(flips, turn):
    looks = []

    def touch(blocks):
        looks.append(len(blocks))
        if len(looks) == turn + 1:
            blocks[1][5] ^= 1 << 40

    size, wrong, first = flips.worker.fill(flips.CPU, [100, 100], float("inf"), touch)
    assert (size, first) == (1600, 8 * 105)
    assert wrong == (2 if turn == 0 else 1)  # a bit that was wrong stays wrong when it is turned


def test_memory_that_keeps_what_was_written_is_sound(flips):
    assert flips.worker.fill(flips.CPU, [100, 100], float("inf")) == (1600, 0, None)


def test_a_copy_that_arrives_changed_is_told_with_both_ends(flips):
    places = [("host", flips.CPU), ("0", flips.CPU), ("1", flips.CPU)]
    sent = []

    def mover(block, place):
        sent.append(block.clone())
        block = block.clone()
        if len(sent) == 4:
            block[7] ^= 1
        return block

    done_copies, wrong = flips.worker.copy_between(places, 64, float("inf"), mover)
    assert done_copies == 6 and wrong == [("0", "1", 1)]
    assert not any((one == other).any() for one, other in zip(sent, sent[1:], strict=False))


def test_the_time_ends_what_is_left(flips):
    assert flips.worker.fill(flips.CPU, [100], 0.0) == (0, 0, None)
    assert flips.worker.copy_between([("0", flips.CPU), ("1", flips.CPU)], 8, 0.0) == (0, [])


def test_a_product_that_this_torch_lacks_is_left_out_with_the_reason(flips, monkeypatch, capsys):
    def multiply(name, left, right):
        if name == "fp8":
            raise RuntimeError("not implemented for this card\nmore")
        return flips.plain(name, left, right)

    monkeypatch.setattr(flips.worker, "product", multiply)
    monkeypatch.setattr(flips.worker, "TYPES", {"fp8": flips.worker.TYPES["fp8"]})
    flips.worker.look([flips.CPU], 0, small=64)
    last = json.loads(capsys.readouterr().out.splitlines()[-1][11:])
    assert last["products"] == 0 and last["not_looked_at"] == "fp8: not implemented for this card"

"""What the numbers of a log say about its run, and that a run which is well says nothing."""

import math
import random

import pytest
from remote_gpu_trainer.logs.reading import from_path, from_text
from remote_gpu_trainer.lookup.answer import answer_for
from remote_gpu_trainer.numbers import checks, metric_series


def said(rows):
    found = checks.findings(
        metric_series.of_rows([(n, row.encode()) for n, row in enumerate(rows, 1)])
    )
    return [(finding.row, finding.message) for finding in found if finding.fault]


def falling(count, first=2.3, last=0.3, noise=0.03, seed=0):
    chance = random.Random(seed)
    return [
        (last + (first - last) * math.exp(-4 * i / count)) * (1 + chance.gauss(0, noise))
        for i in range(count)
    ]


def steps(values, name="loss", more=""):
    return [f"step {i} {name} {value:.4f}{more}" for i, value in enumerate(values)]


def two_runs(times):
    first = falling(16)
    return [
        f"step {i % 16} loss {v:.4f} grad_norm {n:.4f}"
        for i, (v, n) in enumerate(
            zip(
                [*first, *(times * v for v in first)],
                [*first, *(times * v for v in first)],
                strict=True,
            )
        )
    ]


NAN, INF = math.nan, math.inf
FAULTS = {
    "nan": (steps(falling(20) + [NAN] * 20), 21, "suddenly becomes nan"),
    "nan after it rose": (steps([2.3, 2.2, 2.1, 2.2, 2.9, 8.0, 31.0, NAN, NAN, NAN]), 8, "suddenly becomes nan"),
    "nan at once": (steps([NAN] * 12), 1, "is nan from its first value on"),
    "nan in the middle of a run": ([f"step {9000 + i} loss nan" for i in range(12)], 1, "is nan in every line"),
    "inf now and then": (steps([INF if i % 4 == 2 else v for i, v in enumerate(falling(40))]), 3, "is inf in 10 of 40 steps"),
    "zero and a norm of nan": ([f"{{'loss': 1.{i}, 'grad_norm': 0.5}}" for i in range(5)] + ["{'loss': 0.0, 'grad_norm': nan}"] * 9, 6, "grad_norm is nan in the last 9 steps"),
    "two runs, the second eight times the first": (two_runs(8), 17, "exactly 8 times larger in the second run"),
    "zero at once": (steps([0.0] * 12), 1, "exactly 0.0 from the first step"),
    "flat at ln 10": (steps([2.3026 + 0.002 * (-1) ** i for i in range(20)]), 1, "stays at 2.303, ln(10)"),
    "falls hardly, and single steps go up": (steps([0.9 - 0.0003 * i + 0.0003 * (-1) ** i for i in range(24)]), 1, "falls smoothly but so slowly"),
    "flat and falls hardly": (steps([0.9012 - 0.0001 * i for i in range(20)]), 1, "falls smoothly but so slowly"),
    "runs away": (steps([2.3 * 1.2**i for i in range(20)]), None, "loss diverges"),
    "falls and rises": (steps(falling(30) + [1.9] * 15), None, "then jumps to 1.9 and stays up"),
    "below zero": (steps([1.0 - 0.3 * i for i in range(20)]), 5, "negative and falls without limit"),
    "hundreds": (["vocab_size = 32000", *steps(falling(20, first=431.0, last=40.0))], 2, "first loss is in the hundreds"),
    "softmax twice": (steps([2.3, 1.9, 1.6, *[1.478] * 12], more=" acc 0.97"), 15, "never gets below 1.46"),
    "binary loss at its clamp": (steps(falling(12, first=0.7, last=0.1)) and [f"step {i} bce 0.{70 - i} acc 0.9" for i in range(12)] + [f"step {i} bce {100 * (1 - i / 32):.3f} acc {i / 32:.5f}" for i in range(14, 24)], 13, "of 100"),
    "no gradient": (steps([2.3 + i % 2 / 50 for i in range(12)], more=" grad_norm 0.0"), 1, "gradients are exactly zero"),
    "norms jump": (steps(falling(60), more="") and [f"step {i} loss 2.{i} grad_norm {300.0 if i % 13 == 12 else 0.7}" for i in range(60)], 13, "grad_norm jumps from 0.7 to 300"),
    "rate of zero": (steps([2.3 + i % 2 / 50 for i in range(12)], more=" lr 0.0"), 1, "learning rate is 0 in every step"),
    "rate ends early": ([f"step {i} loss {v:.4f} lr {1e-3 if i < 10 else 0.0}" for i, v in enumerate(falling(40))], 11, "reaches zero early"),
    "scale halves": ([f"step {i} loss 2.{i} loss_scale: {65536 / 2**i}" for i in range(12)], 1, "loss scale halves"),
    "KL below zero": ([f"step {i} loss 0.{i} objective/kl: {0.1 - 0.05 * i:.3f} reward: 0.{i}" for i in range(20)], 16, "KL divergence to the reference is negative"),
    "validation at chance": ([f"epoch {i} train acc {0.5 + 0.02 * i:.2f} val acc 0.10{i % 3} train loss {v:.3f}" for i, v in enumerate(falling(20))], 1, "stays near chance at 0.101"),
    "one class": ([f"epoch {i} loss {v:.3f} acc 0.6543" for i, v in enumerate(falling(12))], 1, "accuracy is exactly 0.6543 in every epoch"),
    "mAP of zero": ([f"epoch {i} loss {v:.3f} mAP: 0.000" for i, v in enumerate(falling(12))], 1, "mAP is exactly 0"),
    "a class of zero": (["| Class | IoU | Acc |", "| road | 81.0 | 90.0 |", "| pole | 0.0 | 0.0 |", "loss: 0.4, lr: 0.01"] * 5, 3, "pole IoU is exactly 0"),
    "resumed with a jump": (steps(falling(20)) + ["resuming from runs/1/last.pt"] + [f"step {20 + i} loss {1.9 - i / 50:.3f}" for i in range(12)], 21, "jumps right after resume"),
    "rate after resume": (
        [f"step {i} loss {v:.3f} lr 0.001" for i, v in enumerate(falling(20))] + ["Resumed from last.pt"] + [f"step {20 + i} loss 0.3 lr {i / 1e4:.5f}" for i in range(12)],
        21,
        "replays its warm-up",
    ),
    "count after resume": ([f"epoch {i} loss {v:.3f}" for i, v in enumerate(falling(20))] + ["Resumed from last.pt"] + [f"epoch {i} loss 0.30" for i in range(12)], 21, "counts from 0 again"),
}  # fmt: skip


@pytest.mark.parametrize("rows, row, text", FAULTS.values(), ids=FAULTS)
def test_a_fault_is_told_in_words_with_its_line(rows, row, text):
    found = said(rows)
    assert [told for told in found if text in told[1] and row in (None, told[0])], found


SOUND = {
    "a norm and a scale that the framework doesn't know": steps(falling(30), more=" loss scale: -1.0 grad norm: 0.000"),
    "falls": steps(falling(60)),
    "falls noisily": steps(falling(200, noise=0.3)),
    "few lines": steps(falling(3)),
    "flat end of a long run": [f"step {40_000 + 10 * i} loss {0.31 + 0.004 * (-1) ** i:.4f}" for i in range(60)],
    "a spike that heals": steps([9.0 if i == 30 else v for i, v in enumerate(falling(60))]),
    "one nan that heals": steps([NAN if i == 30 else v for i, v in enumerate(falling(60))]),
    "zero at the end": steps([*falling(20, last=0.01), *[0.0] * 10]),
    "warm-up and decay": [f"step {i} loss {v:.3f} lr {min(i, 59 - i) / 1e5:.6f}" for i, v in enumerate(falling(60))],
    "accuracy at the top": [f"epoch {i} loss {v:.3f} acc 1.0" for i, v in enumerate(falling(20, last=0.001))],
    "a score that comes late": [f"epoch {i} loss {v:.3f} mAP: {max(0, i - 3) / 20:.3f}" for i, v in enumerate(falling(20))],
    "resumed well": steps(falling(20)) + ["resuming from runs/1/last.pt"] + [f"step {20 + i} loss 0.30" for i in range(12)],
    "slow first step": [f"step {i} loss {v:.3f} time: {30.0 if i == 0 else 0.41}" for i, v in enumerate(falling(30))],
    "time since the start": [f"step {i} loss {v:.3f} time: {10.0 * i + 3}" for i, v in enumerate(falling(60))],
    "a policy's loss": [f"step {i} policy_loss {-0.1 * i:.3f} reward {i}" for i in range(20)],
    "a reward beside a loss of zero": [f"{{'loss': 0.0, 'reward': {i / 10}, 'kl': 0.0{i}}}" for i in range(20)],
    "fine-tuning that starts low": [f"step {i} loss {0.21 + 0.04 * random.Random(i).random():.3f}" for i in range(40)],
}  # fmt: skip


@pytest.mark.parametrize("rows", SOUND.values(), ids=SOUND)
def test_a_run_that_is_well_has_no_fault(rows):
    assert not said(rows)


def test_overfitting_and_slowing_down_are_told_and_are_no_fault():
    rows = [
        f"epoch {i} train_loss {2 - i / 12:.3f} val_loss {1.5 + abs(i - 6) / 10:.3f} time: {0.3 * 1.1**i * (1 + i % 2 / 5):.3f}"
        for i in range(24)
    ]
    found = checks.findings(
        metric_series.of_rows([(n, row.encode()) for n, row in enumerate(rows, 1)])
    )
    assert [f.fault for f in found] == [False, False]
    assert "which is overfitting" in found[0].message and "longer and longer" in found[1].message


def write(tmp_path, rows):
    (tmp_path / "train.log").write_text("\n".join(rows) + "\n")
    return str(tmp_path / "train.log")


def test_a_log_of_numbers_alone_gets_its_entry(tmp_path):
    answer = answer_for(
        log=write(
            tmp_path,
            ["Using device cuda", "Distributed environment: NO", *steps(falling(20) + [NAN] * 20)],
        )
    )
    assert answer.matches[0]["id"] == "P9"
    assert answer.evidence[0] == {
        "source": "train.log",
        "line": 23,
        "rank": None,
        "text": "read from the numbers: loss suddenly becomes nan and stays nan",
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("step 1 loss 2.31\nstep 2 loss 2.20\nstep 3 loss nan\n", "P9"),
        ("Epoch 1/2 loss: 0.69\nEpoch 2/2 loss: nan\nSaving the model\n", "P9"),
        ("loss: 0.9\nloss: 0.7\nloss: 0.8\n", None),
        ("nan in column age was dropped\nloss: 0.9\nloss: 0.7\n", None),
    ],
)
def test_a_nan_needs_no_course_to_be_seen(text, said, tmp_path):
    (tmp_path / "train.log").write_text(text)
    matches = answer_for(log=str(tmp_path / "train.log")).matches
    assert (matches[0]["id"] if matches else None) == said


def test_a_log_of_a_run_that_is_well_gets_none(tmp_path):
    answer = answer_for(
        log=write(
            tmp_path,
            [
                "Using device cuda",
                "Distributed environment: NO",
                "Num processes: 1",
                *steps(falling(60)),
            ],
        )
    )
    assert answer.matches == []


def test_what_somebody_says_beside_such_a_log_is_heard(tmp_path):
    log = write(tmp_path, steps(falling(60)))
    answer = answer_for(
        text="validation gives different numbers each time for the same checkpoint", log=log
    )
    assert [*answer.matches, *answer.also][0]["id"] in ("V2", "O5")


def test_a_failure_is_believed_before_the_numbers(tmp_path):
    found = from_path(
        write(
            tmp_path,
            [*steps([NAN] * 20), "RuntimeError: mat1 and mat2 shapes cannot be multiplied"],
        )
    )
    assert found.seen == "" and found.decisive[0].text.startswith("RuntimeError")


def test_a_folder_is_read_by_its_first_log_with_numbers(tmp_path):
    for rank in range(2):
        (tmp_path / f"rank_{rank}.log").write_text(
            "\n".join(steps(falling(20) + [NAN] * 20)) + "\n"
        )
    found = from_path(str(tmp_path))
    assert found.seen == "P9" and (found.decisive[0].source, found.decisive[0].number) == (
        "rank_0.log",
        21,
    )


def test_prose_with_some_numbers_is_not_a_log():
    report = (
        "My loss was 2.1 first.\n"
        + "I tried this and that and nothing helped at all.\n" * 12
        + "\n".join(steps([NAN] * 6))
    )
    assert from_text(report).seen == ""


def test_a_pasted_text_is_read_so_only_where_its_lines_are_alike():
    assert from_text("\n".join(steps([NAN] * 12))).seen == "P9"
    assert (
        from_text("lr = 0.001 is no problem. With lr = 0.01:\n" + "\n".join(steps([NAN] * 12))).seen
        == ""
    )


def test_overfitting_is_told_beside_an_answer_of_nothing(tmp_path):
    rows = [
        f"epoch {i} train_loss {2 - i / 12:.3f} val_loss {1.5 + abs(i - 6) / 10:.3f}"
        for i in range(24)
    ]
    answer = answer_for(log=write(tmp_path, rows))
    assert answer.matches == [] and "which is overfitting" in answer.ask

"""One table of what the numbers of a log are checked for, read by one engine.

A row says what it reads, from which limit it speaks, which entry is about it, and shows a course on
which it speaks and one that only looks so. Findings are in the words in which people report such
runs, because the catalogue is searched by them. Standard library, Python 3.8.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from . import entries as e
from . import loss_shapes as loss
from . import other_shapes as other
from .curves import Curves, curves_of
from .finding import NumbersFinding
from .metric_series import Numbers

# Names of checks after which others say nothing more.
LOST = ("loss not finite", "perplexity not finite")
EXACT = (*LOST, "loss is a multiple", "loss saturates")
ANY = ("",)  # any check above


class Check(NamedTuple):
    """One check. `find` takes the curves of a log and `limit`, whose unit `unit` says.

    `reads` are the kinds of series. `entry` may be "": what was found is looked up by its words.
    `unless` names checks: where one of them found something, this one isn't asked. With `fault`
    false the finding is only mentioned.

    `example` and `spares` are courses: names and values of series, in which `2.3..0.3*20` stands
    for twenty values from 2.3 to 0.3, and `resume` for a line that says so.
    """

    name: str
    reads: str
    entry: str
    limit: float
    unit: str
    find: other.Find
    example: str
    spares: str
    unless: tuple[str, ...] = ()
    fault: bool = True


# In the order in which an answer tells them; what explains a flat loss stands before it.
CHECKS: tuple[Check, ...] = (
    Check(
        "loss not finite", "loss, val loss, ppl", e.NAN_SOMEWHERE, 2, "values, or the last one",
        loss.is_not_finite,
        "loss 2.3..0.5*20 nan*20", "loss 2.3..1.0*12 nan 1.0..0.3*12",
    ),
    Check(
        "perplexity not finite", "val ppl", e.PERPLEXITY_IS_ODD, 2, "values, or the last one",
        loss.is_ppl_not_finite,
        "val_ppl 31 22 inf*8", "val_ppl 31..9*10",
        LOST,
    ),
    Check(
        "scale falls", "scale", e.LOSS_SCALE_FALLS, 5, "halvings without a rise",
        other.falls_again_and_again,
        "loss 2.3..2.1*9 | loss_scale 65536 32768 16384 8192 4096 2048 1024 512 256",
        "loss 2.3..1.1*9 | loss_scale 65536 32768 16384 32768 32768 16384 32768 65536 65536",
    ),
    Check(
        "rate is zero", "lr, loss", e.FLAT_RATE, 0.2, "of the run, at its end",
        other.is_rate_zero,
        "loss 2.3 2.31*11 | lr 0*12", "loss 2.3..0.3*12 | lr 0*12",
    ),
    Check(
        "rate ends early", "lr", e.RATE_ENDS_EARLY, 0.2, "of the run, at its end",
        other.ends_early,
        "loss 2.3..0.3*40 | lr 0.001*10 0*30", "loss 2.3..0.3*40 | lr 0.001..0*40",
    ),
    Check(
        "loss is a multiple", "loss, norm", e.ACCUMULATION_SCALES, 0.05, "off a whole number",
        loss.is_multiple,
        "step 0..15*16 0..15*16 | loss 2.4..0.3*16 19.2..2.4*16",
        "step 0..15*16 0..15*16 | loss 2.4..0.3*16 2.4..0.3*16",
        LOST,
    ),
    Check(
        "loss saturates", "loss, acc, val loss, val acc", e.SATURATED_BINARY_LOSS, 0.03,
        "off 100 times the share of wrong answers",
        loss.is_saturated,
        "bce 0.7..0.6*8 40 35 30 25 20 | acc 0.5..0.6*8 0.6 0.65 0.7 0.75 0.8",
        "bce 0.7..0.1*13 | acc 0.5..0.9*13",
        LOST,
    ),
    Check(
        "loss is zero", "loss", "", 5, "values, all of the run",
        loss.is_zero,
        "loss 0*12", "loss 0*12 | reward 0..1*12",
        EXACT,
    ),
    Check(
        "loss rises for good", "loss", e.DIVERGED, 1.5, "times its lowest value",
        loss.rises_for_good,
        "loss 2.3..0.5*30 1.9*15", "loss 2.3..0.5*30 9 0.5..0.4*15",
        EXACT,
    ),
    Check(
        "loss is negative", "loss", e.NEGATIVE_LOSS, 0.25, "of its values below 0",
        loss.is_negative,
        "loss 1..-4.7*20", "policy_loss 1..-4.7*20 | reward 0..1*20",
        EXACT,
    ),
    Check(
        "first loss is huge", "loss", e.HUGE_FIRST_LOSS, 100, "where it is about tokens or stays",
        loss.is_huge,
        "loss 112 111 110 112 109 108 110 107", "loss 820 410 160 90 60 44 37 33",
        EXACT,
    ),
    Check(
        "loss falls too slowly", "loss", e.SLOW_LOSS, 0.03, "of the loss between its quarters",
        loss.is_slow,
        "loss 0.9012..0.8993*20", "loss 0.9..0.5*20",
        EXACT,
    ),
    Check(
        "DPO stands still", "loss, margin", e.DPO_STANDS_STILL, 0.03,
        "of the loss between its quarters",
        loss.is_dpo_flat,
        "loss 0.6931*20 | rewards/margins 0*20", "loss 0.69..0.3*20 | rewards/margins 0..2*20",
        EXACT,
    ),
    Check(
        "loss is flat", "loss, acc", e.NOT_LEARNING, 0.03, "of the loss between its quarters",
        loss.is_flat,
        "loss 2.3026 2.3046 2.3006*18", "step 40000..40590*60 | loss 0.31 0.314*59",
        (*EXACT, "loss falls too slowly", "DPO stands still"),
    ),
    Check(
        "loss levels off", "loss, acc", e.TWO_SOFTMAXES, 0.06, "above ln(1 + (k - 1) / e)",
        loss.levels_off,
        "loss 2.3 1.9 1.6 1.478*12 | acc 0.97*15", "loss 2.3 1.9 1.6 0.9*12 | acc 0.97*15",
        EXACT,
    ),
    Check(
        "loss jumps at a resume", "loss", e.ONLY_WEIGHTS, 1.3, "times the loss before",
        loss.jumps_at_resume,
        "loss 2.3..0.5*20 resume 1.9..1.6*12", "loss 2.3..0.5*20 resume 0.52..0.4*12",
        LOST,
    ),
    Check(
        "rate begins again at a resume", "lr, loss", e.RATE_AGAIN, 2, "times the rate before",
        loss.rate_begins_again,
        "loss 2.3..0.5*20 resume 0.5..0.4*12 | lr 0.0001*20 0.001*12",
        # The first run had gone on to step 19; the second one goes on from step 10 of it.
        "step 0..19*20 resume 10..19*10 | loss 2.3..0.5*20 1.4..0.5*10 "
        "| lr 0.001..0.00005*20 0.0005..0.00005*10",
        LOST,
    ),
    Check(
        "count begins again at a resume", "steps or epochs", e.EPOCHS_AGAIN, 5, "counted before",
        loss.counts_again,
        "epoch 0..19*20 resume 0..11*12 | loss 2.3..0.5*20 0.5..0.4*12",
        "epoch 0..19*20 resume 20..31*12 | loss 2.3..0.5*20 0.5..0.4*12",
        LOST,
    ),
    Check(
        "policy collapses", "reward, length, entropy", e.REWARD_HACKING, 0.2,
        "of the first length or entropy",
        other.collapses,
        "loss 0.1*20 | reward 0..1*20 | entropy 2..0.01*20",
        "loss 0.1*20 | reward 0..1*20 | entropy 2..1*20",
    ),
    Check(
        "norm is zero", "norm, loss", "", 5, "values, all of the run",
        other.is_norm_zero,
        "loss 2.3 2.31*11 | grad_norm 0*12", "loss 2.3..0.3*12 | grad_norm 0*12",
    ),
    Check(
        "norm is nan", "norm", e.NAN_GRADIENT, 1, "values at the end",
        other.is_norm_nan,
        "loss 1.5..1.1*5 0*9 | grad_norm 0.5*5 nan*9", "loss 1.5..1.1*6 | grad_norm 0.5 nan 0.5*4",
        LOST,
    ),
    Check(
        "norm jumps", "norm", e.NORM_SPIKES, 20, "times its median",
        other.jumps,
        "loss 2.3..1.9*24 | grad_norm 0.7*5 300 0.7*5 300 0.7*5 300 0.7*6",
        "loss 2.3..1.9*83 | grad_norm 300 200 100 0.7*80",
        ANY,
    ),
    Check(
        "KL is negative", "kl, reward, margin", e.KL_IS_ODD, -0.01, "at the end",
        other.is_kl_negative,
        "loss 0.1*20 | objective/kl 0.1..-0.85*20 | reward 0..1*20",
        "loss 0.1*20 | objective/kl 0.1..0.2*20 | reward 0..1*20",
    ),
    Check(
        "KL grows", "kl, reward, margin", e.KL_IS_ODD, 10, "at the end",
        other.grows_without_end,
        "loss 0.1*20 | objective/kl 0.1*10 0.1..60*10 | reward 0..1*20",
        "loss 0.1*20 | objective/kl 0.1..4*20 | reward 0..1*20",
        ("KL is negative",),
    ),
    Check(
        "validation at chance", "val acc, acc, loss", e.NEAR_CHANCE, 0.5,
        "of the training accuracy",
        other.is_near_chance,
        "train_loss 2.3..0.3*20 | train_acc 0.5..0.9*20 | val_acc 0.1 0.102*19",
        "train_loss 2.3..0.3*20 | train_acc 0.5..0.9*20 | val_acc 0.5..0.8*20",
        ANY,
    ),
    Check(
        "accuracy never changes", "acc, val acc", "", 0.98, "as the most",
        other.is_always_the_same,
        "loss 2.3..0.3*12 | acc 0.6543*12", "loss 2.3..0.001*12 | acc 1.0*12",
        ANY,
    ),
    Check(
        "IoU is zero", "val score, score", e.IOU_IS_ZERO, 3, "evaluations",
        other.score_of_zero(lambda name: "iou" in name),
        "loss 2.3..0.3*12 | IoU 0*12", "loss 2.3..0.3*12 | IoU 0*3 0.1..0.5*9",
        ANY,
    ),
    Check(
        "detection is zero", "val score, score", e.DETECTION_IS_ZERO, 3, "evaluations",
        other.score_of_zero(lambda name: "ap" in name),
        "loss 2.3..0.3*12 | mAP 0*12", "loss 2.3..0.3*12 | mAP 0*3 0.1..0.5*9",
        ANY,
    ),
    Check(
        "score is zero", "val score, score", e.RARE_CLASSES, 3, "evaluations",
        other.score_of_zero(lambda name: True),
        "loss 2.3..0.3*12 | f1 0*12", "loss 2.3..0.3*12 | f1 0*3 0.1..0.5*9",
        ANY,
    ),
    Check(
        "overfits", "val loss, loss", "", 1.15, "times the lowest validation loss",
        other.overfits,
        "train_loss 2..0.1*24 | val_loss 1.5..0.9*6 0.9..2.5*18",
        "train_loss 2..0.1*24 | val_loss 1.5..0.9*24",
        ANY, fault=False,
    ),
    Check(
        "steps slow down", "time", "", 1.8, "times the first step time",
        other.slows_down,
        "loss 2..1*24 | time 0.3 0.2 0.3 0.2 0.3 0.2 0.5 0.4 0.5 0.4 0.5 0.4 0.7 0.6 0.7 0.6 0.7 "
        "0.6 0.9 0.8 0.9 0.8 0.9 0.8",
        "loss 2..1*24 | time 10..240*24",
        fault=False,
    ),
    Check(
        "host memory grows", "ram", e.RAM_GROWS, 1.5, "times the first use",
        other.memory_grows("ram", "host RAM climbs every epoch"),
        "loss 2..1*24 | ram 10..60*24", "loss 2..1*24 | ram 10..12*24",
    ),
    Check(
        "GPU memory grows", "memory", "", 1.5, "times the first use",
        other.memory_grows("memory", "GPU memory grows with every step"),
        "loss 2..1*24 | gpu_mem 10..60*24", "loss 2..1*24 | gpu_mem 10..12*24",
        fault=False,
    ),
    Check(
        "steps wait for data", "data, time", e.INPUT_BOUND, 0.5, "of the step time",
        other.waits_for_data,
        "loss 2..1*12 | time 1*12 | data_time 0.7 0.8*11",
        "loss 2..1*12 | time 1*12 | data_time 0.1 0.2*11",
    ),
)  # fmt: skip


def found_in(curves: Curves) -> list[tuple[Check, NumbersFinding]]:
    """Return the checks that find something, in their order, each with its finding."""
    found: dict[str, tuple[Check, NumbersFinding]] = {}
    for check in CHECKS:
        if not (found if check.unless == ANY else found.keys() & set(check.unless)):
            finding = check.find(curves, check.limit)
            if finding:
                finding = replace(finding, entry=check.entry, fault=check.fault)
                found[check.name] = (check, finding)
    return list(found.values())


def findings(numbers: Numbers) -> list[NumbersFinding]:
    """Return what the numbers show, faults first.

    An empty list for a run whose numbers are normal, or too few.
    """
    found = [finding for _, finding in found_in(curves_of(numbers))]
    return sorted(found, key=lambda finding: not finding.fault)


def is_lost(numbers: Numbers) -> bool:
    """Return whether a loss becomes nan or infinite, or the last gradient norm is nan.

    To say so takes no course of many values.
    """
    return any(check.name in (*LOST, "norm is nan") for check, _ in found_in(curves_of(numbers)))

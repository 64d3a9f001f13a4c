"""What a box measured of its run, as lines for a person. Pure."""

from __future__ import annotations

import shlex
from typing import Any

from ..text.sizes import shown_bytes
from ..text.spans import shown_seconds
from .status_facts import BEST, NAMES
from .status_reply import Status

MOST_SAVED = 10  # lines
_BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: list[float]) -> str:
    """Return a line of blocks, '' for fewer than three values."""
    if len(values) < 3:
        return ""
    low, high = min(values), max(values)
    scale = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(_BARS[round((value - low) * scale)] for value in values)


def in_words(status: Status) -> list[str]:
    """Return a line for each kind of fact, for a person who looks at a run."""
    lines = [", ".join(place_in_words(status)), _without_total(status)]
    lines.append(", ".join(_numbers(status)))
    lines += _gpus(status.gpus)
    if status.disk_free is not None:
        lines.append(f"disk: {_size(status.disk_free)} left")
    if status.cost:
        lines.append(_cost(status.cost))
    if status.checkpoint:
        about = "" if status.checkpoint_step_is_named else "about "
        step = "" if status.checkpoint_step is None else f"{about}step {status.checkpoint_step}: "
        lines.append(f"newest complete checkpoint: {step}{status.checkpoint}")
    lines += [
        f"saved elsewhere, by its log: {one['path']} ({shown_bytes(one['bytes'])}); rgt release "
        f"brings it with --also {shlex.quote(one['path'])}"
        for one in status.saved_elsewhere[:MOST_SAVED]
    ]
    if status.wanted and status.state in ("alive", "stalled"):
        lines.append(f"asked for: {status.wanted}")
    if status.asked:
        lines.append(f"asked to end: {status.asked}")
    return [line for line in [*lines, *status.attempts] if line]


def place_in_words(status: Status) -> list[str]:
    """Return where a run is and how long it takes."""
    progress = status.progress
    step, total = progress.get("step", status.step), progress.get("total")
    words = []
    if step is not None:
        of = "" if total is None else f" of {total:.0f}"
        percent = f" ({progress['percent']:.3g} %)" if of and "percent" in progress else ""
        words.append(f"step {step:.0f}{of}{percent}")
    elif "epoch" in status.numbers:
        words.append(f"epoch {status.numbers['epoch']['value']:g}")
    rate = progress.get("steps_per_second")
    if rate:
        words.append(f"{rate:.3g} steps/s" if rate >= 0.5 else f"{1 / rate:.3g} s a step")
    if "seconds_left" in progress:
        low, high = (
            progress.get(f"seconds_left_{end}", progress["seconds_left"]) for end in ("low", "high")
        )
        low, high = shown_seconds(low), shown_seconds(high)
        spread = f" ({low} to {high})" if low != high else ""
        words.append(f"{shown_seconds(progress['seconds_left'])} left{spread}")
    return words


def _without_total(status: Status) -> str:
    """Return what tells the time to the end where the output alone doesn't."""
    progress = status.progress
    if status.state != "alive" or "steps_per_second" not in progress or "total" in progress:
        return ""
    return (
        "time to the end: not known, its output tells no last step; final_step in the job names it"
    )


def newest_loss(status: Status) -> str:
    """Return the newest loss as "loss 0.72", '' where none is known."""
    loss = status.numbers.get("loss")
    return f"loss {_value(loss['value'])}{_of_step(status, loss)}" if loss else ""


def _numbers(status: Status) -> list[str]:
    words = []
    for name, label in NAMES.items():
        number = status.numbers.get(name)
        if not number:
            continue
        line = f"{label} {_value(number['value'])}"
        if name == "loss" and (drawn := sparkline(status.course)):
            line += f" {drawn}"
        words.append(line + (_of_step(status, number) if "loss" in name else ""))
        best = status.numbers.get(BEST)
        if name == "val_loss" and best and best != number:
            at = "" if best["step"] is None else f" (step {best['step']:.0f})"
            words.append(f"best {label} {_value(best['value'])}{at}")
    return words


def _of_step(status: Status, number: dict[str, Any]) -> str:
    """Return the step of a number where it isn't the one that stands beside it."""
    here = status.progress.get("step", status.step)
    return "" if number["step"] in (None, here) else f" (step {number['step']:.0f})"


def _value(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"


def _gpus(gpus: list[dict[str, float]]) -> list[str]:
    lines = []
    for number, card in enumerate(gpus):
        words = [f"{card['use']:.0f} % busy"] if "use" in card else []
        if "memory_mb" in card:
            of = f" of {card['total_mb'] / 1024:.1f}" if "total_mb" in card else ""
            words.append(f"{card['memory_mb'] / 1024:.1f}{of} GB")
        if "temperature_c" in card:
            words.append(f"{card['temperature_c']:.0f} °C")
        lines += [f"gpu {number}: {', '.join(words)}"] if words else []
    return lines


def _cost(cost: dict[str, Any]) -> str:
    unit = f" {cost['currency']}" if cost.get("currency") else ""
    words = [f"about {cost['so_far']:.2f}{unit} so far"]
    if cost.get("at_deadline") is not None:
        words.append(f"{cost['at_deadline']:.2f} at the deadline")
    if cost.get("left") is not None:
        words.append(f"{cost['left']:.2f} and {cost['hours_left']:.1f} h left of the budget")
    return f"cost: {', '.join(words)} ({cost['price']:g} an hour, {cost['by']})"


def _size(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"

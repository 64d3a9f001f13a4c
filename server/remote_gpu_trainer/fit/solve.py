"""Find the largest batch, sequence or LoRA rank that fits a card, and the smallest card that fits.

`uncertainty` is how far what a run needs may be off (evals/FIT.md). Each answer is given twice: by
the estimate as it is, and with that much room.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ..numbers.memory_message import CONTEXT
from ..text import BadRequest
from .model_shape import Model
from .training_memory import DOES_NOT_FIT, GIB, NOT_KNOWN, estimate, verdict
from .training_run import Run

UNCERTAIN = 0.15
UNCERTAIN_CHECKPOINTING = 0.30  # torch's allocator fragments where blocks of many sizes come and go
MOST = {"batch": 10**6, "sequence": 10**8, "lora": 10**5}
UNITS = {"batch": "samples", "sequence": "tokens", "lora": "the rank of adapters"}


@dataclass(frozen=True)
class Largest:
    """The largest value that fits, with the GiB it needs; 0 where none does.

    `capped`: the search ended there, and more may fit.
    """

    value: int
    need: float
    capped: bool = False


@dataclass(frozen=True)
class Card:
    """A card, its GiB, and the GiB that the run needs of it."""

    name: str
    gib: float
    need: float


def uncertainty(run: Run) -> float:
    """Return how far what a run needs of a GPU may be from its estimate, as a share of it."""
    return UNCERTAIN_CHECKPOINTING if run.checkpointing else UNCERTAIN


def verdict_of(model: Model, run: Run, size: float, gib: float) -> str:
    """Return whether a peak of `size` bytes fits a card.

    Not known where the layers are a guess, or where a part that isn't counted may be too much.
    """
    told = verdict(size, gib, uncertainty(run))
    may_be_more = model.on_top and told != DOES_NOT_FIT
    return NOT_KNOWN if model.guessed or may_be_more else told


def need_of(model: Model, run: Run) -> float:
    """Return the GiB that a run takes of a GPU, with CUDA's context."""
    return estimate(model, run).peak / GIB + CONTEXT


def largest(model: Model, run: Run, what: str, gib: float, room: float = 0.0) -> Largest:
    """Return the largest batch, sequence or rank whose need, and `room` of it more, fits.

    Raises BadRequest where the answer depends on activations that aren't reckoned.
    """
    check_solvable(model, what)

    def need(value: int) -> float:
        return need_of(model, replace(run, **{what: value}))

    def fits(value: int) -> bool:
        return need(value) * (1 + room) <= gib

    most = MOST[what]
    if what == "lora":
        most = min(most, max(1, model.hidden))  # of a larger rank nothing more is gained
    if what == "sequence" and model.longest:
        most = min(most, model.longest)
    value = last_that_fits(fits, most)
    return Largest(value, need(value) if value else need(1), value == MOST[what])


def last_that_fits(fits: Callable[[int], bool], most: int) -> int:
    """Return the last number up to `most` that fits, 0 if 1 doesn't; what fits comes first."""
    if not fits(1):
        return 0
    low, high = 1, 2
    while high <= most and fits(high):
        low, high = high, 2 * high
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def smallest(model: Model, run: Run, cards: dict[str, float], room: float = 0.0) -> Card | None:
    """Return the card with least memory that the run fits, and `room` of its need more."""
    check_solvable(model, "gpu")
    need = need_of(model, run)
    able = [(gib, name) for name, gib in cards.items() if need * (1 + room) <= gib]
    return Card(min(able)[1], min(able)[0], need) if able else None


def check_solvable(model: Model, what: str) -> None:
    """Raise BadRequest where nothing says how memory grows with what is asked."""
    measure = "measure two batches with torch.cuda.max_memory_allocated"
    if model.guessed:
        raise BadRequest(
            f"--solve {what}: the usual layers are a guess, with {model.guessed}; {measure}"
        )
    if model.on_top:
        raise BadRequest(
            f"--solve {what} needs all that takes memory, and fit doesn't know "
            f"{' and '.join(model.on_top)} of this model; {measure}"
        )
    if what == "sequence" and model.tokens:
        raise BadRequest(
            "--solve sequence: the image's size decides the tokens of this model; "
            "solve for the batch"
        )

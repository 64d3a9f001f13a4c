"""Find the largest batch, sequence or LoRA rank that fits a card, and the smallest card that fits.

`margins` is how far what a run needs may be off (evals/FIT.md). Each answer is given twice: by the
estimate as it is, and with that much room.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ..numbers.memory import CONTEXT
from ..platforms.cards import has_bf16
from ..text import BadRequest
from .model_shape import Model
from .training_memory import GIB, Margins, estimate, verdict
from .training_run import Run

UNCERTAIN = 0.15
UNCERTAIN_CHECKPOINTING = 0.30  # torch's allocator fragments where blocks of many sizes come and go
# Of public reports that were compared, one with an 8-bit base needed 89 % more than reckoned, for
# its allocator above all; types that bring their code up to 54 % more, or 13 % less; configs
# that are a guess up to 39 % more, or 35 % less.
ABOVE_8_BIT = 0.9
AROUND_OWN_CODE = (0.3, 0.55)
AROUND_GUESS = (0.5, 0.5)
ROUNDED = 0.05  # a number of weights such as 7B may be rounded up: Llama 2 7B has 6.74 billion
ABOVE_PART = 1.0  # with a part that isn't counted, such as the one that sees (our limit)
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
    """Return how far a run with known layers may be from its estimate, as a share of it."""
    return UNCERTAIN_CHECKPOINTING if run.checkpointing else UNCERTAIN


def margins(model: Model, run: Run, card: str = "") -> Margins:
    """Return how far what a run needs of a GPU may be from its estimate, by the kind of run.

    `card` is the GPU's name.
    """
    off = uncertainty(run)
    kinds = [(off, off, "")]
    if (plain := _without_fused_attention(model, run, card)) > 1:
        why = "without bf16 this card may have no fused attention: it then takes what eager does"
        kinds.append((off, plain * (1 + off) - 1, why))
    if model.guessed:
        kinds.append((*AROUND_GUESS, f"its layers are a guess: {model.guessed}"))
    if model.on_top:
        parts = " and ".join(model.on_top)
        kinds.append((off, ABOVE_PART, f"{parts} of this model: not counted"))
    if run.precision == "8bit":
        kinds.append((off, ABOVE_8_BIT, "an 8-bit base needs room that no formula tells"))
    if model.own_code:
        known = f"the code of {model.own_code} isn't read, its layers are known"
        kinds.append((*AROUND_OWN_CODE, known))
    below = max(less for less, _, _ in kinds)
    if model.weights:  # of a number that was given: their states are the least that it takes
        below = min(below, _share_of_guess(model, run) + ROUNDED)
    needed = estimate(model, run)
    if needed.least < needed.peak:
        below = 1 - (1 - below) * needed.least / needed.peak
        both = run.offload and run.sharding in ("zero3", "fsdp")
        what = "gradients and weights" if both else "gradients" if run.offload else ""
        what = what or "a paged optimizer's state"
        kinds.append((0.0, 0.0, f"the library may keep {what} on the host"))
    above = max(more for _, more, _ in kinds)
    why = "; ".join(reason for _, _, reason in kinds if reason)
    return Margins(below, None if "activations" in model.on_top else above, why)


def _without_fused_attention(model: Model, run: Run, card: str) -> float:
    """Return how many times the estimate a run takes if torch's sdpa finds no fused kernel.

    Before Ampere it has one for fp32 and fp16, and none for bf16.
    """
    if has_bf16(card) or run.attention != "sdpa" or run.precision in ("fp32", "fp16-mixed"):
        return 1.0
    return estimate(model, replace(run, attention="eager")).peak / estimate(model, run).peak


def _share_of_guess(model: Model, run: Run) -> float:
    """Return the share of the peak that hangs on the layers: all but the states of the weights."""
    needed = estimate(model, run)
    return max(0.0, 1 - needed.states / needed.peak)


def verdict_of(model: Model, run: Run, size: float, card: tuple[str, float]) -> str:
    """Return whether a peak of `size` bytes fits a card of a name and a memory in GiB."""
    return verdict(size, card[1], margins(model, run, card[0]))


def room_of(model: Model, run: Run, card: str = "") -> float:
    """Return the share of its need that a run may need on top; 0 where nothing says it."""
    return margins(model, run, card).above or 0.0


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


def smallest(model: Model, run: Run, cards: dict[str, float], safe: bool = False) -> Card | None:
    """Return the card with least memory that the run fits; if `safe`, with room on top."""
    check_solvable(model, "gpu")
    need = need_of(model, run)
    rooms = {name: 1 + room_of(model, run, name) if safe else 1 for name in cards}
    able = [(gib, name) for name, gib in cards.items() if need * rooms[name] <= gib]
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

"""What the probe can report, which part sees it, and what a finding looks like."""

import math

from .kinds_model import HINT, IN_THE_MODEL, NOTE, OWN_ADVICE, WRONG
from .kinds_run import IN_THE_RUN, OWN_ADVICE_OF_RUNS

SOUND, SUSPICIOUS, NOT_LOOKED, FOUND = "sound", "suspicious", "not looked at", "found"
KINDS = {**IN_THE_MODEL, **IN_THE_RUN}
ADVICE = {**OWN_ADVICE, **OWN_ADVICE_OF_RUNS}
LEVELS = (WRONG, HINT, NOTE)  # the worst first

# What is looked at, and the kinds of findings that each part can give.
OBSERVATIONS = {
    "parameters": (
        "weights stand still", "forgotten weights", "outside the optimizer", "no gradient arrives",
        "no gradient", "lost loss", "output without a loss", "frozen weight moves",
        "adapters don't train", "adapters get no gradient", "bf16 swallows steps",
        "tiny updates", "huge updates",
        "nan enters the weights", "connector is frozen", "one vision rate",
        "old and new at one rate", "new connector trains along",
    ),
    "gradients": (
        "gradients gone before the step", "gradients pile up", "undivided accumulation",
        "gradient spikes", "gradients fade", "fp16 without scaler",
        "clipped while scaled", "scaler skips",
    ),
    "rates": (
        "rate is zero", "rate fell to zero", "scheduler too fast", "scheduler never steps",
        "scheduler of another optimizer",
    ),
    "modes": (
        "left in evaluation mode", "evaluation mode from the start", "evaluated in training mode",
        "frozen statistics move",
    ),
    "losses": (
        "softmax twice", "not log-probabilities", "padding counts", "padding seems to count",
        "loss isn't finite", "first loss too high", "loss stands still", "one class dominates",
        "loss jumps", "targets are broadcast", "differences are broadcast", "returns of any scale",
        "preferences stand still",
    ),
    "batches": (
        "same order each epoch", "set_epoch missing", "workers repeat the stream",
        "workers share random numbers",
        "pinning has no effect", "images from 0 to 255", "images aren't normalised",
        "random evaluation data", "end is never learned", "other inputs in evaluation",
    ),
    "activations": (
        "dead units", "saturated layer", "large attention scores", "uneven experts",
    ),
    "shapes": (
        "tiny batch norm", "autocast doesn't reach", "longer than the positions",
        "causal mask as a matrix",
    ),
    "ranks": (
        "ranks drift apart", "ranks share data", "batch norm of one rank",
        "exchange in each micro-batch", "one unit", "few rows for each gather",
        "sharded in half precision", "stage 3 for a model that fits", "accumulated twice",
    ),
    "time and memory": (
        "graphs are kept", "hooks pile up", "anomaly detection", "loading in the way",
        "loader too slow", "workers start anew", "bursts of batches", "garbage collection",
        "checkpointing with room", "too many threads", "compiles again and again",
    ),
    "checkpoints": (
        "checkpoint lacks the optimizer", "optimizer not restored", "scheduler not restored",
        "nothing was loaded", "older checkpoint", "counting from the start", "Trainer began anew",
        "newest was deleted", "saved by a signal handler", "ranks write one file",
    ),
}  # fmt: skip


def finding(kind, step, evidence, level=None, **numbers):
    """One finding. `numbers` are JSON values."""
    entry, usual, what, well, do = KINDS[kind]
    numbers = {
        name: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in numbers.items()
    }
    return {
        "id": entry, "kind": kind, "level": level or usual, "step": step, "what": what,
        "evidence": evidence, "well": well, "do": do, "numbers": numbers,
    }  # fmt: skip

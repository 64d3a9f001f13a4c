"""The literal signatures that the opt-in hooks know: hooks/signatures.txt."""

from __future__ import annotations

from pathlib import Path

from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.catalogue.entry import Entry
from remote_gpu_trainer.catalogue.signatures import Pattern

LEAST_CHARACTERS = 20
LEAST_WORDS = 3


def hook_signatures(root: Path) -> str:
    """The literal signatures of the catalogue under `root` that tell of a failure, a line each.

    Texts are as `signatures.normal` leaves them. Expressions take too long for a hook. Short texts,
    consequences and advice tell too little.
    """
    entries = [entry for entry in bundle.read(root).entries if not is_for_healthy_runs(entry)]
    patterns = [Pattern(signature) for entry in entries for signature in entry.signatures]
    known = {pattern.literal for pattern in patterns if is_telling(pattern)}
    return "".join(f"`{text}`\n" for text in sorted(known))


def is_for_healthy_runs(entry: Entry) -> bool:
    """Whether healthy runs print what an entry quotes: it stops and spoils nothing, and says so."""
    return bool(entry.false_alarm) and entry.severity not in ("blocks", "corrupts")


def is_telling(pattern: Pattern) -> bool:
    """Whether a signature names a cause in a text that is long enough to be of one program only."""
    text = pattern.literal
    return (
        pattern.source.role == "root"
        and len(text) >= LEAST_CHARACTERS
        and len(text.split()) >= LEAST_WORDS
    )

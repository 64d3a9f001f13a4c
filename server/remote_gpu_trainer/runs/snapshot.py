"""What a script records about the code that it sends."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Snapshot:
    """What git says about a code folder.

    `commit`: id, date and subject, or why there is none. `difference`: `git diff HEAD`, cut if it
    is too long for a script. `ignored`: the names of files that aren't sent, one a line. `tracked`:
    git knows the folder. `finds_checkpoints`: a file of the code reads RGT_CHECKPOINT_DIR.
    """

    commit: str
    difference: str
    ignored: str
    tracked: bool
    finds_checkpoints: bool = False

"""Copies between this box and the durable place.

`groups` says which checkpoints lie here and `generations` which lie there; `reading` judges them,
`plan` decides what is to be done, `rounds` does it and `records` keeps what was found. `mirror`
keeps all other files, `held` what another attempt may write over. `place` and `clouds` bring files
there and back and compare them, `tool` runs their programs.
"""

from __future__ import annotations

from ..spec import place_kind
from .clouds import S3, Gs, Rclone
from .place import Local, Place, Ssh
from .tool import Tools

_KINDS = {"ssh": Ssh, "rclone": Rclone, "s3": S3, "gs": Gs}


def place_at(address: str, tools: Tools, mask: int = 0o022) -> Place:
    """Return the place that holds an address. Raises ValueError for one of no known kind."""
    kind = _KINDS.get(place_kind(address))
    return kind(tools) if kind else Local(tools, mask)

"""The box that a command is about: how it is named, and that it may be billed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..text import BadRequest

if TYPE_CHECKING:
    from ..boxes.ssh import Box

BOX = (
    "a name of the ssh configuration, user@host, 'local', or the provider's line: "
    "'ssh -p 40122 root@203.0.113.7 -i KEY'"
)


def box_of(text: str) -> Box:
    """The box that a user names. Raises BadRequest."""
    from ..boxes.box import BadBox, parse

    try:
        box = parse(text)
    except BadBox as error:
        raise BadRequest(str(error)) from None
    for option, value in zip(box.options, box.options[1:], strict=False):
        if option == "-i" and not Path(value).is_file():
            raise BadRequest(f"no key file at {value[:200]}; check what follows -i")
    return box


def remember(box: Box, profile: str = "", price: float | None = None) -> None:
    """Note in the ledger that the box may be billed. This machine is never noted.

    `price`: of an hour, None where it isn't known.
    """
    if not box.local:
        from ..boxes.box import address
        from ..runs import ledger

        ledger.opened(address(box), box.name, profile=profile, price=price)

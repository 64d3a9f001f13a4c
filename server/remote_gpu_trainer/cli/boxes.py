"""The box that a command is about: how it is named, and that it may be billed."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..text import BadRequest
from . import terminal

if TYPE_CHECKING:
    from ..boxes.ssh import Box
    from ..runs.status_reply import Status
    from ..text.money import Money

_SHORT_LOG = re.compile(r"([^\s/:]+(?::\d{1,5})?):(\S.*)\Z", re.S)
BOX = (
    "a name of the ssh configuration, user@host, 'local', or the provider's line: "
    "'ssh -p 40122 root@203.0.113.7 -i KEY', afterwards root@203.0.113.7:40122 is enough"
)


def box_of(text: str) -> Box:
    """The box that a user names. Raises BadRequest.

    A short name is the box that an ssh line with this host and port named before, if one did.
    """
    from ..boxes.box import BadBox, parse

    try:
        box = parse(text)
    except BadBox as error:
        raise BadRequest(str(error)) from None
    if not box.local and box.name == box.short:
        from ..runs import ledger

        box = ledger.with_its_line(box)
    for option, value in zip(box.options, box.options[1:], strict=False):
        if option == "-i" and not Path(value).is_file():
            raise BadRequest(f"no key file at {value[:200]}; check what follows -i")
    return box


def log_of(text: str) -> str:
    """A log as the look-up takes it: in place of a short name the ssh line that it stands for."""
    from ..boxes.box import BadBox, parse
    from ..runs import ledger

    found = None if os.path.lexists(text) else _SHORT_LOG.match(text)
    if not found:
        return text
    host, path = found.groups()
    try:
        line = ledger.with_its_line(parse(host)).line
    except BadBox:
        return text
    return f"{line}:{path if path.startswith(('/', '~')) else f'~/{path}'}" if line else text


def remember(box: Box, profile: str = "", hourly: Money | None = None, since: float = 0.0) -> None:
    """Note in the ledger that the box may be billed. This machine is never noted.

    `hourly`: the price of an hour, None where it isn't known. `since`: when the box was rented, in
    seconds since 1970, 0 where that isn't known.
    """
    if not box.local:
        from ..boxes.box import address
        from ..runs import ledger

        price, currency = hourly or (None, "")
        name = box.line or box.name
        ledger.opened(
            address(box), name, profile=profile, price=price, currency=currency, since=since
        )


def print_answer(
    answer: dict[str, Any], box: Box | None = None, folder: str = "", status: Status | None = None
) -> None:
    """Print an answer about runs as JSON, with what is billed and left of the budget.

    The rest: as `billing.about` takes it.
    """
    from ..runs import billing

    _print({**answer, **billing.about(time.time(), box, folder, status)})


def print_json(answer: dict[str, Any]) -> None:
    """Print an answer about something else as JSON, with what is billed, if anything may be."""
    _print(add_bill(answer))


def print_errors() -> None:
    """Print what went wrong as JSON, where JSON was asked for and the command gave no answer."""
    if terminal.answer.as_json and not terminal.answer.is_given and terminal.answer.errors:
        print_json({"error": "\n".join(terminal.answer.errors)})


def add_bill(answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer with what is billed, if anything may be."""
    from ..runs import ledger

    if not ledger.is_there():
        return answer
    from ..runs import billing  # half a second, which who has no box doesn't pay

    return billing.add_to(answer, time.time())


def _print(answer: dict[str, Any]) -> None:
    terminal.answer.is_given = True
    print(json.dumps(answer, ensure_ascii=False, indent=1))

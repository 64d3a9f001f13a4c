"""What a program sets around every line of a whole log: Docker's json-file driver, and `srun -l`."""

from __future__ import annotations

import json


def unwrapped(text: str) -> str:
    """The text within a line of Docker's json-file driver: {"log":"step 1\\n","stream":"stderr","time":"…"}."""
    if not text.startswith('{"log":"'):
        return text
    try:
        said = json.loads(text)["log"]
    except (ValueError, RecursionError):  # a line that was cut
        return text
    return said.rstrip("\r\n") if isinstance(said, str) else text


def numbered(text: str, rank: int | None) -> tuple[int | None, str]:
    """The rank that `srun -l` sets before a line, and the rest: " 2: step 1"."""
    head, colon, rest = text[:8].partition(":")
    if not colon or len(head) > 5 or not head.strip().isdecimal() or rest[:1] not in ("", " "):
        return rank, text
    return int(head), text[len(head) + 2 :]


def are_numbered(texts: list[str]) -> bool:
    """Whether most lines begin with the number of a task. Lines counted 1, 2, 3 are no tasks."""
    some = texts[:: len(texts) // 20 + 1]
    if len([text for text in some if ":" in text[:6]]) * 2 <= len(some):
        return False
    found = [rank for rank, _ in (numbered(text, None) for text in texts) if rank is not None]
    return len(found) * 2 > len(texts) and any(one >= other for one, other in zip(found, found[1:]))

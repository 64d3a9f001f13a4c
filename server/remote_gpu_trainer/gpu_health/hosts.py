"""Examine many boxes at a time, and show them in one table, the worst first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from ..boxes.box import BadBox, parse
from ..text import BadRequest
from ..text.masking import shown
from .examine import NOTHING_MORE, Question, check, examine
from .reading import WORST, Health, without_answer, worst

AT_ONCE = 16  # boxes examined at the same time
# Limits of a file of hosts.
MOST_HOSTS = 2000
MOST_BYTES = 1 << 20


def hosts(path: str) -> list[str]:
    """Read a file with one box per line, named as a user names a box; `#` begins a comment.

    Each box is listed once, in the order of the file. Raises BadRequest.
    """
    place = f"--hosts {shown(path, 120)}"
    try:
        with Path(path).open("rb") as file:
            text = file.read(MOST_BYTES + 1).decode("utf-8-sig")
    except OSError as error:
        raise BadRequest(
            f"{place}: can't be read ({error.strerror}); pass a file with one host per line"
        ) from None
    except UnicodeDecodeError:
        raise BadRequest(f"{place}: not UTF-8 text; pass a file with one host per line") from None
    lines = [
        (" " + line).split(" #", 1)[0].strip() for line in text.replace("\t", " ").splitlines()
    ]
    names = list(dict.fromkeys(line for line in lines if line))
    if not names or len(names) > MOST_HOSTS or len(text) > MOST_BYTES:
        raise BadRequest(
            f"{place}: {len(names)} hosts in {len(text)} characters; "
            f"pass 1 to {MOST_HOSTS}, one per line, in at most {MOST_BYTES >> 20} MiB"
        )
    return names


def examine_all(
    names: list[str],
    question: Question = NOTHING_MORE,
    *,
    accept_new: bool = False,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> list[Health]:
    """Examine each box, AT_ONCE at a time. Return the worst first, else in the order of the file.

    `progress` is called with how many are done and how many there are. Raises BadRequest when the
    question itself is wrong.
    """
    check(question)
    healths: dict[int, Health] = {}  # place in the file -> the answer
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="health") as pool:
        going = {
            pool.submit(_examine_named, name, question, accept_new): place
            for place, name in enumerate(names)
        }
        try:
            for done in as_completed(going):
                healths[going[done]] = done.result()
                progress(len(healths), len(names))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return sorted(
        (healths[place] for place in sorted(healths)),
        key=lambda health: WORST.index(health.verdict),
    )


def _examine_named(name: str, question: Question, accept_new: bool) -> Health:
    try:
        return examine(parse(name), question, accept_new=accept_new)
    except BadBox as error:
        return without_answer(
            shown(name, 80), str(error), "correct this line of the file", "bad-name"
        )
    except BadRequest as error:
        # `check` has accepted the question. So the box ran another program.
        return without_answer(
            shown(name, 80),
            f"{shown(name, 80)} refused the request ({shown(error, 120)})",
            "check which program runs there as python3",
            "unreadable",
        )


def as_dict(healths: list[Health]) -> dict:
    """Return the worst verdict, the number of boxes by verdict, and their answers, worst first."""
    counts = {verdict: sum(health.verdict == verdict for health in healths) for verdict in WORST}
    return {
        "verdict": worst(*(health.verdict for health in healths)),
        "hosts_by_verdict": counts,
        "hosts": [health.as_dict() for health in healths],
    }


def code(healths: list[Health]) -> int:
    """Return 1 if a box is unfit or care, else 2 if a box is unknown, else 0."""
    codes = {health.code for health in healths}
    return 1 if 1 in codes else max(codes)


def as_text(healths: list[Health]) -> str:
    """Return a table, worst first: verdict, host, GPUs, the worst finding, and what to do."""
    wide = min(max(len(health.box) for health in healths), 40)
    return "\n".join(line for health in healths for line in _rows(health, wide))


def _rows(health: Health, wide: int) -> Iterator[str]:
    cards = (
        ", ".join(
            f"{len(kind['gpu'])} x {str(kind.get('name', 'GPU')).removeprefix('NVIDIA ')}"
            for kind in health.gpus[:2]
        )
        or "no GPU listed"
    )
    head = f"{health.verdict:<7}  {shown(health.box, wide):<{wide}}  {cards}"
    bad = [finding for finding in health.findings if finding["level"] != "warn"]
    if not bad:
        yield head
        return
    first = bad[0]
    where = "" if first["gpu"] is None else f"GPU {first['gpu']}: "
    more = (
        sum(health.left_out.get(level, 0) for level in ("fatal", "degraded", "unknown"))
        + len(bad)
        - 1
    )
    yield f"{head}  {first['level']}: {where}{shown(first['evidence'], 120)}" + (
        f" (and {more} more)" if more else ""
    )
    yield f"{'':<7}  {'':<{wide}}  do: {first['action']}" + (
        f" [{first['entry']}]" if first["entry"] else ""
    )

"""`health --hosts FILE`: several boxes at once, one row each, worst first. A host that gives no answer is a row too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from ..boxes.box import BadBox, parse
from ..text.errors import BadRequest
from ..text.masking import shown
from . import examine as probing
from .reading import WORST, Health, without_answer, worst

AT_ONCE = 16
MOST_HOSTS, MOST_BYTES = 2000, 1 << 20


def hosts(path: str) -> list[str]:
    """The hosts of a file, a line each, as a user names a box; `#` begins a comment. Raises BadRequest."""
    try:
        with Path(path).open("rb") as file:
            text = file.read(MOST_BYTES + 1).decode("utf-8-sig")
    except OSError as error:
        raise BadRequest(
            f"found --hosts {shown(path, 120)} unreadable ({error.strerror}), expected a file with a host a line"
        ) from None
    except UnicodeDecodeError:
        raise BadRequest(
            f"found --hosts {shown(path, 120)} not in UTF-8, expected a file with a host a line"
        ) from None
    lines = [
        (" " + line).split(" #", 1)[0].strip() for line in text.replace("\t", " ").splitlines()
    ]
    named = list(dict.fromkeys(line for line in lines if line))
    if not named or len(named) > MOST_HOSTS or len(text) > MOST_BYTES:
        raise BadRequest(
            f"found {len(named)} hosts in {shown(path, 120)}, expected 1 to {MOST_HOSTS}, a line each"
        )
    return named


def examine_all(
    named: list[str],
    question: probing.Question = probing.Question(),
    *,
    accept_new: bool = False,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> list[Health]:
    """The verdict on each, AT_ONCE at a time, worst first; among equals in the order of the file. Raises BadRequest when the question itself is wrong."""
    probing.check(question)
    found: dict[int, Health] = {}
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="health") as pool:
        going = {
            pool.submit(_one, name, question, accept_new): place for place, name in enumerate(named)
        }
        try:
            for done in as_completed(going):
                found[going[done]] = done.result()
                progress(len(found), len(named))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return sorted(
        (found[place] for place in sorted(found)), key=lambda health: WORST.index(health.verdict)
    )


def _one(name: str, question: probing.Question, accept_new: bool) -> Health:
    try:
        return probing.examine(parse(name), question, accept_new=accept_new)
    except BadBox as error:
        return without_answer(
            shown(name, 80), f"{error}; do: correct this line of the file", "bad-name"
        )
    except (
        BadRequest
    ) as error:  # the question is checked: this one doesn't run the program that it was sent
        text = f"found a refusal from {shown(name, 80)} ({shown(error, 120)}), expected an answer; do: look what answers there as python3"
        return without_answer(shown(name, 80), text, "unreadable")


def as_dict(found: list[Health]) -> dict:
    """One object: the worst verdict, how many have each, and every box's own answer, worst first."""
    counts = {verdict: sum(health.verdict == verdict for health in found) for verdict in WORST}
    return {
        "verdict": worst(*(health.verdict for health in found)),
        "hosts_by_verdict": counts,
        "hosts": [health.as_dict() for health in found],
    }


def code(found: list[Health]) -> int:
    """The exit code: 1 when one is unfit or care, else 2 when one could not be told, else 0."""
    codes = {health.code for health in found}
    return 1 if 1 in codes else max(codes)


def as_text(found: list[Health]) -> str:
    """A table, worst first: verdict, host, GPUs, the worst finding; below it what to do."""
    wide = min(max(len(health.box) for health in found), 40)
    return "\n".join(line for health in found for line in _rows(health, wide))


def _rows(health: Health, wide: int) -> Iterator[str]:
    cards = (
        ", ".join(
            f"{len(kind['gpu'])} x {str(kind.get('name', 'GPU')).removeprefix('NVIDIA ')}"
            for kind in health.gpus[:2]
        )
        or "no GPU told"
    )
    head = f"{health.verdict:<7}  {shown(health.box, wide):<{wide}}  {cards}"
    bad = [one for one in health.findings if one["level"] != "warn"]
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

"""A question about a platform's bill or data: the platform's own facts go into the answer."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

from ..platforms import questions
from .parts import FURTHER, WHOLE
from .steps import Answer, fit

BESIDE = 2  # matches beside facts, so that titles have room too
NO_PAGE = (
    "There is no page on {name}. What holds for any Linux box is in the profile generic-ssh; "
    "what {name} bills after a stop, and what it deletes, only its own pages say."
)
WHICH = (
    "Name the platform (such as runpod or aws) for what it bills and deletes; "
    "`rgt profile` lists those that have a page."
)


def with_facts(answer: Answer, text: str, today: date) -> Answer:
    """The answer with the facts that a question asks for; any other answer as it is.

    Such a question needs no log, so none is asked for. Entries of other platforms would lead away
    from one that has no page, and aren't named then.
    """
    asked = questions.read(text)
    if asked is None:
        return answer
    if asked.without_page:
        return replace(
            answer,
            matches=[match for match in answer.matches if _is_general(match["id"])],
            also=[title for title in answer.also if _is_general(title["id"])],
            ask=NO_PAGE.format(name=asked.without_page),
            decision=None,
        )
    if not asked.platform:
        is_sure = bool(answer.matches) and answer.matches[0]["confidence"] == "high"
        return answer if is_sure else replace(answer, ask=WHICH)
    from ..platforms import profile, showing  # a dozen models, which few look-ups need

    page = profile.get(asked.platform)
    facts = [
        showing.in_a_sentence(page.name, name, getattr(page.facts, name), today)
        for name in asked.facts
    ]
    told = replace(answer, matches=answer.matches[:BESIDE], facts=facts, ask="", decision=None)
    fit(told, WHOLE + FURTHER * max(0, len(told.matches) - 3))
    return told


def _is_general(entry_id: str) -> bool:
    """Whether an entry isn't about one platform of its own."""
    from ..catalogue import bundle

    path = bundle.load().get(entry_id).path
    return not path.startswith("profiles/") or path == "profiles/generic-ssh.md"

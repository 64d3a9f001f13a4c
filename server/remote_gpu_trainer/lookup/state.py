"""The state of a look-up, what it claims, and the answer that it becomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import date

from ..catalogue.entry import Entry
from ..catalogue.signatures import Hit
from ..logs.evidence import Evidence
from ..numbers.memory import Shortage
from ..retrieval.ranking import Ranking, Retriever

# Reasons of a match: what stands before its words, that alone, and that somebody named its id.
BY_WORDS, BY_LIKENESS, BY_ID = "words: ", "similar wording", "named by its id"
SELDOM = ("facts", "first_failures", "decision")  # fields of an answer that most answers don't have


@dataclass
class Answer:
    """The answer, in the shape that the MCP server's model `Lookup` describes.

    `matches` come likeliest first; there are none if nothing fits. `also` has the ids and titles
    of further candidates. `first_failures` are the places of all ranks that failed on their own,
    where several did. If there are titles but no match, the report is near these entries but
    not near enough to claim one, so the reader should choose. `ask` says what to know before the
    matches, and what would help if nothing fits or the answer is unsure. `facts` are what a
    platform's page says, each a sentence, where the question was about a platform's bill or data.
    `decision` is what to do next, as `runner.failures.as_answer` gives it; None where nothing is
    known. `lead` begins the answer to a question that only entries are near to.
    """

    matches: list[dict]
    evidence: list[dict]
    first_failure: dict | None
    ask: str
    also: list[dict]
    facts: list[str] = field(default_factory=list)
    first_failures: list[dict] = field(default_factory=list)
    decision: dict | None = None
    lead: str = ""

    def as_dict(self) -> dict:
        """Return the answer as a dict for JSON; SELDOM only where there are some.

        `lead` is for people: its sentences are those of the entries.
        """
        named = {
            each.name: getattr(self, each.name) for each in fields(self) if each.name != "lead"
        }
        return {name: value for name, value in named.items() if name not in SELDOM or value}


@dataclass(frozen=True)
class Claim:
    """An entry that may explain the report, the reason, and high, medium or low confidence."""

    entry: Entry
    why: str
    confidence: str


@dataclass(frozen=True)
class LookUp:
    """The state of a look-up: first the question, then what each step found out.

    `evidence` is what the answer rests on: without the words of other ranks, if those of the rank
    that failed suffice. `whole_text` is the text of all lines that were read. `memory` is what an
    out-of-memory message in the evidence shows. `model_memory` is a sentence on what training a
    given model takes. `doubts` says by id why an entry may not hold here.

    `claims` come likeliest first. `rests_on` is the signature in the report on which the first
    claim rests. With `probe_answers` the claims begin with what a probe found.
    """

    evidence: Evidence
    entries: Mapping[str, Entry]
    retriever: Retriever
    limit: int
    today: date
    installed: str | None
    sentence: str
    has_own_words: bool
    model_memory: str = ""
    checkpoint: str = ""

    whole_text: str = ""
    memory: Shortage | None = None
    ranking: Ranking = Ranking((), "")
    doubts: Mapping[str, str] = field(default_factory=dict)
    claims: tuple[Claim, ...] = ()
    rests_on: Hit | None = None
    probe_answers: bool = False

    @property
    def rests_on_signs(self) -> bool:
        """Whether nobody said anything beside a file, so that words alone claim nothing.

        A file beside that of a good run says that something is wrong.
        """
        is_silent = not (self.sentence or self.has_own_words or self.evidence.is_compared)
        return self.evidence.of_file and is_silent

    @property
    def needs_signs(self) -> bool:
        """Whether a further match or title needs a sign in the logs: in a file, or of ranks."""
        is_of_ranks = bool(self.evidence.read) and len(self.evidence.ranks) > 1
        return self.rests_on_signs or (is_of_ranks and not self.has_own_words)

"""Everything that a look-up knows of the entries: the words in them, and what their cards mean.

The words are counted when the pages are first read, and then kept in the user's cache. The
meanings stand in `vectors.txt`, which `rgt dev docs --write` brings up to date in seconds: a new
entry needs no training. Until it is in there, it is found by its words alone.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from inspect import getfile
from itertools import chain
from pathlib import Path

from .. import __version__
from ..catalogue import bundle
from ..catalogue.entry import Entry
from ..catalogue.grammar import read_page
from . import cache, chinese, encoder, numpy, vectors
from .vectors import EntryVectors

# How much a word counts, by the field it stands in, and the two constants of BM25.
FIELDS = {
    "title": 4,
    "reported_as": 4,
    "signatures": 3,
    "symptom": 2,
    "root_cause": 1,
    "fix": 1,
    "check": 1,
    "false_alarm": 1,
}
K1, B = 4.0, 0.75
AGAIN, MOST = 0.3, 2.0  # what a word of a report counts for again, and at most
REMEMBERED = 50_000  # tokens whose words are kept
LONGEST_NUMBER = 6  # digits; a longer number is a size, a time or an address

_TOKEN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|\d+(?:\.\d+)?|[\u4e00-\u9fff]+")
_CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_ENDINGS = ("ations", "ation", "ings", "ing", "edly", "ed", "ies", "es", "s", "ly")
_COMMON = (
    "a an the of to in on at is are was were be been it its this that these those and or for with "
    "as by from i my me we our you your he she they them there here so if then than just also very "
    "can could would should will do does did have has had am im ive any some"
)
_STOP = frozenset(_COMMON.split())


def tokens(text: str) -> list[str]:
    """Words, numbers and runs of Chinese, as the text has them."""
    return _TOKEN.findall(text)


def words(text: str) -> list[str]:
    """The counted words of a text, in order. Entries and reports are read by this one function.

    English words lose their endings, identifiers count whole and in parts, Chinese counts in pairs
    of characters.
    """
    return list(chain.from_iterable(map(_parts, tokens(text))))


def stem(word: str) -> str:
    """A word without its common English ending."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "ls":
        word = word[:-1]
    return word[:-1] if len(word) > 4 and word[-1] == "e" else word


@lru_cache(REMEMBERED)
def _parts(token: str) -> tuple[str, ...]:
    """What one token counts as: itself, and the parts of an identifier."""
    if token[0].isdigit():
        return (token,) if len(token) <= LONGEST_NUMBER else ()
    if "\u4e00" <= token[0] <= "\u9fff":
        return tuple(token[at : at + 2] for at in range(len(token) - 1)) or (token,)
    low = token.lower()
    written = (low, token.upper(), low.capitalize(), f"{token[:-1].upper()}s")  # the last: GPUs
    if "_" in token.strip("_") or token not in written:
        pieces = [piece.lower() for piece in _CAMEL.findall(token)]
        if len(pieces) > 1:
            return (low, *(stem(p) for p in pieces if len(p) > 1 and p not in _STOP))
    bare = low.strip("_")
    return (stem(bare),) if bare and low not in _STOP else ()


def cards(entry: Entry) -> tuple[str, str]:
    """The two texts whose meaning stands for an entry.

    Its title with the ways in which people report it, and with its symptom and its messages.
    """
    messages = [signature.text for signature in entry.signatures if not signature.is_regex]
    return (
        _plain(" . ".join([entry.title, *entry.reported_as])),
        _plain(" . ".join([entry.title, entry.symptom, *messages])),
    )


def _plain(text: str) -> str:
    return text.replace("`", "").replace("**", "")


def _field(entry: Entry, name: str) -> str:
    value = getattr(entry, name)
    if name == "signatures":
        value = [signature.text for signature in value]
    return value if isinstance(value, str) else "\n".join(value)


def made_from(entries: Iterable[Entry], model: str) -> dict[str, str]:
    """{entry id: hash of its cards and the encoder}; `model` is `encoder.name()`.

    Equal hashes mean that the vectors stay, whatever vectors this processor would give.
    """
    return {
        entry.id: sha256(json.dumps([model, cards(entry)]).encode()).hexdigest()[:16]
        for entry in entries
    }


def encoded(
    entries: Iterable[Entry],
    model: encoder.Encoder,
    name: str,
    old: Mapping[str, EntryVectors] | None = None,
) -> dict[str, EntryVectors]:
    """The vectors of entries by id. Those in `old` with the same hash aren't encoded again."""
    entries = list(entries)
    hashes, old = made_from(entries, name), old or {}
    result = {}
    for entry in entries:
        own = old.get(entry.id)
        if own is None or own.made_from != hashes[entry.id]:
            points = numpy.stack([model.vector(text) for text in cards(entry)])
            own = EntryVectors(hashes[entry.id], vectors.pack(points))
        result[entry.id] = own
    return result


def is_current(old: Mapping[str, EntryVectors], entries: Iterable[Entry], model: str) -> bool:
    """Whether vectors are those of these entries, no others, by this encoder."""
    return {id: own.made_from for id, own in old.items()} == made_from(entries, model)


@dataclass(frozen=True, eq=False)
class Postings:
    """Which entries hold a word, and what it counts for in each: BM25F, ready to be added up.

    Word number `n` is in the entries `columns[starts[n]:starts[n + 1]]`, which are places in `ids`,
    in rising order; `weights` has what it counts for in each.
    """

    ids: Sequence[str]
    words: Sequence[str]
    starts: numpy.ndarray
    columns: numpy.ndarray
    weights: numpy.ndarray  # float16: 40 % of the file, and precise enough to rank by

    @classmethod
    def count(cls, entries: Sequence[Entry]) -> Postings:
        """Count the words of entries, which takes a quarter of a second for the whole catalogue."""
        bags = [_bag(entry) for entry in entries]
        words = sorted({word for bag in bags for word in bag})
        number = {word: at for at, word in enumerate(words)}
        sizes = [len(bag) for bag in bags]
        columns = numpy.repeat(numpy.arange(len(bags)), sizes)
        rows = numpy.array([number[word] for bag in bags for word in bag])
        counts = numpy.array([count for bag in bags for count in bag.values()], float)
        lengths = numpy.array([sum(bag.values()) for bag in bags])
        room = K1 * (1 - B + B * lengths / lengths.mean())
        holding = numpy.bincount(rows)
        rarity = numpy.log(1 + (len(bags) - holding + 0.5) / (holding + 0.5))
        weights = rarity[rows] * (counts * (K1 + 1) / (counts + room[columns]))
        order = numpy.argsort(rows, kind="stable")  # the columns of a word stay in rising order
        return cls(
            [entry.id for entry in entries],
            words,
            numpy.cumsum([0, *holding]).astype("int32"),
            columns[order].astype("uint16"),
            weights[order].astype("float16"),
        )

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, numpy.ndarray]) -> Postings:
        """The postings whose `arrays` these are."""
        head = json.loads(bytes(arrays["head"]))
        rest = {name: arrays[name] for name in ("starts", "columns", "weights")}
        return cls(head["ids"], head["words"], **rest)

    def arrays(self) -> dict[str, numpy.ndarray]:
        """The same as arrays alone, for a file."""
        head = json.dumps({"ids": self.ids, "words": self.words}, ensure_ascii=False)
        return {
            "head": numpy.frombuffer(head.encode(), "uint8"),
            "starts": self.starts,
            "columns": self.columns,
            "weights": self.weights,
        }


class Index:
    """The entries as the ranking sees them.

    `points`: the vectors of the cards, shape (cards, entries, 384), one matrix for each kind of
    card.
    """

    def __init__(self, postings: Postings, points: numpy.ndarray):
        self.ids = list(postings.ids)
        self.column = {name: at for at, name in enumerate(self.ids)}
        self.points = points
        self._rows = {word: row for row, word in enumerate(postings.words)}
        self._starts, self._columns = postings.starts, postings.columns
        self._weights = postings.weights.astype("f")

    def bm25(self, text: str) -> numpy.ndarray:
        """The BM25F score of each entry, shape (entries,)."""
        scores = numpy.zeros(len(self.ids), "f")
        for word, count in Counter(words(text)).items():
            row = self._rows.get(word)
            if row is not None:
                part = slice(self._starts[row], self._starts[row + 1])
                scores[self._columns[part]] += (
                    min(MOST, 1 + AGAIN * (count - 1)) * self._weights[part]
                )
        return scores

    def known(self, text: str) -> tuple[int, float]:
        """(how many different words of a text occur in entries, their share of its words).

        A number that no entry has counts for neither.
        """
        said = set(words(text))
        known = self._rows.keys() & said
        unknown = sum(not word[0].isdigit() for word in said - known)
        return len(known), len(known) / max(len(known) + unknown, 1)

    def count_shared(self, text: str, column: int) -> int:
        """How many different words of a text the entry of a column has too."""
        return sum(self._weight(word, column) > 0 for word in set(words(text)))

    def _weight(self, word: str, column: int) -> float:
        """What a word counts for in the entry of a column; 0 where the entry lacks it."""
        row = self._rows.get(word)
        if row is None:
            return 0.0
        start, end = self._starts[row], self._starts[row + 1]
        at = start + numpy.searchsorted(self._columns[start:end], column)
        return float(self._weights[at]) if at < end and self._columns[at] == column else 0.0

    def reasons(self, text: str, column: int, most: int = 3) -> list[str]:
        """The words of a text that speak most for an entry, as the text has them.

        Only words that the catalogue has as a whole: a part of a longer one may be a secret's.
        A long word in capitals is rather an order than a name, and comes in small letters. Of
        Chinese come whole terms.
        """
        weights: dict[str, float] = {}
        written: dict[str, str] = {}
        for token in tokens(text):
            if not token.isascii():
                for piece, weight in self._chinese_reasons(token, column):
                    weights[piece], written[piece] = weight, piece
                continue
            for word in words(token)[:1]:
                if weight := self._weight(word, column):
                    weights[word] = weight
                    written.setdefault(word, _as_written(token))
        return [written[word] for word in sorted(weights, key=lambda word: -weights[word])[:most]]

    def _chinese_reasons(self, run: str, column: int) -> Iterator[tuple[str, float]]:
        """The terms of a run of Chinese that an entry has, in Chinese or in English, with their
        weights; between terms the longest parts that it has.
        """
        for piece, english in chinese.pieces(run):
            if english is None:
                yield from self._common_parts(piece, column)
            elif weight := max(
                (self._weight(word, column) for word in words(f"{piece} {english}") if english),
                default=0.0,
            ):
                yield piece, weight

    def _common_parts(self, piece: str, column: int) -> Iterator[tuple[str, float]]:
        """The longest parts of some Chinese whose pairs of characters an entry all has."""
        start, weight = 0, 0.0
        for at in range(len(piece)):
            more = self._weight(piece[at : at + 2], column) if at + 1 < len(piece) else 0.0
            if not more and weight:
                yield piece[start : at + 1], weight
            start, weight = (start, max(weight, more)) if more and weight else (at, more)


def _as_written(token: str) -> str:
    """How a reason shows a word of a report: as the text has it, an order in small letters."""
    is_shouted = token.isalpha() and token.isupper() and len(token) > 5
    return token.lower() if is_shouted else token


def _bag(entry: Entry) -> dict[str, int]:
    """How often an entry holds each word, times the weight of the field that it stands in."""
    bag: dict[str, int] = {}
    for name, weight in FIELDS.items():
        for word in words(_field(entry, name)):
            bag[word] = bag.get(word, 0) + weight
    return bag


@lru_cache(maxsize=1)
def load() -> Index:
    """The index of this installation. Raises CatalogueError."""
    return joined(_kept_postings(), vectors.read())


def joined(postings: Postings, known: Mapping[str, EntryVectors]) -> Index:
    """The index of entries whose vectors are known, or zeros where they aren't."""
    packed = [known[id].packed if id in known else "" for id in postings.ids]
    return Index(postings, vectors.unpack(packed))


def _kept_postings() -> Postings:
    """The postings of this installation, from the cache where it has them."""
    key = key_of(words, read_page, Entry)
    arrays = cache.read("words", key)
    if arrays is not None:
        return Postings.from_arrays(arrays)
    postings = Postings.count(list(bundle.load_cache().values()))
    cache.keep("words", key, postings.arrays())
    return postings


def key_of(*parts: Callable) -> str:
    """A hash of all that follows from the pages: they, and the modules of what reads them.

    The modules count with their text, so that whoever changes `stem` sees what it does.
    """
    whole = sha256(f"{__version__} {bundle.load_cache().digest}".encode())
    for part in parts:
        whole.update(Path(getfile(part)).read_bytes())
    return whole.hexdigest()[:32]

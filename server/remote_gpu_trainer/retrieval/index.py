"""Everything that a look-up knows of the entries: the words in them, and what their cards mean.

`index.npz` holds both for all entries of the catalogue; `rgt dev docs --write` makes it in seconds.
An entry is found as soon as it is in there: nothing is trained for it.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import sha256
from itertools import chain
from pathlib import Path
from zipfile import BadZipFile

from ..catalogue.bundle import CatalogueError
from ..catalogue.entry import Entry
from . import encoder, numpy

PLACE = Path(__file__).with_name("index.npz")
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
CARDS = 2
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
    """{entry id: hash of its words, its cards and the encoder}; `model` is `encoder.name()`.

    Equal hashes mean that the index needs no new one, whatever vectors this processor would give.
    """
    return {
        entry.id: sha256(
            json.dumps([model, K1, B, cards(entry), sorted(_bag(entry).items())]).encode()
        ).hexdigest()[:16]
        for entry in entries
    }


def is_current(known: Index | None, entries: Iterable[Entry], model: str) -> bool:
    """Whether an index was made from these entries, in their order, by this encoder."""
    return known is not None and list(known.made_from.items()) == list(
        made_from(entries, model).items()
    )


class Index:
    """The entries as the ranking sees them. `arrays`: those that `build` makes."""

    def __init__(self, arrays: dict[str, numpy.ndarray]):
        head = json.loads(bytes(arrays["head"]))
        self.made_from: dict[str, str] = head["made_from"]
        self.ids = list(self.made_from)
        self.column = {name: at for at, name in enumerate(self.ids)}
        self._rows = {word: row for row, word in enumerate(head["words"])}
        self._starts, self._columns = arrays["starts"], arrays["columns"]
        self._weights = arrays["weights"].astype("f")
        # (cards, entries, 384): one matrix for each kind of card.
        self.points = arrays["points"] * arrays["points/scale"][..., None]

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
        found = self._rows.keys() & said
        others = sum(not word[0].isdigit() for word in said - found)
        return len(found), len(found) / max(len(found) + others, 1)

    def held(self, text: str, column: int) -> int:
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
        A long word in capitals is rather an order than a name, and comes in small letters.
        """
        found: dict[str, float] = {}
        written: dict[str, str] = {}
        for token in tokens(text):
            for word in words(token)[: 1 if token.isascii() else None]:
                if weight := self._weight(word, column):
                    found[word] = weight
                    shouted = token.isalpha() and token.isupper() and len(token) > 5
                    written.setdefault(
                        word, token.lower() if shouted else token if token.isascii() else word
                    )
        return [written[word] for word in sorted(found, key=lambda word: -found[word])[:most]]


def _postings(entries: Sequence[Entry]) -> dict[str, list[tuple[int, float]]]:
    """{word: (place of an entry, what the word counts for in it)}, in the order of the words."""
    bags = [_bag(entry) for entry in entries]
    lengths = [sum(bag.values()) for bag in bags]
    mean = sum(lengths) / len(lengths)
    found: dict[str, list[tuple[int, float]]] = {}
    for at, (bag, length) in enumerate(zip(bags, lengths, strict=True)):
        room = K1 * (1 - B + B * length / mean)
        for word, count in bag.items():
            found.setdefault(word, []).append((at, count * (K1 + 1) / (count + room)))
    rarity = {
        w: math.log(1 + (len(bags) - len(own) + 0.5) / (len(own) + 0.5)) for w, own in found.items()
    }
    return {w: [(at, rarity[w] * value) for at, value in found[w]] for w in sorted(found)}


def build(
    entries: Sequence[Entry], model: encoder.Encoder, name: str, old: Index | None = None
) -> dict[str, numpy.ndarray]:
    """The arrays of `index.npz`. Cards that are in `old` unchanged aren't encoded again."""
    hashes = made_from(entries, name)
    points = numpy.zeros((CARDS, len(entries), encoder.WIDTH), "f")
    for at, entry in enumerate(entries):
        if old and old.made_from.get(entry.id) == hashes[entry.id]:
            points[:, at] = old.points[:, old.column[entry.id]]
            continue
        for kind, text in enumerate(cards(entry)):
            points[kind, at] = model.vector(text)
    scale = numpy.abs(points).max(2) / 127 + 1e-12
    postings = _postings(entries)
    known = list(postings)
    flat = [each for found in postings.values() for each in found]
    return {
        "head": numpy.frombuffer(
            json.dumps({"made_from": hashes, "words": known}, ensure_ascii=False).encode(), "uint8"
        ),
        "starts": numpy.cumsum([0, *(len(postings[w]) for w in known)]).astype("int32"),
        "columns": numpy.array([at for at, _ in flat], "uint16"),
        "weights": numpy.array([value for _, value in flat], "float16"),
        "points": numpy.round(points / scale[..., None]).astype("int8"),
        "points/scale": scale.astype("f"),
    }


def _bag(entry: Entry) -> Counter:
    bag: Counter = Counter()
    for name, weight in FIELDS.items():
        for word in words(_field(entry, name)):
            bag[word] += weight
    return bag


@lru_cache(maxsize=1)
def load() -> Index:
    """The index of this installation."""
    return read(PLACE)


def read(place: Path) -> Index:
    """The index in a file. Raises CatalogueError for one that is missing or damaged."""
    try:
        with numpy.load(place) as arrays:
            return Index(dict(arrays))
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        raise CatalogueError(f"can't read {place} ({error}); run rgt dev docs --write") from None


def read_if_there(place: Path = PLACE) -> Index | None:
    """The index in a file, None for one that is missing or damaged."""
    try:
        return read(place)
    except CatalogueError:
        return None

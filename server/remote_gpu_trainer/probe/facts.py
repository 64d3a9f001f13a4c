"""Facts beside the findings, and the sheet that shows them in the order of a reader's questions."""

import math
import re

TOPICS = (
    "in force",  # what trains, with which settings
    "data",
    "loss",
    "weights",
    "saved",
    "time",
)
MOST_PAGE = 600.0  # tokens of a page, findings and facts together
LEAST_SHEET = 250  # of them that findings leave to the facts
MOST_FACT, MOST_UNSEEN = 80, 120  # of one fact, and of what wasn't looked at
FOR_THE_REST = 45  # of the lines that say what was left out
PIECE = re.compile(r"[A-Za-z]+|\d+|[^\sA-Za-z\d]")


def tokens(text):
    """About how many tokens a text has, rather too many: as lookup/budget.py counts them."""
    return sum(tokens_of_piece(piece) for piece in PIECE.findall(text))


def tokens_of_piece(piece):
    """About how many tokens a word, a number or a sign has."""
    size = len(piece)
    if not piece[0].isascii():
        return 1.25
    if piece[0].isalpha():
        return 1.0 if size <= 7 else 1.55 if size <= 12 else size / 5
    return math.ceil(size / 3) + 0.5 if piece[0].isdigit() else 0.78


def fact(place, text, usual="", **numbers):
    """One fact. `place` is its topic and its name, as in "data/loader".

    `usual` says what it mostly is, where this one differs from that. `numbers` are what two runs
    are compared by.
    """
    about, name = place.split("/", 1)
    return {"about": about, "name": name, "text": text, "usual": usual, "numbers": numbers}


def count_of(number, one, many=""):
    """A number with its word: 1 step, 1,200 steps."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def brief(number):
    """A number in three digits."""
    return f"{number:.3g}"


def share(part):
    """A share in percent; a small one isn't rounded to nothing."""
    return f"{part:.0%}" if not part or part >= 0.01 else f"{100 * part:.1g}%"


def cost(text):
    """The tokens of a text on the sheet. Long words take room, however few tokens they are."""
    return max(tokens(text), len(text) / 4.2)


def sheet(facts, unseen, most=MOST_PAGE):
    """The lines of a page: what wasn't seen, what differs from the usual, then the rest.

    What is usual is left out first, from the end, where the page would have more than `most`
    tokens. The last line of each kind says how many were left out, and on what.
    """
    lines = [cut(f"not looked at: {unseen}", MOST_UNSEEN)] if unseen else []
    room = most - sum(map(cost, lines)) - FOR_THE_REST
    left = {}
    for one in [one for one in in_order(facts) if one["usual"]]:
        line = "! {}: {} (usual: {})".format(one["about"], cut(one["text"]), cut(one["usual"]))
        if cost(line) <= room:
            lines.append(line)
            room -= cost(line)
        else:
            left[one["about"]] = left.get(one["about"], 0) + 1
    if left:
        lines.append(f"! {sum(left.values())} more differ from the usual: {by_topic(left)}")
    left = {}
    for topic in TOPICS:
        kept = []
        room -= cost(topic + ":")
        for one in [one for one in facts if one["about"] == topic and not one["usual"]]:
            text = cut(one["text"])
            if cost(text + ";") <= room:
                kept.append(text)
                room -= cost(text + ";")
            else:
                left[topic] = left.get(topic, 0) + 1
        if kept:
            lines.append("{}: {}".format(topic, "; ".join(kept)))
        else:
            room += cost(topic + ":")
    if left:
        lines.append(f"({count_of(sum(left.values()), 'more fact')}: {by_topic(left)})")
    return lines


def by_topic(counted):
    """How many facts were left out on each topic."""
    return ", ".join(f"{topic} {n}" for topic, n in counted.items()) + ", in --json"


def in_order(facts):
    """The facts by topic, in each topic those first that differ from the usual."""
    return sorted(facts, key=lambda one: (TOPICS.index(one["about"]), not one["usual"]))


def cut(text, most=MOST_FACT):
    """A text on one line, of not many more than `most` tokens."""
    text = " ".join(str(text).split())
    spent = 0
    for piece in PIECE.finditer(text):
        spent += tokens_of_piece(piece.group())
        if spent > most:
            return text[: piece.start()].rstrip() + " …"
    return text


def whole_sentences(text, most):
    """The sentences of a text that `most` tokens have room for. No code is cut either."""
    kept = ""
    for part in re.split(r"(?<=[.!?]) (?=\S)", text):
        longer = f"{kept} {part}" if kept else part
        if tokens(longer) > most:
            break
        kept = longer
    return kept if kept.count("`") % 2 == 0 else ""


def differences(facts, others, most=MOST_PAGE, tolerance=0.25):
    """The lines that tell how two runs' facts differ, those of one topic together.

    Numbers may differ by a share of `tolerance`: two healthy runs aren't equal. What would be more
    than `most` tokens is named alone.
    """
    mine, theirs = ({(one["about"], one["name"]): one for one in run} for run in (facts, others))
    differ = []
    for key in dict.fromkeys([*mine, *theirs]):
        one, other = mine.get(key), theirs.get(key)
        if one and other and alike(one.get("numbers"), other.get("numbers"), tolerance):
            continue
        here, there = compared_text(one, other), compared_text(other, one)
        lines = [f"{cut(', '.join(key), 30)}: {here}", f"    there: {there}"]
        differ.append((TOPICS.index(key[0]), ", ".join(key), lines))
    differ.sort(key=lambda one: one[0])
    told, left, room = [], [], most - FOR_THE_REST
    for _, name, lines in differ:
        if sum(map(tokens, lines)) <= room:
            told += lines
            room -= sum(map(tokens, lines))
        else:
            left.append(name)
    if left:
        names = cut("; ".join(left), FOR_THE_REST - 15)
        told.append(f"{len(left)} more differ, see both --json: {names}")
    return told


def compared_text(one, other):
    """The text of a fact beside another run's; of versions, those alone that differ."""
    if not one or not other or one["name"] != "versions":
        return cut(one["text"]) if one else "nothing was seen"
    mine, theirs = one.get("numbers") or {}, other.get("numbers") or {}
    unlike = [f"{name} {told}" for name, told in mine.items() if theirs.get(name) != told]
    return cut(", ".join(unlike) or "not imported")


def alike(one, other, tolerance):
    """Whether two values are equal, or numbers that are near each other."""
    if isinstance(one, dict) and isinstance(other, dict):
        return set(one) == set(other) and all(alike(one[k], other[k], tolerance) for k in one)
    if isinstance(one, bool) or isinstance(other, bool):
        return one == other
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return abs(one - other) <= tolerance * max(abs(one), abs(other))
    return one == other

"""Facts beside the findings, and the sheet that shows them in the order of a reader's questions."""

TOPICS = (
    "in force",  # what trains, with which settings
    "data",
    "loss",
    "weights",
    "saved",
    "time",
)
MOST_SHEET = 2100  # characters of a sheet, about 600 tokens with what wasn't looked at
MOST_FACT = 260  # characters of one fact


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


def sheet(facts, unseen, most=MOST_SHEET):
    """The lines of a page: what wasn't seen, what differs from the usual, then the rest.

    What is usual is left out first, from the end, where the page would get longer than `most`.
    """
    lines = [f"not looked at: {unseen}"] if unseen else []
    room, odd = most - sum(map(len, lines)), []
    for one in [one for one in in_order(facts) if one["usual"]]:
        odd.append("! {}: {} (usual: {})".format(one["about"], cut(one["text"]), one["usual"]))
    kept_odd = [line for at, line in enumerate(odd) if sum(map(len, odd[: at + 1])) <= room]
    if len(kept_odd) < len(odd):
        kept_odd.append(f"! {len(odd) - len(kept_odd)} more differ from the usual: see --json")
    lines += kept_odd
    room, left_out = room - sum(map(len, kept_odd)), 0
    for topic in TOPICS:
        texts = [one["text"] for one in facts if one["about"] == topic and not one["usual"]]
        kept = []
        for text in map(cut, texts):
            if room >= len(text) + 2:
                kept.append(text)
                room -= len(text) + 2
            else:
                left_out += 1
        if kept:
            lines.append("{}: {}".format(topic, "; ".join(kept)))
    if left_out:
        lines.append(f"({count_of(left_out, 'more fact')} in --json)")
    return lines


def in_order(facts):
    """The facts by topic, in each topic those first that differ from the usual."""
    return sorted(facts, key=lambda one: (TOPICS.index(one["about"]), not one["usual"]))


def cut(text):
    """A text on one line, not longer than a fact may be."""
    text = " ".join(str(text).split())
    return text if len(text) <= MOST_FACT else text[: MOST_FACT - 2] + " …"


def differences(facts, others, tolerance=0.25):
    """The lines that tell how two runs' facts differ, those of one topic together.

    Numbers may differ by a share of `tolerance`: two healthy runs aren't equal.
    """
    mine, theirs = ({(one["about"], one["name"]): one for one in run} for run in (facts, others))
    lines = []
    for key in dict.fromkeys([*mine, *theirs]):
        one, other = mine.get(key), theirs.get(key)
        if one and other and alike(one.get("numbers"), other.get("numbers"), tolerance):
            continue
        here = cut(one["text"]) if one else "nothing was seen"
        there = cut(other["text"]) if other else "nothing was seen"
        lines.append((TOPICS.index(key[0]), f"{key[0]}, {key[1]}: {here}", f"    there: {there}"))
    lines.sort(key=lambda line: line[0])
    return [text for _, *texts in lines for text in texts]


def alike(one, other, tolerance):
    """Whether two values are equal, or numbers that are near each other."""
    if isinstance(one, dict) and isinstance(other, dict):
        return set(one) == set(other) and all(alike(one[k], other[k], tolerance) for k in one)
    numbers = all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in (one, other))
    if numbers:
        return abs(one - other) <= tolerance * max(abs(one), abs(other))
    return one == other

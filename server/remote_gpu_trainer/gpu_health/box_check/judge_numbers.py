"""Judge whether each GPU computes, keeps and copies numbers as they must be."""

from ...logs.kernel.places import clean, short

LOOKED = (
    *("gpu", "products", "rounds", "faults", "types", "not_looked_at"),
    *("memory_gib", "copies", "seconds"),
)
NOT_LOOKED_AT = "not looked at"


def judge_numbers(lines, add):
    """Judge the lines of data/numbers_worker.py. Return what was looked at, an item for each GPU.

    Without a line of its own nothing was looked at, and the text says so.
    """
    stages = {}
    for line in lines:
        stages.setdefault(line["stage"], []).append(line)
    faults = {}
    for line in stages.get("numbers wrong", []):
        faults.setdefault(line.get("gpu"), []).append(as_fault(line))
    for gpu, texts in faults.items():
        add(gpu, "wrong_product", "; ".join(dict.fromkeys(texts)))
    for line in stages.get("numbers memory", []):
        size, wrong = line.get("bytes") or 0, line.get("wrong")
        add(line.get("gpu"), "wrong_memory", wrong, size / (1 << 30), line.get("first"))
    for line in stages.get("numbers copy", []):
        ends = [end_of(line.get(end)) for end in ("source", "target")]
        cards = [end for end in (line.get("source"), line.get("target")) if end != "host"]
        gpu = int(cards[0]) if len(cards) == 1 and str(cards[0]).isdigit() else None
        entry = "" if gpu is not None else "p2p"
        add(gpu, "wrong_copy", *ends, line.get("wrong"), key=" to ".join(ends), entry=entry)
    if "numbers host" in stages:
        add(None, "wrong_on_host")
    done = stages.get("numbers done", [])
    looked = [{key: line.get(key) for key in LOOKED} for line in done]
    for card in looked:
        if not card["products"]:
            add(card["gpu"], "numbers_not_looked_at", short(str(card["not_looked_at"]), 200))
    return looked or NOT_LOOKED_AT


def as_fault(line):
    """A wrong product in words: its type, its shape, and how wrong it is."""
    product = "{} {}".format(*(short(clean(str(line.get(key))), 40) for key in ("type", "shape")))
    wrong, changed, off = line.get("wrong"), line.get("changed"), line.get("off")
    faults = []
    if wrong:
        far = f", by up to {off:.2g} of the largest" if isinstance(off, (int, float)) else ""
        faults.append(f"{wrong} of {line.get('of')} elements wrong{far}")
    if changed:
        faults.append(f"{changed} differ the second time")
    return f"{product}: {', '.join(faults)}"


def end_of(place):
    """The end of a copy in words."""
    return "host" if place == "host" else f"GPU {short(clean(str(place)), 10)}"

"""`remote-gpu-trainer lint`: what the grammar alone can't see, over the whole catalogue.

Each check is a generator of faults over a catalogue, found by its name `check_*`. Limits: a link's target is
looked for only inside the bundle, never on the network; a regular expression is called slow after a
trial on texts that are known to make backtracking explode, not by proof.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import date, timedelta

try:
    from re import _parser
except ImportError:  # Python 3.10
    import sre_parse as _parser

from .bundle import Catalogue
from .entry import ID, Entry, Fault
from .signatures import Pattern  # the compiled form that the look-up itself uses

MAX_WORDS = {"symptom": 90, "root_cause": 80}
ANSWER_WORDS = (
    190  # root cause, first paragraph of fix and of check: what one match of a reply holds
)
MIN_SIGNATURE = 8  # shorter literals are found by chance in base64, hashes and ordinary words
SLOW_SECONDS = 0.05

ORDINARY_LOG = """\
2026-11-20 10:00:00,123 INFO train.py:88 Starting training on cuda:0, world_size=8, rank=0, LOCAL_RANK=0
Epoch 3/100:  45%|████▌     | 450/1000 [02:13<02:43,  3.37it/s, loss=1.2345, lr=0.0001, grad_norm=0.87]
{'loss': 2.3026, 'grad_norm': 1.0, 'learning_rate': 5e-05, 'epoch': 0.12}
NCCL version 2.21.5+cuda12.4
host:123:456 [0] NCCL INFO comm 0x55 rank 0 nranks 8 cudaDev 0 busId 1000 - Init COMPLETE
trainable params: 4,194,304 || all params: 6,742,609,920 || trainable%: 0.0622
Saving model checkpoint to ./out/checkpoint-500
Validation: accuracy 0.8123, best 0.8123, error 0.1877, 0 errors
optimizer.step() took 12 ms, backward 80 ms, dataloader 3 ms, num_workers=8, pin_memory=True, fused=True
model = nn.Sequential(nn.Linear(10, 10), nn.ReLU(), nn.BatchNorm1d(10)); criterion = nn.CrossEntropyLoss()
accelerate launch --multi_gpu train.py && torchrun --standalone --nproc-per-node=8 train.py --find_unused_parameters
DeepSpeed info: version=0.16.0, zero_optimization stage 2, gradient_accumulation_steps=4
Done. Training finished without errors in 3:21:07. exit code 0
"""
_STRAIN = (
    "a" * 3000,
    " " * 3000,
    "0.1 " * 800,
    "[rank0]: " * 400,
    "(" * 2000,
    "/a" * 1500 + "!",
    "Error: " * 500,
)
_LINK = re.compile(r"\]\(([^()\s]+)\)")
_REFERENCE = re.compile(rf"\[({ID.pattern})\](?!\()")
_REQUIREMENT = re.compile(
    r"(?:platform|gpu):[\w .+-]+|[A-Za-z][\w.-]*(?:(?: ?(?:==|!=|<=|>=|<|>|~=)[\w.*+!-]+)(?: (?:==|!=|<=|>=|<|>|~=)[\w.*+!-]+)*)?"
)


def lint(catalogue: Catalogue, today: date) -> list[Fault]:
    """Every fault of the catalogue, by page and line. `today` bounds the dates."""
    faults = list(catalogue.faults)
    for entry in catalogue.entries:
        for name, check in sorted(globals().items()):
            if name.startswith("check_"):
                faults.extend(check(entry, catalogue, today))
    faults.extend(_ids(catalogue))
    return sorted(faults, key=lambda fault: (fault.path, fault.line, fault.text))


def _ids(catalogue: Catalogue) -> Iterator[Fault]:
    places: dict[str, tuple[str, int]] = {}
    for item in (*catalogue.entries, *catalogue.retired):
        if item.id in places:
            path, line = places[item.id]
            yield Fault(
                item.path, item.line, f"found id {item.id} again, expected it only at {path}:{line}"
            )
        places.setdefault(item.id, (item.path, item.line))
    for old in catalogue.retired:
        if catalogue.current(old.id) not in catalogue.by_id:
            yield Fault(
                old.path, old.line, f"found {old.id} → {old.successor}, expected the id of an entry"
            )


def _fault(entry: Entry, text: str) -> Fault:
    return Fault(entry.path, entry.line, f"{entry.id}: {text}")


def check_references(entry: Entry, catalogue: Catalogue, today: date) -> Iterator[Fault]:
    named = [*_REFERENCE.findall(entry.markdown), *(other for other, _ in entry.tell_apart)]
    for other in dict.fromkeys(named):
        if catalogue.current(other) not in catalogue.by_id:
            yield _fault(entry, f"found a reference to {other}, expected the id of an entry")
    if entry.id in named:
        yield _fault(entry, "found a reference to itself, expected another entry")


def check_links(entry: Entry, catalogue: Catalogue, today: date) -> Iterator[Fault]:
    for target in _LINK.findall(entry.markdown):
        if target.startswith(("https://", "http://", "#")):
            continue
        page = catalogue.root / entry.path
        if not (page.parent / target.split("#")[0]).exists():
            yield _fault(
                entry, f"found a link to {target!r}, expected a file of the bundle or a web address"
            )
    if not any("http" in source or "release notes" in source for source in entry.sources):
        yield _fault(
            entry,
            f"found no address in Sources {entry.sources!r}, expected one that can be opened again",
        )


def check_signatures(entry: Entry, catalogue: Catalogue, today: date) -> Iterator[Fault]:
    seen = set()
    for signature in entry.signatures:
        if signature.text in seen:
            yield _fault(entry, f"found signature {signature.text!r} twice, expected it once")
        seen.add(signature.text)
        if not signature.is_regex and len(signature.text) < MIN_SIGNATURE:
            yield _fault(
                entry,
                f"found signature {signature.text!r}, expected {MIN_SIGNATURE} characters or more",
            )
            continue
        try:
            pattern = Pattern(signature)
            empty = pattern.matches("")
        except re.error as error:
            yield _fault(
                entry,
                f"found signature /{signature.text}/ that doesn't compile ({error}), expected a regular expression",
            )
            continue
        slow = stalls(signature.text) if signature.is_regex else ""
        if slow:
            yield _fault(
                entry,
                f"found signature /{signature.text}/ with {slow}, expected one that can't stall",
            )
            continue
        if empty:
            yield _fault(
                entry,
                f"found signature {signature.text!r} that matches an empty line, expected a text",
            )
            continue
        hit = next((line for line in ORDINARY_LOG.splitlines() if pattern.matches(line)), None)
        if hit:
            yield _fault(
                entry,
                f"found signature {signature.text!r} in the ordinary line {hit[:60]!r}, expected a text of this failure only",
            )
        started = time.process_time()
        for strain in _STRAIN:
            pattern.matches(strain)
        if time.process_time() - started > SLOW_SECONDS:
            yield _fault(
                entry,
                f"found signature {signature.text!r} that takes over {SLOW_SECONDS} s on a long line, expected no nested repeats",
            )


def stalls(pattern: str) -> str:
    """What in a regular expression could make it backtrack for ever, or ''. Strict: a few harmless ones are refused."""
    unbounded = 0

    def walk(tree, inside: bool) -> str:
        nonlocal unbounded
        for operator, value in tree:
            name = str(operator)
            if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
                low, high, inner = value
                varies = high != low
                if varies and inside:
                    return "a repeat inside a repeat"
                unbounded += high >= 1000 and varies and "CATEGORY_DIGIT" not in str(inner)
                found = walk(inner, inside or high > 1)
            elif name == "BRANCH":
                found = next(filter(None, (walk(branch, inside) for branch in value[1])), "")
            elif name == "SUBPATTERN":
                found = walk(value[3], inside)
            elif name in ("ASSERT", "ASSERT_NOT"):
                found = walk(value[1], inside)
            elif name.startswith("GROUPREF"):
                found = "a reference to a group"
            else:
                found = ""
            if found:
                return found
        return "more than two unbounded repeats" if unbounded > 2 else ""

    return walk(_parser.parse(pattern), False)


def check_lengths(entry: Entry, catalogue: Catalogue, today: date) -> Iterator[Fault]:
    for name, limit in MAX_WORDS.items():
        words = len(getattr(entry, name).split())
        if words > limit:
            yield _fault(
                entry, f"found {words} words in {name.replace('_', ' ')}, expected at most {limit}"
            )
    answer = sum(
        len(text.split("\n\n")[0].split()) for text in (entry.root_cause, entry.fix, entry.check)
    )
    if answer > ANSWER_WORDS:
        yield _fault(
            entry,
            f"found {answer} words in root cause and the first paragraphs of fix and check, expected at most {ANSWER_WORDS}",
        )
    words = len(entry.title.split())
    if not 5 <= words <= 18:
        yield _fault(
            entry, f"found a title of {words} words, expected 5 to 18 that say what is seen"
        )


def check_dates(entry: Entry, catalogue: Catalogue, today: date) -> Iterator[Fault]:
    # A day of grace: an author east of here is already in tomorrow.
    if not date(2026, 1, 1) <= entry.verified <= today + timedelta(days=1):
        yield _fault(
            entry, f"found Verified {entry.verified}, expected a date from 2026-01-01 to {today}"
        )


def check_ranges(entry: Entry, catalogue: Catalogue, today: date) -> Iterator[Fault]:
    for item in entry.applies_to:
        if not _REQUIREMENT.fullmatch(item):
            yield _fault(
                entry,
                f"found Applies to {item!r}, expected NAME with a version range, platform:NAME or gpu:TEXT",
            )


def check_reports(entry: Entry, catalogue: Catalogue, today: date) -> Iterator[Fault]:
    chinese = sum(any("\u4e00" <= char <= "\u9fff" for char in item) for item in entry.reported_as)
    if len(entry.reported_as) < 5 or chinese < 2:
        yield _fault(
            entry,
            f"found {len(entry.reported_as)} items in Reported as, {chinese} of them Chinese, expected 5 and 2 or more",
        )

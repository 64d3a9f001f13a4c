"""`rgt dev lint`: checks of the whole catalogue beyond the grammar.

Each check is a generator of faults for one entry, found by its name `check_*`. The target of a link
is looked for only inside the bundle, never on the network. Whether a regular expression is slow is
only tried, on texts that are known to make backtracking explode.
"""

from __future__ import annotations

import ast
import re
import sys
import time
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

if sys.version_info >= (3, 11):
    from re import _parser  # pyright: ignore[reportAttributeAccessIssue]: private, without a stub
else:
    import sre_parse as _parser

from .bundle import Catalogue
from .entry import ID, Entry, Fault, Signature
from .signatures import Pattern  # the compiled form that the look-up itself uses

MAX_WORDS = {"symptom": 90, "root_cause": 80}
ANSWER_WORDS = 190  # words of one match: root cause, first paragraphs of fix and check
RETRY_WORDS = 12
LEAD_WORDS = 60  # an answer gives the first paragraph of a field, and never cuts it
MIN_SIGNATURE = 8  # shorter literals occur by chance in base64, hashes and ordinary words
SLOW_SECONDS = 0.05
MIN_REPORTS, MIN_CHINESE = 5, 2  # items of Reported as

# Healthy runs print these lines; no signature may match them.
ORDINARY_LOG = """\
2026-11-20 10:00:00,123 INFO train.py:88 Starting training on cuda:0, world_size=8, rank=0, \
LOCAL_RANK=0
Epoch 3/100:  45%|████▌     | 450/1000 [02:13<02:43,  3.37it/s, loss=1.2345, lr=0.0001, \
grad_norm=0.87]
{'loss': 2.3026, 'grad_norm': 1.0, 'learning_rate': 5e-05, 'epoch': 0.12}
NCCL version 2.21.5+cuda12.4
host:123:456 [0] NCCL INFO comm 0x55 rank 0 nranks 8 cudaDev 0 busId 1000 - Init COMPLETE
trainable params: 4,194,304 || all params: 6,742,609,920 || trainable%: 0.0622
Saving model checkpoint to ./out/checkpoint-500
Validation: accuracy 0.8123, best 0.8123, error 0.1877, 0 errors
optimizer.step() took 12 ms, backward 80 ms, dataloader 3 ms, num_workers=8, pin_memory=True, \
fused=True
model = nn.Sequential(nn.Linear(10, 10), nn.ReLU(), nn.BatchNorm1d(10)); \
criterion = nn.CrossEntropyLoss()
accelerate launch --multi_gpu train.py && torchrun --standalone --nproc-per-node=8 train.py \
--find_unused_parameters
DeepSpeed info: version=0.16.0, zero_optimization stage 2, gradient_accumulation_steps=4
Done. Training finished without errors in 3:21:07. exit code 0
"""
# Libraries and surviving ranks print these lines after any failure; no root text may match them.
ECHOES = """\
CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace \
below might be incorrect.
For debugging consider passing CUDA_LAUNCH_BLOCKING=1
Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.
If reserved but unallocated memory is large try setting PYTORCH_ALLOC_CONF=expandable_segments:True
If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.
[rank1]:[E ProcessGroupNCCL.cpp:632] [Rank 1] Watchdog caught collective operation timeout: \
WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600013 \
milliseconds before timing out.
To avoid data inconsistency, we are taking the entire process down.
RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer \
[10.0.0.7]:44321
[../third_party/gloo/gloo/transport/tcp/pair.cc:525] Read error [10.0.0.7]:44321: \
Connection reset by peer
ncclRemoteError: A call failed possibly due to a network error or a remote process exiting \
prematurely.
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
Root Cause (first observed failure):
terminate called after throwing an instance of 'c10::DistBackendError'
terminate called without an active exception
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
_RANGE = r"(?:==|!=|<=|>=|<|>|~=)[\w.*+!-]+"
_REQUIREMENT = re.compile(
    rf"(?:platform|gpu):[\w .+-]+|[A-Za-z][\w.-]*(?:(?: ?{_RANGE})(?: {_RANGE})*)?"
)


def lint(catalogue: Catalogue, today: date) -> list[Fault]:
    """Every fault of the catalogue, by page and line. Dates after `today` are faults."""
    faults = list(catalogue.faults)
    for entry in catalogue.entries:
        for name, check in sorted(globals().items()):
            if name.startswith("check_"):
                faults.extend(check(entry, catalogue, today))
    faults.extend(_ids(catalogue))
    faults.extend(_shared(catalogue))
    faults.extend(_probed(catalogue))
    faults.extend(leads(catalogue))
    return sorted(faults, key=lambda fault: (fault.path, fault.line, fault.text))


def notes(catalogue: Catalogue) -> list[Fault]:
    """What would make an entry better, but isn't required of its author.

    People report in Chinese too, and the look-up searches by their words. Not every contributor
    writes Chinese, so a maintainer may add it.
    """
    return [
        _fault(
            entry,
            f"Reported as has {chinese} items in Chinese; "
            f"{MIN_CHINESE} would help those who search in it",
        )
        for entry in catalogue.entries
        if (chinese := sum(map(_is_chinese, entry.reported_as))) < MIN_CHINESE
    ]


def _is_chinese(text: str) -> bool:
    return any("\u4e00" <= char <= "\u9fff" for char in text)


def leads(catalogue: Catalogue) -> list[Fault]:
    """What is wrong with the first paragraphs of root cause, fix and check."""
    faults = []
    for entry in catalogue.entries:
        for name in ("root_cause", "fix", "check"):
            lead = getattr(entry, name).split("\n\n")[0].split("\n```")[0].strip()
            words, field = len(lead.split()), name.replace("_", " ")
            if words > LEAD_WORDS:
                text = f"the first paragraph of {field} has {words} words; keep to {LEAD_WORDS}"
                faults.append(_fault(entry, text))
            if not lead.endswith((".", ".)")):
                text = f"the first paragraph of {field} ends in {lead[-20:]!r}; end in a full stop"
                faults.append(_fault(entry, text))
    return faults


def _ids(catalogue: Catalogue) -> Iterator[Fault]:
    places: dict[str, tuple[str, int]] = {}
    for item in (*catalogue.entries, *catalogue.retired):
        if item.id in places:
            path, line = places[item.id]
            text = f"id {item.id} is already at {path}:{line}; give this one another"
            yield Fault(item.path, item.line, text)
        places.setdefault(item.id, (item.path, item.line))
    for old in catalogue.retired:
        if catalogue.current(old.id) not in catalogue.by_id:
            text = f"{old.id} → {old.successor} has no such successor; name the id of an entry"
            yield Fault(old.path, old.line, text)


def _shared(catalogue: Catalogue) -> Iterator[Fault]:
    """A root text decides for one entry, so no root text of another contains it."""
    roots = [
        (entry, Pattern(signature))
        for entry in catalogue.entries
        for signature in entry.signatures
        if signature.role == "root"
    ]
    texts = [pattern.literal or pattern.source.text for _, pattern in roots]
    # Line feeds keep the texts apart; most of them occur once.
    everything = "\n".join(texts)
    for (entry, pattern), text in zip(roots, texts, strict=True):
        if everything.count(text) < 2:
            continue
        others = dict.fromkeys(
            other.id
            for (other, other_pattern), other_text in zip(roots, texts, strict=True)
            if other.id != entry.id
            and (
                text in other_text
                if pattern.literal and other_pattern.literal
                else text == other_text
            )
        )
        for name in others:
            yield _fault(
                entry,
                f"signature {pattern.source.text!r} is a root text of {name} too; write (cascade) "
                "behind it in the entry that it doesn't name alone",
            )


PROBE = "scripts/probe"


def probed(catalogue: Catalogue) -> set[str] | None:
    """The ids of the entries that the probe can name. None where its parts aren't there.

    A kind of finding is a tuple of an id, WRONG or HINT, and texts. The parts are read, never run.
    """
    parts = sorted((catalogue.root / PROBE).glob("*.py"))
    if not parts:
        return None
    return {
        catalogue.current(id)
        for part in parts
        for node in ast.walk(ast.parse(part.read_text(encoding="utf-8")))
        if isinstance(node, ast.Tuple) and (id := _id_of_kind(node))
    }


def _id_of_kind(node: ast.Tuple) -> str:
    """The id of a kind of finding, `("O3", WRONG, …)`; '' for any other tuple."""
    if len(node.elts) < 2:
        return ""
    first, second = node.elts[:2]
    is_kind = isinstance(second, ast.Name) and second.id in ("WRONG", "HINT")
    if is_kind and isinstance(first, ast.Constant) and isinstance(first.value, str):
        return first.value
    return ""


def _probed(catalogue: Catalogue) -> Iterator[Fault]:
    """Exactly the entries that the probe can name have the field Seen by."""
    ids = probed(catalogue)
    if ids is None:
        return
    repair = "run rgt dev docs --write"
    for entry in catalogue.entries:
        if entry.id in ids and not entry.seen_by:
            yield _fault(entry, f"the probe can name it; {repair}, which adds '**Seen by:** probe'")
        if entry.id not in ids and entry.seen_by:
            text = f"Seen by names the probe, and {PROBE} doesn't name it; {repair}"
            yield _fault(entry, text)
    for id in sorted(ids - {*catalogue.by_id}):
        yield Fault(PROBE, 1, f"entry {id} doesn't exist; name one that does")


def _fault(entry: Entry, text: str) -> Fault:
    return Fault(entry.path, entry.line, f"{entry.id}: {text}")


def check_references(entry: Entry, catalogue: Catalogue, today: date) -> Iterator[Fault]:
    """Every id that an entry names belongs to another entry."""
    named = [*_REFERENCE.findall(entry.markdown), *(other for other, _ in entry.tell_apart)]
    for other in dict.fromkeys(named):
        if catalogue.current(other) not in catalogue.by_id:
            yield _fault(entry, f"entry {other} doesn't exist; name one that does")
    if entry.id in named:
        yield _fault(entry, "it refers to itself; name another entry")


def check_links(entry: Entry, catalogue: Catalogue, today: date) -> Iterator[Fault]:
    """Links lead to files of the bundle or to the web, and Sources can be opened again."""
    for target in _LINK.findall(entry.markdown):
        if target.startswith(("https://", "http://", "#")):
            continue
        page = catalogue.root / entry.path
        if not (page.parent / target.split("#")[0]).exists():
            yield _fault(
                entry,
                f"the link to {target!r} is broken; "
                "link to a file of the bundle or to a web address",
            )
    if not any("http" in source or "release notes" in source for source in entry.sources):
        yield _fault(
            entry, f"Sources {entry.sources!r} has no address; add one that can be opened again"
        )


def check_signatures(entry: Entry, catalogue: Catalogue, today: date) -> Iterator[Fault]:
    """Signatures are distinct, specific, valid and fast."""
    seen = set()
    for signature in entry.signatures:
        text = signature.text
        if text in seen:
            yield _fault(entry, f"signature {text!r} is there twice; keep one")
        seen.add(text)
        wrong = _useless(signature)
        if wrong:
            yield _fault(entry, wrong)
            continue
        pattern = Pattern(signature)
        echo = next(filter(pattern.matches, ECHOES.splitlines()), None)
        if echo and signature.role == "root":
            yield _fault(
                entry,
                f"signature {text!r} matches {echo[:60]!r}, which is printed whatever failed; "
                "write (cascade) or (advice) behind it",
            )
        hit = next((line for line in ORDINARY_LOG.splitlines() if pattern.matches(line)), None)
        if hit:
            yield _fault(
                entry,
                f"signature {text!r} matches the ordinary line {hit[:60]!r}; "
                "give a text that only this failure prints",
            )
        started = time.process_time()
        for strain in _STRAIN:
            pattern.matches(strain)
        if time.process_time() - started > SLOW_SECONDS:
            yield _fault(
                entry,
                f"signature {text!r} takes over {SLOW_SECONDS} s on a long line; "
                "avoid repeats inside repeats",
            )


def _useless(signature: Signature) -> str:
    """Why a signature can't be used, or ''."""
    text = signature.text
    if not signature.is_regex and len(text) < MIN_SIGNATURE:
        return f"signature {text!r} is too short; give {MIN_SIGNATURE} characters or more"
    try:
        empty = Pattern(signature).matches("")
    except re.error as error:
        return f"signature /{text}/ doesn't compile ({error}); correct the regular expression"
    slow = stalls(text) if signature.is_regex else ""
    if slow:
        return f"signature /{text}/ has {slow}; write one that can't stall"
    return f"signature {text!r} matches an empty line; give a text" if empty else ""


def stalls(pattern: str) -> str:
    """What could make a regular expression backtrack for ever, or ''.

    It is strict: it refuses a few harmless ones as well.
    """
    tree = _parser.parse(pattern)
    trouble = _trouble_in(tree, inside_repeat=False)
    if trouble:
        return trouble
    return "more than two unbounded repeats" if _unbounded_repeats(tree) > 2 else ""


def _trouble_in(tree: Any, inside_repeat: bool) -> str:
    """A repeat inside a repeat, or a reference to a group, in a parsed expression; or ''."""
    for operator, value in tree:
        if str(operator) in _REPEATS:
            low, high, inner = value
            if high != low and inside_repeat:
                return "a repeat inside a repeat"
            inside = inside_repeat or high > 1
            if trouble := _trouble_in(inner, inside):
                return trouble
            continue
        if str(operator).startswith("GROUPREF"):
            return "a reference to a group"
        for inner in _inner(str(operator), value):
            if trouble := _trouble_in(inner, inside_repeat):
                return trouble
    return ""


def _unbounded_repeats(tree: Any) -> int:
    """How many unlimited repeats an expression has. Digits don't count: numbers are short."""
    count = 0
    for operator, value in tree:
        if str(operator) in _REPEATS:
            low, high, inner = value
            count += high >= 1000 and high != low and "CATEGORY_DIGIT" not in str(inner)
            count += _unbounded_repeats(inner)
        else:
            count += sum(map(_unbounded_repeats, _inner(str(operator), value)))
    return count


_REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")


def _inner(operator: str, value: Any) -> list:
    """The parsed expressions within a part of one that isn't a repeat."""
    if operator == "BRANCH":
        return value[1]
    if operator == "SUBPATTERN":
        return [value[3]]
    return [value[1]] if operator in ("ASSERT", "ASSERT_NOT") else []


def check_lengths(entry: Entry, catalogue: Catalogue, today: date) -> Iterator[Fault]:
    """Title, symptom, root cause, Retry and the texts of an answer have at most so many words."""
    for name, limit in MAX_WORDS.items():
        words = len(getattr(entry, name).split())
        if words > limit:
            yield _fault(entry, f"{name.replace('_', ' ')} has {words} words; keep to {limit}")
    answer = sum(
        len(text.split("\n\n")[0].split()) for text in (entry.root_cause, entry.fix, entry.check)
    )
    if answer > ANSWER_WORDS:
        yield _fault(
            entry,
            f"root cause and the first paragraphs of fix and check have {answer} words together; "
            f"keep to {ANSWER_WORDS}",
        )
    words = len(entry.retry.split())
    if words > RETRY_WORDS:
        yield _fault(entry, f"Retry has {words} words; keep to {RETRY_WORDS}")
    words = len(entry.title.split())
    if not 5 <= words <= 18:
        yield _fault(entry, f"the title has {words} words; say in 5 to 18 words what the user sees")


def check_dates(entry: Entry, catalogue: Catalogue, today: date) -> Iterator[Fault]:
    """The date under Verified isn't before the catalogue began, and isn't in the future."""
    # One day more, for authors in time zones ahead of this one.
    if not date(2026, 1, 1) <= entry.verified <= today + timedelta(days=1):
        yield _fault(
            entry, f"Verified is {entry.verified}; write a date from 2026-01-01 to {today}"
        )


def check_ranges(entry: Entry, catalogue: Catalogue, today: date) -> Iterator[Fault]:
    """The field Applies to has only names with version ranges, platforms and GPUs."""
    for item in entry.applies_to:
        if not _REQUIREMENT.fullmatch(item):
            yield _fault(
                entry,
                f"can't read {item!r} in Applies to; "
                "write NAME with a version range, platform:NAME or gpu:TEXT",
            )


def check_reports(entry: Entry, catalogue: Catalogue, today: date) -> Iterator[Fault]:
    """The field Reported as has at least `MIN_REPORTS` items."""
    if len(entry.reported_as) < MIN_REPORTS:
        yield _fault(
            entry,
            f"Reported as has {len(entry.reported_as)} items; give at least {MIN_REPORTS}",
        )

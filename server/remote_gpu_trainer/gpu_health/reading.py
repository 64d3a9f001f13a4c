"""Read the reply of scripts/gpu_health.py into a verdict. Pure.

Nothing in a reply is trusted: types are checked, texts are cut, cleaned and masked. A verdict is
never better than its findings, its exit code and its list of GPUs allow. A reply that contradicts
itself is `unknown`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace

from ..numbers import finite
from ..text.masking import shown, shown_lines
from .box_check.findings import renters_step
from .box_check.report import card_lines

LEVELS = ("fatal", "degraded", "unknown", "warn")
WORST = ("unfit", "care", "unknown", "fit")
CODES = {"fit": 0, "care": 1, "unfit": 1, "unknown": 2}
MOST_FINDINGS, MOST_KINDS, MOST_GPUS, MOST_LISTED = 24, 8, 64, 1000
_ENTRY = re.compile(r"[A-Z][A-Z0-9]{0,9}\Z|(?=)\Z")
_HAND_BACK = re.compile(r"hand (?:the box|it) back(?: and ask for a refund)?")
_LABEL = re.compile(r"[0-9A-Za-z:. _-]{1,40}\Z")
_ABOUT_A_GPU = {
    "name": str,
    "memory_mib": int,
    "nvlinks": int,
    "bf16": bool,
    "fp8": bool,
    "p2p": str,
    "mig": list,
}


@dataclass
class Health:
    """What is known about a box.

    Each of `findings`, worst first, has `gpu` (a number, a label, or None for the whole box),
    `level`, `evidence`, `threshold`, `action` and `entry` (an id or ""). `gpus` has an item for
    each kind of card, `left_out` the number of further findings by level. `partial` says which part
    of the question was left out, and how to get it. `why` is set if the box gave no answer.
    `is_rented`: whether somebody may hand it back.
    """

    verdict: str
    box: str
    findings: list[dict] = field(default_factory=list)
    gpus: list[dict] = field(default_factory=list)
    probe_seconds: float | None = None
    driver: str = ""
    about: list[str] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=dict)
    stress: dict | None = None
    network: list | None = None
    partial: str = ""
    why: str = ""
    is_rented: bool = True

    def as_dict(self) -> dict:
        """Return the answer as JSON takes it, without optional fields that are empty."""
        out = {
            "verdict": self.verdict,
            "findings": self.findings,
            "gpus": self.gpus,
            "probe_seconds": self.probe_seconds,
        }
        more = {
            name: getattr(self, name)
            for name in (
                "box",
                "driver",
                "about",
                "left_out",
                "stress",
                "network",
                "partial",
                "why",
            )
        }
        more["about"] = [self.renter, *self.about] if self.renter else self.about
        return out | {name: value for name, value in more.items() if value}

    @property
    def renter(self) -> str:
        """Say in one line what a renter does with a box that needs care, "" for any other."""
        return renters_step(self.findings) if self.verdict == "care" and self.is_rented else ""

    @property
    def code(self) -> int:
        """Return the exit code: 0 fit, 1 care or unfit, 2 unknown."""
        return CODES[self.verdict]

    def add(self, level: str, evidence: str, threshold: str, action: str) -> None:
        """Add a finding about the whole box. It can make the verdict worse."""
        self.findings.append(
            {
                "gpu": None,
                "level": level,
                "evidence": evidence,
                "threshold": threshold,
                "action": action,
                "entry": "",
            }
        )
        self.findings.sort(key=lambda finding: LEVELS.index(finding["level"]))
        self.verdict = worst(self.verdict, verdict_of(self.findings))


def worst(*verdicts: str) -> str:
    """Return the worst of these verdicts, in the order of WORST."""
    return min(verdicts, key=WORST.index)


def verdict_of(findings: list[dict]) -> str:
    """Return the verdict of findings, as scripts/gpu_health.py does: warnings leave a box fit."""
    levels = {finding["level"] for finding in findings}
    for level, verdict in (("fatal", "unfit"), ("degraded", "care"), ("unknown", "unknown")):
        if level in levels:
            return verdict
    return "fit"


def without_answer(
    name: str, evidence: str, action: str = "", why: str = "", threshold: str = "an answer"
) -> Health:
    """Return the answer for a box that gave none: `unknown`, with one finding.

    `why` is a short code for programs.
    """
    health = Health("unknown", name, why=why)
    health.add("unknown", evidence, threshold, action or "try again")
    return health


def read_reply(
    name: str, reply: bytes, code: int | None, cut: bool = False, errors: str = ""
) -> Health:
    """Read the script's standard output. `cut`: it was too long, and its end is missing."""
    text = reply.decode("utf-8", "replace")
    try:
        answer = json.loads(
            text[text.index("{") : text.rindex("}") + 1], parse_constant=lambda _: None
        )
        if not isinstance(answer, dict) or cut:
            raise ValueError
        return _health(name, answer, code)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        return _unreadable(name, text, code, cut, errors)


def _unreadable(name: str, text: str, code: int | None, cut: bool, errors: str) -> Health:
    if cut:
        evidence = f"a reply over 4 MB from {name}"
        threshold = "one JSON object"
        action = "check which programs run there as python3 and nvidia-smi"
    elif code == 127:
        evidence = f"no python3 on {name}"
        threshold, action = "3.8 or later", "install it there, or run nvidia-smi -q by hand"
    else:
        last = next(iter(shown_lines(errors or text, 1, 160)), "no message")
        evidence = f"an unreadable reply from {name} (exit {code}: {last})"
        threshold = "one JSON object from Python 3.8 or later"
        action = "run python3 --version there"
    return without_answer(name, evidence, action, "unreadable", threshold)


def _health(name: str, answer: dict, code: int | None) -> Health:
    findings = [_finding(finding) for finding in answer["findings"][:MOST_LISTED]]
    findings.sort(key=lambda finding: LEVELS.index(finding["level"]))
    gpus = [card for card in answer["gpus"][:MOST_LISTED] if isinstance(card, dict)]
    claimed = answer["verdict"] if answer["verdict"] in WORST else "unknown"
    health = Health(
        worst(claimed, verdict_of(findings)),
        name,
        findings,
        _brief(gpus),
        _number(answer.get("probe_seconds")),
    )
    health.driver = shown(answer.get("driver") or "", 40)
    listed = answer.get("recognised")
    health.about = [shown(text, 80) for text in listed[:8]] if isinstance(listed, list) else []
    stress = _plain(answer.get("stress"))
    health.stress = stress if isinstance(stress, dict) else None
    network = _plain(answer.get("network"))
    health.network = network if isinstance(network, list) else None
    doubts = []
    if health.verdict == "fit" and (code != 0 or not gpus):
        ended = "unknown" if code is None else code
        what = f"its exit code is {ended}" if gpus else "it lists no GPU"
        doubts.append(f"the reply says fit, but {what}")
    if health.verdict != verdict_of(findings):
        doubts.append(f"no finding explains the verdict {shown(answer['verdict'], 40)}")
    for doubt in doubts:
        action = "check which program runs there as python3"
        health.add("unknown", doubt, "a reply that doesn't contradict itself", action)
    for finding in findings[MOST_FINDINGS:]:
        health.left_out[finding["level"]] = health.left_out.get(finding["level"], 0) + 1
    del health.findings[MOST_FINDINGS:]
    return health


def _finding(raw: dict) -> dict:
    entry = raw.get("entry")
    return {
        "gpu": _label(raw.get("gpu")),
        "level": raw["level"] if raw["level"] in LEVELS else "unknown",
        "evidence": shown(raw["evidence"], 300),
        "threshold": shown(raw["threshold"], 200),
        "action": shown(raw["action"], 240),
        "entry": entry if isinstance(entry, str) and _ENTRY.match(entry) else "",
    }


def _brief(gpus: list[dict]) -> list[dict]:
    """Return an item for each kind of card. `gpu` lists its cards."""
    kinds: list[tuple[dict, list]] = []  # what is known about a kind, the labels of its cards
    for card in gpus:
        kind = _kind_of_card(card)
        labels = next((labels for other, labels in kinds if other == kind), None)
        if labels is None and len(kinds) < MOST_KINDS:
            labels = []
            kinds.append((kind, labels))
        if labels is not None:
            named = card.get("gpu")
            named = named if isinstance(named, list) else [named]
            labels += [_label(label) for label in named[: MOST_GPUS - len(labels)]]
    return [{"gpu": labels, **kind} for kind, labels in kinds]


def _kind_of_card(card: dict) -> dict:
    """Return the fields that cards of one kind share, without values of a wrong type."""
    kind: dict = {
        name: _plain(card[name])
        for name, sort in _ABOUT_A_GPU.items()
        if type(card.get(name)) is sort
    }
    if "mig" in kind:
        kind["mig"] = [name for name in kind["mig"] if isinstance(name, str)]
    return kind


def _label(value):
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**6:
        return value
    return value if isinstance(value, str) and _LABEL.match(value) else None


def _number(value) -> float | None:
    number = finite(value)
    return None if number is None else round(number, 3)


def _reached(row: dict) -> str:
    """What `--network` measured of one place."""
    place = row.get("place")
    if error := row.get("error"):
        return f"network: {place}: {error}"
    numbers = f"{row.get('mb')} MB in {row.get('seconds')} s, {row.get('mb_s')} MB/s"
    return f"network: {place}: {numbers} ({row.get('address')})"


def _plain(value, depth: int = 0):
    """Return a value as short lists and objects of numbers and short texts; None for the rest."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, (int, float)):
        return value if finite(value) is not None else None
    if isinstance(value, str):
        return shown(value, 80)
    if depth < 3 and isinstance(value, list):
        return [_plain(item, depth + 1) for item in value[:MOST_GPUS]]
    if depth < 3 and isinstance(value, dict):
        return {shown(key, 40): _plain(item, depth + 1) for key, item in list(value.items())[:20]}
    return None


def of_own_machine(health: Health) -> Health:
    """Return the answer for a machine that nobody rents out, so that nobody can hand it back."""
    findings = [
        {**finding, "action": _HAND_BACK.sub("have the machine repaired", finding["action"])}
        for finding in health.findings
    ]
    return replace(health, findings=findings, is_rented=False)


def as_text(health: Health, by_card: bool = False) -> str:
    """Return the answer: verdict, findings worst first, a line a kind of card.

    With `by_card`, for a terminal, a line a card follows the verdict.
    """
    out = [f"{health.verdict}: {health.box}", *([health.renter] if health.renter else [])]
    if by_card:
        out += card_lines(health.gpus, health.findings)
    for finding in health.findings:
        where = "box" if finding["gpu"] is None else f"GPU {finding['gpu']}"
        out.append(f"{finding['level']} {where}: {finding['evidence']}")
        out.append(f"    expected: {finding['threshold']}")
        out.append(
            f"    do: {finding['action']}" + (f" [{finding['entry']}]" if finding["entry"] else "")
        )
    out += [f"and {count} more of level {level}" for level, count in health.left_out.items()]
    for kind in health.gpus if not by_card else []:
        numbers = ", ".join(map(str, kind["gpu"]))
        memory = f"{kind.get('memory_mib', '?')} MiB"
        out.append(f"{len(kind['gpu'])} x {kind.get('name', 'GPU')}, {memory} (GPU {numbers})")
    about = [f"driver {health.driver}"] if health.driver else []
    about += health.about
    about += [f"{health.probe_seconds:.1f} s"] if health.probe_seconds is not None else []
    out += [", ".join(about)] if about else []
    out += [f"stress: {json.dumps(health.stress)}"] if health.stress else []
    out += [_reached(row) for row in health.network or [] if isinstance(row, dict)]
    out += [f"partial: {health.partial}"] if health.partial else []
    return "\n".join(out)

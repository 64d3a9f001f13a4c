"""Read the report that the probe writes about the first steps of a run.

A report is a file of JSON: a verdict, findings that each name an entry, and what was observed. It
may come from any machine, so types are checked, and texts masked and cut. Standard library, Python
3.8.
"""

from __future__ import annotations

import json
import os
import stat
from dataclasses import dataclass, replace

from ..numbers.rows import Row
from ..text.masking import shown
from .evidence import Evidence, Probed
from .files import KEY_NAME

VERDICTS = ("wrong", "suspicious", "sound", "not looked at")
HEAD = 1 << 12  # bytes within which a report says its verdict
MOST_BYTES = 4 << 20  # of a report
MOST_FINDINGS = 64  # of a report, and of all in a folder
MOST_FACTS = 3  # of a report that are told in words
MOST_NAMES = 20_000  # files of a folder that are looked at
MOST_SENTENCES = 3  # reports of a folder whose verdicts are told


@dataclass(frozen=True)
class Report:
    """What a report says: its verdict in one sentence, and what the probe saw."""

    said: str
    is_sound: bool
    probed: tuple[Probed, ...]

    def as_evidence(self) -> Evidence:
        """Return the report as all the evidence that there is."""
        seen = "sound" if self.is_sound else ""
        return Evidence([], [], [], None, (), True, self.said, seen=seen, probed=self.probed)


def parse(data: bytes, source: str) -> Report | None:
    """Return a report from its bytes, None where they are something else.

    `source` is the name of the file. Its findings bear it, masked and cut.
    """
    if data.lstrip()[:1] != b"{" or b'"observations"' not in data or b'"verdict"' not in data:
        return None
    try:
        report = json.loads(data)
    except (ValueError, RecursionError):
        return None
    verdict, findings, steps = (report.get(name) for name in ("verdict", "findings", "steps"))
    if verdict not in VERDICTS or not isinstance(findings, list):
        return None
    steps = steps if type(steps) is int and 0 <= steps < 10**9 else 0
    odd = _unlike_the_usual(report.get("facts"))
    probed = [Probed.of(finding, shown(source, 200)) for finding in findings[:MOST_FINDINGS]]
    return Report(
        " ".join([f"The probe's verdict on the first {steps} steps: {verdict}.", *odd]),
        verdict == "sound" and not odd,
        tuple(finding for finding in probed if finding is not None),
    )


def _unlike_the_usual(facts: object) -> list[str]:
    """Return a sentence for each fact that the probe calls unlike the usual, MOST_FACTS at most."""
    sentences = [
        f"Unlike the usual: {shown(fact['text'], 240)} (usual: {shown(fact['usual'], 80)})."
        for fact in (facts if isinstance(facts, list) else [])
        if isinstance(fact, dict)
        and all(isinstance(fact.get(key), str) and fact[key] for key in ("text", "usual"))
    ]
    return sentences[:MOST_FACTS]


def in_rows(rows: list[Row], source: str, path: str = "") -> Report | None:
    """Return the report in rows that begin like one.

    `path` is the file that they are from, which is read again: rows leave out parts of a large one.
    """
    data = _report_in(path) if path else b"\n".join(raw for _, raw in rows)
    return parse(data, source) if data else None


def reports_in(folder: str) -> list[Report]:
    """Return the reports in a folder and below, of at most MOST_NAMES files."""
    reports: list[Report] = []
    names_seen = 0
    for base, folders, names in os.walk(folder):
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f != "node_modules")
        for name in sorted(names):
            names_seen += 1
            if name.lower().endswith(".json") and not KEY_NAME.search(name):
                path = os.path.join(base, name)
                relative = os.path.relpath(path, folder).replace(os.sep, "/")
                report = parse(_report_in(path), relative)
                reports += [report] if report else []
        if names_seen > MOST_NAMES or len(reports) >= MOST_FINDINGS:
            break
    return reports


def with_reports(evidence: Evidence, reports: list[Report]) -> Evidence:
    """Return a folder's evidence together with the reports in it."""
    if not reports:
        return evidence
    probed = [finding for report in reports for finding in report.probed]
    verdicts = dict.fromkeys(report.said for report in reports[:MOST_SENTENCES])
    # A log without a fault isn't the whole story where the probe saw one.
    is_doubted = bool(probed) and not all(report.is_sound for report in reports)
    is_doubted = is_doubted and evidence.seen == "sound"
    return replace(
        evidence,
        left_out=" ".join(filter(None, (evidence.left_out, *verdicts))),
        seen="" if is_doubted else evidence.seen,
        probed=tuple(probed[:MOST_FINDINGS]),
    )


def _report_in(path: str) -> bytes:
    """The bytes of a regular file that begins like a report and is no larger; else none."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode) or os.path.getsize(path) > MOST_BYTES:
            return b""
        with open(path, "rb") as stream:
            head = stream.read(HEAD)
            return head + stream.read(MOST_BYTES) if b'"verdict"' in head else b""
    except (OSError, ValueError):
        return b""

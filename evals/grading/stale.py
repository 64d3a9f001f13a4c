"""The cases of the staleness check: small bundles, a question, and the ids of the answer.

A case is a line of evals/sets/staleness.jsonl: `entries` {id: fields}, `profiles` {name: {fact:
head}}, `marks` {page: text}, the question (`on`, `packages`, `released`, `scope`, `limits`), and
`expect` {list: [ids in order]} or {"error": part of its text}.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from remote_gpu_trainer.catalogue.facts import FactError
from remote_gpu_trainer.catalogue.freshness import BadQuestion, read_day
from remote_gpu_trainer.platforms import checking
from remote_gpu_trainer.platforms.installed import InstalledError

LISTS = ("stale", "out_of_range", "concerns", "doubt", "contradictions")
_ENTRY = """### {id} — a title of five words or more

**Symptom:** Something is seen.

**Check:** Look.

**Fix:** Change it.

**Root cause:** {cause}

**Reported as:** a · b · c · 四 · 五
{applies}
**Domain:** code

**Retry:** pointless

**Severity:** blocks

**Verified:** {verified}

**Sources:** {source}

"""


def run(path: Path) -> tuple[int, list[str]]:
    """(how many cases, what each wrong one gave)."""
    wrong = []
    cases = [
        json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()
    ]
    for case in cases:
        found = answer(case)
        if found != case["expect"]:
            wrong.append(
                f"{case['id']}: found {json.dumps(found, ensure_ascii=False)}, "
                f"expected {json.dumps(case['expect'], ensure_ascii=False)}"
            )
    return len(cases), wrong


def answer(case: dict) -> dict:
    """The ids of every list that isn't empty, or {"error": the expected part of it, or all}."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        _write(root, case)
        try:
            report = checking.check(
                read_day(case["on"]),
                packages=case.get("packages"),
                released=case.get("released"),
                scope=case.get("scope"),
                limits=case.get("limits"),
                root=root,
            )
        except (BadQuestion, InstalledError, FactError) as error:
            wanted = case["expect"].get("error", "")
            return {"error": wanted if wanted and wanted in str(error) else str(error)}
    return {
        name: [item["id"] for item in getattr(report, name)]
        for name in LISTS
        if getattr(report, name)
    }


def _write(root: Path, case: dict) -> None:
    (root / "references").mkdir()
    (root / "profiles").mkdir()
    pages: dict[str, str] = {}
    for name, fields in case.get("entries", {}).items():
        applies = f"\n**Applies to:** {fields['applies']}\n" if "applies" in fields else ""
        text = _ENTRY.format(
            id=name,
            applies=applies,
            verified=fields["verified"],
            source=fields.get("source", "https://example.org/a"),
            cause=fields.get("cause", "It is so."),
        )
        place = fields.get("page", "references/a.md")
        pages[place] = pages.get(place, "") + text
    for name, heads in case.get("profiles", {}).items():
        facts = "".join(
            f"  {fact}:\n" + "".join(f"    {key}: {value}\n" for key, value in head.items())
            for fact, head in heads.items()
        )
        tokens = (
            f"tokens: {json.dumps(case['tokens'][name])}\n"
            if name in case.get("tokens", {})
            else ""
        )
        pages[f"profiles/{name}.md"] = (
            f"---\nname: {name}\n{tokens}facts:\n{facts}---\n# {name}\n\n"
            + pages.get(f"profiles/{name}.md", "")
        )
    for place, text in case.get("marks", {}).items():
        pages[place] = pages.get(place, "# A page\n") + text
    for place, text in pages.items():
        (root / place).write_text(text, encoding="utf-8")

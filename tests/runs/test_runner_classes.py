"""The runner's classes of failure and the catalogue say the same: where the cause lies, and whether to try again."""

import re
import subprocess

import pytest
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.catalogue.entry import DOMAINS
from remote_gpu_trainer.runs import script_parts

TABLES = ("core/settings.sh", "core/failure_names.sh", "gpus/failures.sh", "boxes/failure_names.sh")
VERDICT = re.compile(r"rgt_verdict (\S+) ([\w'\"$-]+)")
# What the variables of those calls hold.
HELD = {"name": ("preempted", "deadline"), "rgt_sign": ("kernel", "driver", "gpu")}


def tables() -> tuple[dict[str, set[str]], dict[str, int]]:
    """{name of a failure: entries, of any platform} and {class: retries}, as bash has them."""
    parts = "".join(f". {script_parts.TEMPLATES / name}\n" for name in TABLES)
    script = f'set -u\n{parts}printf "%s\\n" "${{rgt_entries[@]}}" -- "${{rgt_retry_defaults[@]}}"'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    named, retried = done.stdout.split("--\n")
    entries: dict[str, set[str]] = {}
    for line in named.splitlines():
        name, _, entry = line.split()
        entries.setdefault(name, set()).add(entry)
    return entries, {k: int(v) for k, v in (line.split("=") for line in retried.splitlines())}


def verdicts() -> set[tuple[str, str]]:
    """(class, name of the failure) of every end that the runner can tell."""
    found = set()
    for path in script_parts.TEMPLATES.rglob("*.sh"):
        for pair in VERDICT.findall(path.read_text(encoding="utf-8")):
            words = [word.strip("'\"") for word in pair]
            held = [HELD.get(word[1:], ()) if word[:1] == "$" else (word,) for word in words]
            found |= {(kind, name) for kind in held[0] for name in held[1]}
    return found


def contradictions(pairs, entries, retried, retries: dict[str, str]) -> list[str]:
    """Where a class is tried again although an entry calls that pointless, or the reverse."""
    wrong = []
    for kind, name in sorted(pairs):
        for entry in sorted(entries.get(name, ())):
            again = retried.get(kind, 0)
            if again and retries[entry] == "pointless":
                wrong.append(f"{kind} is tried {again} times, {entry} calls that pointless")
            if not again and kind != "deadline" and retries[entry] == "may help":
                wrong.append(f"{kind} is not tried again, which may help by {entry}")
    return wrong


ENTRIES, RETRIED = tables()


@pytest.mark.parametrize("entry", sorted(set().union(*ENTRIES.values())))
def test_an_entry_that_a_failure_names_says_where_the_cause_lies_and_whether_to_retry(entry):
    found = bundle.load().get(entry)
    assert found.domain in DOMAINS
    assert found.retry


def test_no_class_is_retried_against_what_its_entry_says():
    retries = {name: bundle.load().get(name).retry for names in ENTRIES.values() for name in names}
    pairs = verdicts()
    assert {kind for kind, _ in pairs} >= set(RETRIED) - {"bug", "unknown"}
    assert {name for _, name in pairs if name in ENTRIES} >= {
        "disk",
        "stall",
        "hang",
        "port",
        "oom",
    }
    assert contradictions(pairs, ENTRIES, RETRIED, retries) == []


def test_a_contradiction_would_be_found():
    told = {"A1": "pointless", "A2": "may help", "A3": "helps after a while"}
    entries = {"hang": {"A1", "A3"}, "disk": {"A2", "A3"}}
    found = contradictions(
        {("hang", "hang"), ("disk", "disk")}, entries, {"hang": 2, "disk": 0}, told
    )
    assert found == [
        "disk is not tried again, which may help by A2",
        "hang is tried 2 times, A1 calls that pointless",
    ]


def test_every_preflight_refusal_with_a_name_has_an_entry():
    """A name that is in no table would refuse without a word on what to do."""
    text = "".join(path.read_text() for path in script_parts.TEMPLATES.rglob("*.sh"))
    names = set(re.findall(r"rgt_refuse ([a-z][a-z-]*) ", text))
    assert {"disk", "clock", "no-gpu"} <= names <= set(ENTRIES)

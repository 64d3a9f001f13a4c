#!/usr/bin/env python3
"""A hook for coding agents: one JSON object on standard input, at most one JSON object on standard output. Python 3.8, nothing to install.

After a tool: when its result shows a training failure, one line suggests the look-up. Before a tool: when its command deletes or ends a box
or a disk, the release check is shown and the user is asked. Anything else, unreadable input included: silence and exit 0, because a hook that
fails gets in the way of the work. What a result or a command holds is data: it is searched, never repeated.

Limits: the first and the last 100,000 characters of a result are searched; a deletion in a program, an alias or a console isn't seen.
"""

import json
import re
import sys

MOST_INPUT = 64 << 20
EACH_END = 100_000
MOST_COMMAND = 20_000
LOGS = (".log", ".out", ".err", ".txt", ".jsonl")

# Each with a line that it is for. The first that is found gives the name.
FAILURES = (
    # torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
    ("ChildFailedError: one rank of a distributed run failed", re.compile(r"\bChildFailedError\b")),
    # NVRM: Xid (PCI:0000:5e:00): 79, pid=1234, GPU has fallen off the bus.
    ("an Xid: the driver reports a GPU fault", re.compile(r"\bXid\s*\(PCI|\bNVRM:\s*Xid\b|\bXid:?\s+(?:error\s+)?\d{1,3}\b")),
    # [rank1]:[E ProcessGroupNCCL.cpp:632] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5, ...
    # A program that sets timeout=... is none.
    ("an NCCL time-out", re.compile(r"Watchdog caught collective operation timeout|\bTimeout at NCCL work\b|\bNCCL\b(?! INFO)[^\n]{0,200}\b(?:timeout\b(?!\s*=)|timed out\b|time-out\b)", re.I)),
    # torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
    ("out of memory on the GPU", re.compile(r"\b(?:CUDA(?: error:)?|HIP(?: error:)?|MPS backend|XPU) out of memory\b|\bOutOfMemoryError\b|\bCUDA_ERROR_OUT_OF_MEMORY\b")),
    # Out of memory: Killed process 4242 (python) total-vm:...
    ("out of memory on the host", re.compile(r"\b[Oo]ut of memory: Kill(?:ed)? process|\boom[-_]kill|\bOOMKilled\b|DefaultCPUAllocator: (?:can't|not enough)|\bunable to mmap\b[^\n]{0,80}Cannot allocate memory")),
    # run.sh: line 3: 4242 Killed                  python train.py
    ("a process was killed", re.compile(r"(?m)^(?:\S{1,200}: line \d+:\s+\d+ Killed\b|\[\d+\][\s+-]{1,8}(?:\d+ )?[Kk]illed\b|zsh: killed\b|Killed[ \t\r]*$)|\bkilled by signal: Killed\b|\bterminated by signal 9\b|\b(?:exit code|exitcode|exited with|status)\s*:?\s*(?:137|-9)\b|\bSIGKILL\b")),
)  # fmt: skip
TRACEBACK = re.compile(r"Traceback \(most recent call last\):")
LAST_LINE = re.compile(
    r"(?m)^(?:\[?(?:rank|default)?\d*\]?:?\s*)((?:[A-Za-z_]\w*\.)*[A-Z]\w*)(?::|$)"
)
EXPLAINED = frozenset(
    [
        "SyntaxError",
        "IndentationError",
        "TabError",
        "NameError",
        "ModuleNotFoundError",
        "ImportError",
        "FileNotFoundError",
        "KeyboardInterrupt",
        "SystemExit",
        "PermissionError",
    ]
)
TRAINING = re.compile(
    r"torch|cuda|nccl|\bgpu|train|\brank\b|epoch|\bloss\b|deepspeed|accelerate|transformers|lightning|tensor|checkpoint|dataloader|finetun",
    re.I,
)
OURS = re.compile(r"\bremote[-_]gpu[-_]trainer\b|\blookup_symptom\b")

CONTINUED = re.compile(r"\\\r?\n")
START = r"(?:^|[\s;&|(`\"'/])"
DELETIONS = tuple(
    re.compile(START + pattern, re.I)
    for pattern in (
        r"(?:vastai|vast\.py)\s(?:[^|;&\n]{0,200}\s)?(?:destroy|delete)\s+(?:instances?|volume)",
        r"runpodctl\s+(?:(?:remove|delete)\s+(?:pods?|network-volume)|(?:pods?|network-volume)\s+(?:remove|delete|rm|terminate))",
        r"aws\s[^|;&\n]{0,400}\b(?:terminate-instances|delete-volume|delete-auto-scaling-group|cancel-spot-fleet-requests[^|;&\n]{0,400}--terminate)",
        r"gcloud\s[^|;&\n]{0,400}\b(?:instances|disks|tpu-vm|instance-groups\s+managed)\s+delete\b",
        r"gcloud\s[^|;&\n]{0,400}\bstop\b[^|;&\n]{0,400}--discard-local-ssd\b(?!=false)",
        r"az\s+(?:-{1,2}[\w-]+(?:[=\s]\S+)?\s+){0,4}(?:vm|disk|vmss|group)\s+delete\b",
        r"nebius\s[^|;&\n]{0,400}\b(?:instance|disk|filesystem)\s+delete\b",
        r"(?:pspace|paperspace)\s[^|;&\n]{0,400}\b(?:delete|destroy)\b",
        r"modal\s+(?:(?:app|container)\s+stop|volume\s+(?:delete|rm))\b",
        r"featurize\s+instance\s+release\b",
        r"matncli\s+node\s+cancel\b",
        r"colab\s+stop\b",
        r"kaggle\s+(?:kernels|datasets)\s+delete\b",
        r"sky\s+(?:down|jobs\s+cancel|(?:storage|volumes)\s+delete)\b",
        r"dstack\s+(?:delete|fleet\s+delete|volume\s+delete)\b",
        r"kubectl\s[^|;&\n]{0,400}\bdelete\s+(?:-{1,2}[\w-]+(?:[=\s]\S+)?\s+){0,4}"
        r"(?:-[fk]\b|--filename\b|\w*jobs?\b|jobsets?\b|rayclusters?\b|deploy(?:ments?)?\b|statefulsets?\b|sts\b|pods?\b|po\b|pvc\b|persistentvolumeclaims?\b|namespaces?\b|ns\b|nodes?\b)",
        r"(?:terraform|tofu)\s[^|;&\n]{0,400}\bdestroy\b",
        r"doctl\s+compute\s+(?:droplet|volume)\s+delete\b",
        r"curl\s[^|;\n]{0,600}(?:instance-operations/terminate|podTerminate|/pro/release)",
        r"(?:curl|wget)\s(?=[^|;\n]{0,600}(?:-X|--request|--method)[\s=]*[\"']?DELETE\b)[^|;\n]{0,600}/(?:pods?|instances?|machines?|volumes?|networkvolumes|filesystems|file-systems|disks?|droplets)\b",
    )
)

LOOK_UP = (
    "This result shows {what}. Before you edit code or start again, call lookup_symptom with the error text or the log's path "
    "(or run: remote-gpu-trainer lookup --log FILE); it may answer that nothing fits."
)
RELEASE = (
    "This command deletes or ends a box, its disk or its data. First the release check: the run has ended; results are copied off, and one was opened on the other side "
    "(remote-gpu-trainer release BOX --profile NAME pulls, compares and loads them, and tells what is still billed); logs are kept; the user said yes."
)


def main():
    try:
        event = json.loads(sys.stdin.buffer.read(MOST_INPUT).decode("utf-8", "replace"))
        answer = answer_to(event)
    except (ValueError, RecursionError):
        return 0
    if answer:
        print(json.dumps(answer))
    return 0


def answer_to(event):
    """The answer to one hook event as an object; None where there is nothing to say."""
    if not isinstance(event, dict):
        return None
    kind, given = event.get("hook_event_name"), event.get("tool_input")
    given = given if isinstance(given, dict) else {}
    command = given.get("command") if isinstance(given.get("command"), str) else ""
    if kind == "PreToolUse":
        if not deletes(command):
            return None
        return {
            "hookSpecificOutput": {
                "hookEventName": kind,
                "permissionDecision": "ask",
                "permissionDecisionReason": RELEASE,
                "additionalContext": RELEASE,
            }
        }
    if kind not in ("PostToolUse", "PostToolUseFailure"):
        return None
    if event.get("tool_name") == "Read" and not str(given.get("file_path", "")).lower().endswith(
        LOGS
    ):
        return None  # source code and documents quote errors
    what = failure(
        both_ends(text_of(event.get("tool_response", event.get("error")))),
        command or str(given.get("file_path", "")),
    )
    return (
        {
            "hookSpecificOutput": {
                "hookEventName": kind,
                "additionalContext": LOOK_UP.format(what=what),
            }
        }
        if what
        else None
    )


def text_of(value, depth=0):
    """All text in a tool's result, whatever its shape."""
    if isinstance(value, str):
        return value
    if depth > 6 or not isinstance(value, (dict, list)):
        return ""
    return "\n".join(
        text_of(item, depth + 1) for item in (value.values() if isinstance(value, dict) else value)
    )


def both_ends(text):
    return text if len(text) <= 2 * EACH_END else text[:EACH_END] + "\n" + text[-EACH_END:]


def failure(text, command):
    """What the text shows, in words of our own; None when it is no training failure, or a look-up ran already."""
    if not text or OURS.search(command):
        return None
    for name, pattern in FAILURES:
        if pattern.search(text):
            return name
    found = None
    for found in TRACEBACK.finditer(text):
        pass
    if not found or not TRAINING.search(text + command):
        return None
    raised = LAST_LINE.search(text, found.end())
    if raised and raised[1].rsplit(".", 1)[-1] in EXPLAINED:
        return None
    return "a traceback"


def deletes(command):
    command = CONTINUED.sub(" ", command[:MOST_COMMAND])
    return any(pattern.search(command) for pattern in DELETIONS)


if __name__ == "__main__":
    sys.exit(main())

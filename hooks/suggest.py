#!/usr/bin/env python3
"""A hook for coding agents: reads a JSON object and prints at most one. Python 3.8, no packages.

After a tool: a result that shows a training failure gets one line that suggests the look-up. Before
a tool: a command that deletes or ends a box or a disk gets the release check, and the user decides.
Anything else, unreadable input included, gets silence and exit 0, because a hook that fails gets in
the way of the work. Results and commands are data: searched, never repeated.

Limits: it searches the first and the last 100,000 characters of a result. It doesn't see a deletion
in a program, an alias or a console.
"""

import json
import re
import sys

MOST_INPUT = 64 << 20
EACH_END = 100_000
MOST_COMMAND = 20_000
LOGS = (".log", ".out", ".err", ".txt", ".jsonl")

# (what the result shows, its pattern), each below a line that it is for. The first match counts.
FAILURES = (
    # torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
    ("ChildFailedError: one rank of a distributed run failed", re.compile(r"\bChildFailedError\b")),
    # NVRM: Xid (PCI:0000:5e:00): 79, pid=1234, GPU has fallen off the bus.
    (
        "an Xid: the driver reports a GPU fault",
        re.compile(r"\bXid\s*\(PCI|\bNVRM:\s*Xid\b|\bXid:?\s+(?:error\s+)?\d{1,3}\b"),
    ),
    # [rank1]:[E ProcessGroupNCCL.cpp:632] [Rank 1] Watchdog caught collective operation timeout
    # A program that sets timeout=... doesn't count.
    (
        "an NCCL time-out",
        re.compile(
            r"Watchdog caught collective operation timeout|\bTimeout at NCCL work\b"
            r"|\bNCCL\b(?! INFO)[^\n]{0,200}\b(?:timeout\b(?!\s*=)|timed out\b|time-out\b)",
            re.I,
        ),
    ),
    # torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
    (
        "out of memory on the GPU",
        re.compile(
            r"\b(?:CUDA(?: error:)?|HIP(?: error:)?|MPS backend|XPU) out of memory\b"
            r"|\bOutOfMemoryError\b|\bCUDA_ERROR_OUT_OF_MEMORY\b"
        ),
    ),
    # Out of memory: Killed process 4242 (python) total-vm:...
    (
        "out of memory on the host",
        re.compile(
            r"\b[Oo]ut of memory: Kill(?:ed)? process|\boom[-_]kill|\bOOMKilled\b"
            r"|DefaultCPUAllocator: (?:can't|not enough)"
            r"|\bunable to mmap\b[^\n]{0,80}Cannot allocate memory"
        ),
    ),
    # run.sh: line 3: 4242 Killed                  python train.py
    (
        "a process was killed",
        re.compile(
            r"(?m)^(?:\S{1,200}: line \d+:\s+\d+ Killed\b|\[\d+\][\s+-]{1,8}(?:\d+ )?[Kk]illed\b"
            r"|zsh: killed\b|Killed[ \t\r]*$)"
            r"|\bkilled by signal: Killed\b|\bterminated by signal 9\b"
            r"|\b(?:exit code|exitcode|exited with|status)\s*:?\s*(?:137|-9)\b|\bSIGKILL\b"
        ),
    ),
)
TRACEBACK = "Traceback (most recent call last):"
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
    r"torch|cuda|nccl|\bgpu|train|\brank\b|epoch|\bloss\b|deepspeed|accelerate|transformers"
    r"|lightning|tensor|checkpoint|dataloader|finetun",
    re.I,
)
OURS = re.compile(r"\bremote[-_]gpu[-_]trainer\b|\blookup_symptom\b")

CONTINUED = re.compile(r"\\\r?\n")
START = r"(?:^|[\s;&|(`\"'/])"
DELETIONS = tuple(
    re.compile(START + pattern, re.I)
    for pattern in (
        r"(?:vastai|vast\.py)\s(?:[^|;&\n]{0,200}\s)?(?:destroy|delete)\s+(?:instances?|volume)",
        r"runpodctl\s+(?:(?:remove|delete)\s+(?:pods?|network-volume)"
        r"|(?:pods?|network-volume)\s+(?:remove|delete|rm|terminate))",
        r"aws\s[^|;&\n]{0,400}\b(?:terminate-instances|delete-volume|delete-auto-scaling-group"
        r"|cancel-spot-fleet-requests[^|;&\n]{0,400}--terminate)",
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
        r"(?:-[fk]\b|--filename\b|\w*jobs?\b|jobsets?\b|rayclusters?\b|deploy(?:ments?)?\b"
        r"|statefulsets?\b|sts\b|pods?\b|po\b|pvc\b|persistentvolumeclaims?\b|namespaces?\b|ns\b"
        r"|nodes?\b)",
        r"(?:terraform|tofu)\s[^|;&\n]{0,400}\bdestroy\b",
        r"doctl\s+compute\s+(?:droplet|volume)\s+delete\b",
        r"curl\s[^|;\n]{0,600}(?:instance-operations/terminate|podTerminate|/pro/release)",
        r"(?:curl|wget)\s(?=[^|;\n]{0,600}(?:-X|--request|--method)[\s=]*[\"']?DELETE\b)"
        r"[^|;\n]{0,600}/(?:pods?|instances?|machines?|volumes?|networkvolumes|filesystems"
        r"|file-systems|disks?|droplets)\b",
    )
)

LOOK_UP = (
    "This result shows {what}. Before you edit code or start again, call lookup_symptom with the "
    "error text or the log's path (or run: remote-gpu-trainer lookup --log FILE). "
    "It may find no match."
)
RELEASE = (
    "This command deletes or ends a box, its disk or its data. Check first that the run has ended, "
    "that the results are copied off the box and one of them was opened in its new place, that "
    "the logs are kept, and that the user agrees. remote-gpu-trainer release BOX --profile NAME "
    "copies, compares and loads the results, and shows what is still billed."
)


def main():
    """Answer the event on standard input; 0 whatever happens."""
    try:
        event = json.loads(sys.stdin.buffer.read(MOST_INPUT).decode("utf-8", "replace"))
        answer = answer_to(event)
    except (ValueError, RecursionError):
        return 0
    if answer:
        print(json.dumps(answer))
    return 0


def answer_to(event):
    """The answer to a hook event as an object, or None."""
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
    file = str(given.get("file_path", ""))
    if event.get("tool_name") == "Read" and not file.lower().endswith(LOGS):
        return None  # source code and documents quote errors
    what = failure(
        both_ends(text_of(event.get("tool_response", event.get("error")))),
        command or file,
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
    """All text in a tool's result, whatever its shape, to a depth of seven."""
    if isinstance(value, str):
        return value
    if depth > 6 or not isinstance(value, (dict, list)):
        return ""
    return "\n".join(
        text_of(item, depth + 1) for item in (value.values() if isinstance(value, dict) else value)
    )


def both_ends(text):
    """The text, or of a long one the first and the last `EACH_END` characters."""
    return text if len(text) <= 2 * EACH_END else text[:EACH_END] + "\n" + text[-EACH_END:]


def failure(text, command):
    """What the text shows, in fixed words; None for no training failure, or after a look-up."""
    if not text or OURS.search(command):
        return None
    for name, pattern in FAILURES:
        if pattern.search(text):
            return name
    last = text.rfind(TRACEBACK)
    if last < 0 or not TRAINING.search(text + command):
        return None
    raised = LAST_LINE.search(text, last + len(TRACEBACK))
    if raised and raised[1].rsplit(".", 1)[-1] in EXPLAINED:
        return None
    return "a traceback"


def deletes(command):
    """Whether a shell command deletes or ends a box, a disk or a volume."""
    command = CONTINUED.sub(" ", command[:MOST_COMMAND])
    return any(pattern.search(command) for pattern in DELETIONS)


if __name__ == "__main__":
    sys.exit(main())

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

MOST_INPUT = 64 << 20  # bytes of an event
EACH_END = 100_000  # characters at each end of a result
MOST_COMMAND = 20_000  # characters of a command
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
# The exception at the end of a traceback, with a mark of torchrun or without:
# [rank1]: torch.distributed.DistBackendError: NCCL error in: ...
LAST_LINE = re.compile(
    r"(?m)^(?:\[?(?:rank|default)?\d*\]?:?\s*)((?:[A-Za-z_]\w*\.)*[A-Z]\w*)(?::|$)"
)
# The traceback itself says what to correct, so a look-up would only be in the way.
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
# A traceback of any other program isn't about training.
TRAINING = re.compile(
    r"torch|cuda|nccl|\bgpu|train|\brank\b|epoch|\bloss\b|deepspeed|accelerate|transformers"
    r"|lightning|tensor|checkpoint|dataloader|finetun",
    re.I,
)
# After a look-up the suggestion comes too late: rgt's own answers quote error texts.
OURS = re.compile(r"\bremote[-_]gpu[-_]trainer\b|\blookup_symptom\b")

CONTINUED = re.compile(r"\\\r?\n")  # a line that goes on in the next one
# Where a command's name may begin: cd x && aws ..., $(aws ...), /usr/bin/aws ...
START = r"(?:^|[\s;&|(`\"'/])"
# Each below a command that it is for. The gaps are bounded, so that no command takes long.
DELETIONS = tuple(
    re.compile(START + pattern, re.I)
    for pattern in (
        # vastai destroy instance 4242
        r"(?:vastai|vast\.py)\s(?:[^|;&\n]{0,200}\s)?(?:destroy|delete)\s+(?:instances?|volume)",
        # runpodctl remove pod abc123
        r"runpodctl\s+(?:(?:remove|delete)\s+(?:pods?|network-volume)"
        r"|(?:pods?|network-volume)\s+(?:remove|delete|rm|terminate))",
        # aws ec2 terminate-instances --instance-ids i-0abc
        r"aws\s[^|;&\n]{0,400}\b(?:terminate-instances|delete-volume|delete-auto-scaling-group"
        r"|cancel-spot-fleet-requests[^|;&\n]{0,400}--terminate)",
        # gcloud compute instances delete box --zone us-central1-a
        r"gcloud\s[^|;&\n]{0,400}\b(?:instances|disks|tpu-vm|instance-groups\s+managed)\s+delete\b",
        # gcloud compute instances stop box --discard-local-ssd=true
        r"gcloud\s[^|;&\n]{0,400}\bstop\b[^|;&\n]{0,400}--discard-local-ssd\b(?!=false)",
        # az vm delete --name box --yes
        r"az\s+(?:-{1,2}[\w-]+(?:[=\s]\S+)?\s+){0,4}(?:vm|disk|vmss|group)\s+delete\b",
        # nebius compute instance delete --id computeinstance-0abc
        r"nebius\s[^|;&\n]{0,400}\b(?:instance|disk|filesystem)\s+delete\b",
        # pspace machine delete ps0abc
        r"(?:pspace|paperspace)\s[^|;&\n]{0,400}\b(?:delete|destroy)\b",
        # modal app stop my-training
        r"modal\s+(?:(?:app|container)\s+stop|volume\s+(?:delete|rm))\b",
        # featurize instance release 0abc
        r"featurize\s+instance\s+release\b",
        # matncli node cancel 4242
        r"matncli\s+node\s+cancel\b",
        # colab stop
        r"colab\s+stop\b",
        # kaggle kernels delete me/train
        r"kaggle\s+(?:kernels|datasets)\s+delete\b",
        # sky down my-cluster
        r"sky\s+(?:down|jobs\s+cancel|(?:storage|volumes)\s+delete)\b",
        # dstack fleet delete my-fleet
        r"dstack\s+(?:delete|fleet\s+delete|volume\s+delete)\b",
        # kubectl -n train delete job sft
        r"kubectl\s[^|;&\n]{0,400}\bdelete\s+(?:-{1,2}[\w-]+(?:[=\s]\S+)?\s+){0,4}"
        r"(?:-[fk]\b|--filename\b|\w*jobs?\b|jobsets?\b|rayclusters?\b|deploy(?:ments?)?\b"
        r"|statefulsets?\b|sts\b|pods?\b|po\b|pvc\b|persistentvolumeclaims?\b|namespaces?\b|ns\b"
        r"|nodes?\b)",
        # terraform destroy -auto-approve
        r"(?:terraform|tofu)\s[^|;&\n]{0,400}\bdestroy\b",
        # doctl compute droplet delete 4242
        r"doctl\s+compute\s+(?:droplet|volume)\s+delete\b",
        # curl -X POST https://cloud.lambdalabs.com/api/v1/instance-operations/terminate
        r"curl\s[^|;\n]{0,600}(?:instance-operations/terminate|podTerminate|/pro/release)",
        # curl -X DELETE https://rest.runpod.io/v1/pods/abc123
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
    kind, arguments = event.get("hook_event_name"), event.get("tool_input")
    arguments = arguments if isinstance(arguments, dict) else {}
    command = arguments.get("command") if isinstance(arguments.get("command"), str) else ""
    if kind == "PreToolUse":
        return release_check(kind, command)
    if kind not in ("PostToolUse", "PostToolUseFailure"):
        return None
    file = str(arguments.get("file_path", ""))
    if event.get("tool_name") == "Read" and not file.lower().endswith(LOGS):
        return None  # source code and documents quote errors
    result = both_ends(text_of(event.get("tool_response", event.get("error"))))
    return suggestion(kind, result, command or file)


def release_check(kind, command):
    """The answer that shows the release check and has the user decide; None for other commands."""
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


def suggestion(kind, result, command):
    """The answer that suggests the look-up; None where the result shows no training failure."""
    what = failure(result, command)
    if not what:
        return None
    context = LOOK_UP.format(what=what)
    return {"hookSpecificOutput": {"hookEventName": kind, "additionalContext": context}}


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

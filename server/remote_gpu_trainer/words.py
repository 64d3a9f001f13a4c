"""A report to the words that ranking counts.

English words lose their endings, identifiers count whole and in parts, Chinese counts in pairs of characters,
telling numbers get a name (0.693 is the loss of a coin toss), and a short list folds what users say in many ways into
one concept. The same function reads entries, training reports and questions.
"""

from __future__ import annotations

import re
from functools import lru_cache

_TOKEN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|\d+(?:\.\d+)?|[\u4e00-\u9fff]+")
_CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_STOP = frozenset(
    "a an the of to in on at is are was were be been it its this that these those and or for with as by from i my me we our you your "
    "he she they them there here so if then than just also very can could would should will do does did have has had am im ive any some".split()
)
_NUMBERS = (
    (0.685, 0.6975, "#ln2"), (1.0975, 1.0995, "#ln3"), (1.38, 1.39, "#ln4"), (2.295, 2.31, "#ln10"), (4.59, 4.62, "#ln100"),
    (6.89, 6.92, "#ln1000"), (10.3, 10.95, "#lnvocab"),
)  # fmt: skip
_CODES = {"137": "#sigkill", "139": "#sigsegv", "134": "#sigabrt", "135": "#sigbus", "29500": "#port29500", "98": "#errno98", "1800000": "#30min", "600000": "#10min", "65504": "#fp16max", "65536": "#scale65536"}

# What people write in many ways, and the one word it counts as. Plain alternatives, no nested repeats.
CONCEPTS = tuple(
    (re.compile(pattern, re.I), name)
    for name, pattern in (
        ("@flat", r"(?:n't|not|never|no longer|barely|hardly|stops?|stopped|doesnt|isnt|dont)\s+(?:\w+\s){0,2}?(?:decreas|go(?:ing|es)? down|drop|chang|converg|learn|improv|mov|train|budg|updat)|\bflat\b|plateau|stuck (?:at|around)|stays? (?:at|the same|constant)|constant loss|same loss|不下降|不收敛|不变|降不下去|学不到|没有变化|不动|不更新"),
        ("@hang", r"\bhang|hung\b|freez|frozen|stuck\b|deadlock|stall|never (?:returns|finishes|proceeds|continues)|no (?:output|progress)|blocks? forever|waits? forever|卡住|卡死|挂起|卡在|不动了|死锁|一直等"),
        ("@oom", r"out of memory|\boom\b|爆显存|显存不足|显存溢出|内存不足|outofmemory"),
        ("@nan", r"\bnan\b|\binf\b|non-?finite|发散"),
        ("@killed", r"\bkilled\b|sigkill|exitcode\W*-9|exit code 137|被杀|signal 9"),
        ("@timeout", r"time(?:d)?[ -]?out|超时"),
        ("@slow", r"\bslow|\d+x slower|takes? (?:much )?longer|很慢|变慢|太慢"),
        ("@multi", r"multi[- ]?gpu|two gpus|\b[2-9]\d* ?(?:x )?gpus|several gpus|\bddp\b|多卡|双卡|多gpu|\d卡|分布式|multi-?process"),
        ("@single", r"single[- ]gpu|one gpu|1 gpu|单卡|单gpu|without ddp"),
        ("@node", r"multi[- ]?node|two (?:nodes|machines|servers)|second (?:node|machine|box)|\b[2-9] nodes|多机|多节点|两台|跨机"),
        ("@resume", r"resum|restart|reload|断点|续训|恢复训练|重新加载"),
        ("@save", r"\bsav(?:e|ing)\b|checkpoint|保存|存模型"),
        ("@eval", r"\beval|validat|inference|test time|验证|测试|推理"),
        ("@frozen", r"freez(?:e|ing) (?:the )?(?:backbone|encoder|layers?|weights|params|base|bert|bn)|frozen|requires_grad\s?=\s?false|冻结"),
        ("@random", r"chance level|random guess|\b50 ?%|accuracy (?:is |stays |stuck )+(?:at )?(?:0?\.5|10)|随机|瞎猜"),
        ("@dup", r"(?:printed|logged|runs?|shows? up) (?:\w+ ){0,2}(?:times|twice)|duplicate|[2-9] times|每个进程都|重复|多次打印"),
    )
)  # fmt: skip


@lru_cache(maxsize=20000)
def stem(word: str) -> str:
    """A word without its common English ending."""
    for ending in ("ations", "ation", "ings", "ing", "edly", "ed", "ies", "es", "s", "ly"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "ls":
        word = word[:-1]
    return word[:-1] if len(word) > 4 and word[-1] == "e" else word


@lru_cache(maxsize=20000)
def _parts(token: str) -> tuple[str, ...]:
    """What one token counts as: itself, and the parts of an identifier."""
    if token[0].isdigit():
        if token in _CODES:
            return (_CODES[token],)
        value = float(token[:18])
        named = next((name for low, high, name in _NUMBERS if "." in token and low <= value <= high), None)
        return (named,) if named else (("#" + token,) if len(token) <= 2 else ("#num",))
    if "\u4e00" <= token[0] <= "\u9fff":
        return tuple(token[i : i + 2] for i in range(len(token) - 1)) or (token,)
    low = token.lower()
    pieces = [p.lower() for p in _CAMEL.findall(token)] if ("_" in token.strip("_") or (token != low and token != token.upper() and token[1:] != low[1:])) else []
    if len(pieces) > 1:
        return (low, *(stem(p) for p in pieces if len(p) > 1 and p not in _STOP and not p.isdigit()))
    bare = low.strip("_")
    return (stem(bare),) if bare and low not in _STOP else ()


def words(text: str) -> list[str]:
    """The counted words of a text, in order, concepts last. Numbers are named, not kept."""
    found = [part for token in _TOKEN.findall(text) for part in _parts(token)]
    return found + concepts(text)


def concepts(text: str) -> list[str]:
    """The concepts that a text speaks of, each once."""
    return [name for pattern, name in CONCEPTS if pattern.search(text[:20000])]


def pairs(tokens: list[str]) -> list[str]:
    """Neighbouring words as one: 'loss+stuck'."""
    return [f"{a}+{b}" for a, b in zip(tokens, tokens[1:]) if a[0] not in "#@" or b[0] not in "#@"]

"""Tell a person's sentences and a program's complaints from all else in a log. Python 3.8."""

from __future__ import annotations

import re

SURE_CHINESE = 14  # Chinese characters that make a sentence
SOME_CHINESE = 6  # the same for one that asks, or speaks of its writer
PROSE = 0.75  # of a line's characters that are words and blanks
MOST_TOLD = 30  # lines of a file that a person may have written as a whole

_CHINESE = re.compile(r"[\u4e00-\u9fff]")
_ASKS = re.compile("[我请为么吗呢？却但]")
_PROSE_WORD = re.compile(r"[A-Za-z']+")
# The mark of a list or a quotation, and code within a sentence:
# - first      2) second      > quoted      **Setup:**      `Trainer`
_MARKS = re.compile(r"^[\s>*]*(?:[-•]\s|\d{1,2}[.)]\s)?[\s*]*|`[^`]{1,80}`")
_COMMAND = re.compile(r"\s*(?:\S+@\S+|[#>$%{\[(|+*=<-])")  # a prompt, a banner
_PRINTED = re.compile(r"\s*(?:(?:import|from|def|class|set|export|module) |warnings\.|wandb:)")
# Words by which people speak of themselves, and the little ones that a sentence has and a line of a
# program seldom.
_SELF = frozenset(["i", "my", "we", "our", "me", "us", "i'm", "i've"])
_LITTLE = frozenset((
    "a", "an", "and", "any", "anyone", "are", "but", "can", "do", "does", "doesn", "don", "for",
    "get", "has", "have", "help", "how", "i", "if", "in", "is", "isn", "it", "just", "me", "my",
    "no", "not", "of", "on", "or", "same", "so", "that", "the", "then", "there", "this", "to",
    "try", "tried", "use", "using", "was", "we", "what", "when", "where", "while", "why", "with",
    "without",
))  # fmt: skip
_ENDED_WELL = re.compile(r"\b(?:completed?|finished|done|saved|success\w*)\b|完成|成功", re.I)
# Loss after the resume is far higher than before
_COMPARES = re.compile(
    r"\b(?:(?:high|low|slow|fast|small|larg|bigg)er|worse|different|restarts?|always|never|again)\b",
    re.I,
)
_WRONG = re.compile(
    r"fail|cannot|can't|could ?n[o']t|unable|d(?:id|oes) not|d(?:id|oes)n't|invalid|denied|refused"
    r"|missing|not (?:found|valid|supported|match|allowed|available)|no such"
    r"|mismatch|illegal|unexpected|unsupported|exceed|error|\bnan\b|\binf\b|kill|stuck|hang|freez"
    r"|timed? ?out|corrupt|broken|wrong|abort|overflow|crash|quota|reset|lost"
    r"|terminat|dump|(?:is|disk) full\b|no space|失败|错误|报错|异常|卡住|不动|不了",
    re.I,
)


def is_sentence(text: str, of_oneself: bool = False) -> bool:
    """Return whether a line reads as what a person says about a run, in English or Chinese.

    With `of_oneself` only a question, or a sentence about its writer, counts: programs seldom
    print these.
    """
    chinese = 0 if text.isascii() else len(_CHINESE.findall(text))
    words, little = _prose(text)
    if chinese >= SOME_CHINESE:
        asks = bool(_ASKS.search(text))
    else:
        is_prose = len(words) >= 4 and little >= 1
        asks = is_prose and (text.rstrip().endswith("?") or not _SELF.isdisjoint(words))
    if asks or of_oneself:
        return asks
    return chinese >= SURE_CHINESE or (_is_long(words, little) and not ends_well(text))


def is_report(texts: list[str], of_oneself: bool = False) -> bool:
    """Return whether a person wrote these lines: few, and one at least is a sentence.

    A long sentence may say that something went well, unlike one at the end of a log. `of_oneself`
    as in `is_sentence`. The first line of an issue is its title, which may name the symptom alone.
    """
    if not texts or len(texts) > MOST_TOLD:
        return False
    return is_symptom(texts[0]) or any(_tells(text, of_oneself) for text in texts)


def _tells(text: str, of_oneself: bool) -> bool:
    plain = _MARKS.sub("", text)
    return is_sentence(plain, of_oneself) or (not of_oneself and _is_long(*_prose(plain)))


def _prose(text: str) -> tuple[list[str], int]:
    """The words of a line of prose, and how many of them are little ones; none for other lines."""
    words = [] if is_command(text) or _PRINTED.match(text) else _PROSE_WORD.findall(text.lower())
    if sum(map(len, words)) + len(words) < PROSE * len(text):
        return [], 0
    return words, sum(word in _LITTLE for word in words)


def _is_long(words: list[str], little: int) -> bool:
    return len(words) >= 8 and little >= 3


def is_command(text: str) -> bool:
    """Return whether a line was typed at a prompt, or is a banner."""
    return bool(_COMMAND.match(text))


def is_complaint(text: str) -> bool:
    """Return whether a line of a program says that something is wrong."""
    return bool(_WRONG.search(text)) and not ends_well(text)


def is_symptom(text: str) -> bool:
    """Return whether a line is prose, at least five words, that says what is wrong or changed."""
    words, _ = _prose(text)
    if any(sign in text for sign in "=({["):  # a setting, a call, a record
        return False
    return len(words) >= 5 and (is_complaint(text) or bool(_COMPARES.search(text)))


def ends_well(text: str) -> bool:
    """Return whether a line says that something was completed or saved."""
    return bool(_ENDED_WELL.search(text))

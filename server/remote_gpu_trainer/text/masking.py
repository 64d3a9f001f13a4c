"""Mask secrets, and make text from a box, a log or a provider safe to show. Python 3.8.

`mask` replaces what looks like a token, a key or a password by `***`. `shown` and `shown_lines`
also remove escape sequences and control characters, and cut the text.

Limits: patterns see form, not meaning. A name alone (key, token) hides nothing; what follows must
look like a secret value. A value below its name is found only where the name is among the lines
given (`hide_below`). No pattern may take quadratic time: each can start only once in a run of
letters, or has a length limit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

# A terminal's escape sequence.
ANSI = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])"
)  # fmt: skip
# Control characters but tab and line feed, and what turns the direction of what is printed.
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# user:password@ in an address.
IN_ADDRESS = re.compile(r"(?<=://)([^\s/@:]{0,100}):([^\s/@]{3,200})@")

_TOKENS = (
    "hf_", "sk-", "ghp_", "gho_", "ghs_", "ghu_", "_pat_", "glpat-", "xox", "akia", "asia", "ya29.",
    "aiza", "rpa_", "nvapi-", "gsk_", "r8_", "npm_", "eyj",
)  # fmt: skip
PRIVATE_KEY = r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY"
PASSWORD = r"(?:password|passwd|secret)"
KEY = r"(?:api|access|account|secret|private|auth|encryption)[_ -]?key"
# Names of secrets in YAML, and in an environment.
_YAML = rf"[\w.-]{{0,60}}?(?:{PASSWORD}|passphrase|credentials?|_pass|_pwd|{KEY})"
_VARIABLE = (
    r"(?:\w{0,60}(?:PASSWORD|PASSWD|PASSPHRASE|SECRET)|(?:\w{0,60}_)?(?:PASS|PAT|TOKEN|KEY)"
    r"|\w{0,60}_(?:PWD|AUTH|CREDENTIALS?))(?:_?\d{1,3})?"
)
# Other values than null, 3, $NAME, &anchor, *alias, and the beginning of a block or a list.
_SOME = r"(?!(?:null|none|true|false|~)[ \t]*$|[\d.]{1,4}(?:[ \t]|$)|[$<&*|>{\[])"
# The inside of quotes, behind the first one; behind the last one, as in "$API_KEY:" -H, stands a
# blank. Quotes that are escaped hold no escaped ones.
_INSIDE = (
    r"(?<=\\['\"])(?!\s)[^'\"\\\n]{%d,}"
    r"|(?<=\")(?!\s)(?:[^\"\\\n]|\\.){%d,}"
    r"|(?<=')(?!\s)(?:[^'\\\n]|\\.){%d,}"
)
# A value without quotes. Behind & , ; another setting may follow.
_WORD = r"(?<!['\"])(?:[^\s'\"&,;]|[&,;](?![\w.-]{0,40}[ \t]?[=:]|\s|$)){%d,}"


def _setting(name: str, least: int, quoted: int = 1) -> str:
    """A name, what sets it, and a value of at least so many characters, alone or within quotes."""
    value = _INSIDE % (quoted, quoted, quoted) + "|" + _WORD % least
    return rf"({name}\\?['\"]?\s*[=:]\s*\\?['\"]?)(?:{value})"


# Each form: texts of which a line must contain one, a text that it must also contain, the pattern,
# and its flags. The texts are in lower case. The pattern's group stays; the rest is masked.
# Patterns are compiled on first use.
FORMS: tuple[tuple[Any, ...], ...] = (
    (
        ("-----begin",),
        "key",
        rf"({PRIVATE_KEY}-----)(?:\\n|[ \t])*[A-Za-z0-9+/=\\]{{8,}}",
        0,
    ),
    # Tokens of Hugging Face, npm and the like hold no further underscore, so hf_hub_download and
    # npm_config_registry are none. The last alternative is a JSON web token.
    (
        _TOKENS,
        "",
        r"\b(?:(hf_)[A-Za-z0-9]{12,}|(gsk_|r8_|npm_)[A-Za-z0-9]{16,}"
        r"|(nvapi-)[A-Za-z0-9_\-]{16,}|(A[KS]IA)[A-Z0-9]{12,}"
        r"|(sk-|gh[posu]_|github_pat_|dckr_pat_|glpat-|xox[abeprs]-|AKIA|ya29\.|AIza|rpa_)"
        r"[A-Za-z0-9_\-.]{8,}"
        r"|(?<![\w-])(eyJ)[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}(?:\.[A-Za-z0-9_\-]+)?)",
    ),
    (("bearer ",), "", r"(?<=bearer )()[A-Za-z0-9_\-.=]{8,}", re.I),
    (
        ("authorization",),
        "",
        r"(authorization['\"]?\s*[:=]\s*['\"]?(?:(?:basic|token|bearer|digest|api-?key)\s+)?)"
        r"(?![$<{])[^\s'\"*]{8,}",
        re.I,
    ),
    # `token: 128` and eos_token="<|im_end|>" are settings.
    (("token",), "", r"(token['\"]?\s*[=:]\s*['\"]?)(?!\d+\b|<)[^\s'\"&,;]{6,}", re.I),
    # password: correct horse     in a line of YAML, or within { }
    (
        ("passw", "secret", "passphrase", "credential", "_pass", "_pwd", "key"),
        ": ",
        rf"(^[ \t]*(?:-[ \t]+)?['\"]?{_YAML}['\"]?[ \t]*:[ \t]+){_SOME}[^\n]+"
        rf"|([{{,][ \t]*{_YAML}[ \t]*:[ \t]+){_SOME}(?!['\"])[^,}}\n]+",
        re.I | re.M,
    ),
    (("passw", "secret"), "", _setting(PASSWORD, 6), re.I),
    (("key",), "", _setting(KEY, 6, 6), re.I),
    # 'DB_PASS': 'hunter2', as in a dump of the environment.
    (
        ("_pass", "_pwd", "passphrase", "_credential"),
        "",
        _setting("(?:_PASS|_PWD|PASSPHRASE|_CREDENTIALS?)", 3),
    ),
    (
        ("environ(",),
        "",
        rf"(['\"]{_VARIABLE}['\"]: ?['\"])(?:{_INSIDE % (1, 1, 1)})",
        re.I,
    ),
    # GITHUB_PAT=…     LOG_PAT=*.log is a pattern.
    (
        ("_pat=", "_pat:", "_pat'", '_pat"'),
        "",
        r"(_PAT['\"]?\s*[=:]\s*['\"]?)(?=[A-Za-z_\-]*\d)[A-Za-z0-9_\-]{16,}",
    ),
    (("@",), "://", r"(?<=://)([^\s/@:]{0,100}:)[^\s/@]{3,200}(?=@)"),
    # {name: DB_PASSWORD, value: hunter2}
    (
        ("name",),
        "value",
        rf"(\bname['\"]?[ \t]*:[ \t]*['\"]?{_VARIABLE}['\"]?[ \t]*,[ \t]*['\"]?value['\"]?[ \t]*:"
        rf"[ \t]*['\"]?){_SOME}(?:{_INSIDE % (1, 1, 1)}|(?<!['\"])[^,}}\n]+)",
        re.I,
    ),
    # `api key 0123…`, as in a sentence.
    (
        ("key",),
        "key ",
        r"((?:api|access|account|secret)[_ -]?key\s+)"
        r"(?:[0-9a-f]{24,}|(?=[A-Za-z_\-]*\d)[A-Za-z0-9_\-]{20,})",
        re.I,
    ),
    (
        ("key",),
        "_key",
        r"([A-Z]_KEY['\"]?\s*[=:]\s*['\"]?)(?=[A-Za-z_\-]*\d)[A-Za-z0-9_\-+/=]{16,}",
    ),
    # --hf_token X, --password X; --tokenizer X and --pad_token X are settings.
    (
        ("passw", "secret"),
        "--",
        rf"((?<![-\w])--[\w-]{{0,40}}?{PASSWORD}\s+['\"]?)(?![$<-])"
        rf"(?:{_INSIDE % (4, 4, 4)}|[^\s'\"]{{4,}})",
        re.I,
    ),
    (
        ("token", "key"),
        "--",
        r"((?<![-\w])--[\w-]{0,40}?(?:token|key)\s+['\"]?)"
        r"(?!\d+\b)(?=[A-Za-z_\-]*\d)[A-Za-z0-9_\-.]{8,}",
        re.I,
    ),
    (("wandb login",), "", r"(wandb login (?:--\S{1,60} ){0,5})[0-9a-f]{40}\b"),
    (
        ("sig", "x-amz-", "x-goog-", "key"),
        "=",
        r"([?&](?:sig|key|signature|x-(?:amz|goog)-(?:signature|credential|security-token))=)"
        r"[^\s&'\"]{8,}",
        re.I,
    ),
    (
        ("hook",),
        "/",
        r"((?:hooks\.slack\.com/(?:services|workflows)|discord(?:app)?\.com/api/webhooks"
        r"|open-apis/bot/v2/hook)/)[\w/-]{8,}",
        re.I,
    ),
)
HINTS = tuple(dict.fromkeys(hint for hints, *_ in FORMS for hint in hints))
# Hints such as hf_ and ghp_, by the letters before their underscore.
_TAILS = {hint[:-1].lstrip("_"): hint for hint in HINTS if hint.endswith("_")}
_OTHERS = tuple(hint for hint in HINTS if hint not in _TAILS.values())


def hints_in(low: str) -> tuple[str, ...]:
    """Return those of HINTS that a text in lower case may hold.

    Pass them to `mask` for each line of that text. Cutting the text once at its underscores is
    faster than searching for each hint.
    """
    parts = low.split("_")[:-1]
    tails = {part[-3:] for part in parts} | {part[-2:] for part in parts}
    return (
        *[_TAILS[tail] for tail in _TAILS.keys() & tails],
        *[hint for hint in _OTHERS if hint in low],
    )


@lru_cache(maxsize=None)
def compiled(form: int) -> re.Pattern[str]:
    """Compile a form of FORMS on its first use."""
    return re.compile(*FORMS[form][2:])


@lru_cache(maxsize=4096)
def _forms_of(held: tuple[str, ...]) -> tuple[tuple[int, str], ...]:
    """Return the number in FORMS and the second text of each form that a text may match which
    holds these of HINTS."""
    return tuple(
        (number, beside)
        for number, (hints, beside, *_) in enumerate(FORMS)
        if any(hint in held for hint in hints)
    )


def _hide(match: re.Match[str]) -> str:
    return next((group for group in match.groups() if group), "") + "***"


def mask(text: str, hints: tuple[str, ...] = HINTS) -> str:
    """Return the text with `***` in place of what looks like a token, a key or a password.

    `hints` are those of HINTS that the whole log holds (see `hints_in`); a line without any of
    them is returned as it is.
    """
    low = text.lower()
    held = tuple([hint for hint in hints if hint in low])
    if not held:
        return text
    for form, beside in _forms_of(held) if len(text) > 8 else ():
        if beside in low:
            text = compiled(form).sub(_hide, text)
    return "\n".join(hide_below(text.split("\n"))) if "\n" in text else text


# What stands below a name, as heads of lines; compiled on first use.
_BELOW = {
    # password: >-     or nothing behind the colon
    "head": rf"[ \t]*(?:-[ \t]+)?['\"]?(?:{_YAML}|[\w.-]{{0,60}}?token)['\"]?[ \t]*:[ \t]*"
    r"([|>][-+\d]{0,2})?[ \t]*$",
    # - name: DB_PASSWORD     and value: hunter2 in the line below
    "name": rf"[ \t]*(?:-[ \t]+)?['\"]?name['\"]?[ \t]*:[ \t]*['\"]?{_VARIABLE}['\"]?,?[ \t]*$",
    "value": r"([ \t]*['\"]?value['\"]?[ \t]*:[ \t]*)(?=\S)([|>][-+\d]{0,2}[ \t]*$)?",
    # host: box     or an item of a list: then the name above is of a mapping
    "pair": r"[ \t]*(?:-[ \t]|['\"]?[\w.-]{1,80}['\"]?[ \t]*:(?:[ \t]|$))",
    "private key": PRIVATE_KEY + r"-----\s*$",
    "of a key": r"\s*(?:[A-Za-z0-9+/=]{8,}|(?:Proc-Type|DEK-Info): .*)\s*$",
}
_ENDS = (":", "|", ">", "|-", ">-", "|+", ">+")


@lru_cache(maxsize=None)
def _below(name: str) -> re.Pattern[str]:
    return re.compile(_BELOW[name], re.I)


def hide_below(lines: Sequence[str]) -> list[str]:
    """Return the lines of a text with `***` for each secret that stands below its name.

    As a block of YAML, in the value of a pair of lines, or as a private key.
    """
    hiding = Below()
    return [hiding.hide(line) for line in lines]


class Below:
    """Hides the secrets of `hide_below` in lines that come one by one."""

    def __init__(self):
        self._depth = -1  # of the name whose block this is, -1 outside of one
        self._is_block = self._is_named = self._is_key = False

    def hide(self, line: str) -> str:
        """Return the next line, or `***` in its place."""
        bare = line.strip()
        here = len(line) - len(line.lstrip())
        if (
            self._depth >= 0
            and bare
            and (here <= self._depth or not (self._is_block or _below("pair").match(line) is None))
        ):
            self._depth = -1
        value = _below("value").match(line) if self._is_named else None
        self._is_key = self._is_key and _below("of a key").match(line) is not None
        if self._depth >= 0 or self._is_key:
            return f"{line[:here]}***" if bare else line
        shown = f"{value[1]}***" if value and not value[2] else line
        head = value if value and value[2] else None
        if head is None and bare.rstrip("0123456789").endswith(_ENDS):
            head = _below("head").match(line)
        self._depth, self._is_block = (
            (here, head.group(head.re.groups) is not None) if head else (-1, False)
        )
        self._is_named = "name" in bare and _below("name").match(line) is not None
        self._is_key = "PRIVATE KEY" in bare and _below("private key").search(line) is not None
        return shown


def strip_controls(text: str) -> str:
    """Return a text without what a terminal would obey: escape sequences, control characters but
    tab and line feed, and what turns the direction of what is printed."""
    if "\x1b" in text:
        text = ANSI.sub("", text)
    return UNSEEN.sub("", text)


def shown(text: object, most: int = 300) -> str:
    """Return one masked line of at most `most` characters. Line breaks become blanks."""
    flat = ANSI.sub("", str(text)[: most * 8])
    if not flat.isprintable():
        flat = "".join(c if c.isprintable() else " " for c in flat)
    flat = IN_ADDRESS.sub(r"\1:***@", mask(flat)).rstrip()
    return flat if len(flat) <= most else flat[: most - 2] + " …"


def shown_some(names: Sequence[object], most: int = 5, width: int = 60) -> str:
    """Return the first names of a list as `shown` gives them, and how many there are beside."""
    listed = ", ".join(shown(name, width) for name in names[:most])
    return listed + (f" and {len(names) - most} more" if len(names) > most else "")


def shown_lines(text: object, most: int = 40, width: int = 300) -> list[str]:
    """Return the last `most` lines that aren't blank, each masked and at most `width` long.

    A carriage return ends a line, as on a terminal.
    """
    flat = str(text)
    near = max(0, len(flat) - most * width * 4)
    # Start at a whole line: half a secret looks like any word.
    begin = max(flat.rfind("\n", 0, near), flat.rfind("\r", 0, near)) + 1
    cut = [shown(line, width) for line in hide_below(re.split(r"[\r\n]+", flat[begin:]))]
    return [line for line in cut if line.strip()][-most:]

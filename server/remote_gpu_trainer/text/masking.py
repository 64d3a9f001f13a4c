"""Mask secrets, and make text from a box, a log or a provider safe to show. Python 3.8.

`mask` replaces what looks like a token, a key or a password by `***`. `shown` and `shown_lines`
also remove escape sequences and control characters, and cut the text.

Limits: patterns see form, not meaning. A name alone (key, token) hides nothing; what follows must
look like a secret value. No pattern may take quadratic time: each can start only once in a run of
letters, or has a length limit.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

# A terminal's escape sequence.
ANSI = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])"
)  # fmt: skip
# user:password@ in an address.
IN_ADDRESS = re.compile(r"(?<=://)([^\s/@:]{1,100}):([^\s/@]{3,200})@")

_TOKENS = (
    "hf_", "sk-", "ghp_", "gho_", "ghs_", "ghu_", "_pat_", "glpat-", "xox", "akia", "asia", "ya29.",
    "aiza", "rpa_", "nvapi-", "gsk_", "r8_", "npm_", "eyj",
)  # fmt: skip
PRIVATE_KEY = r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY"
PASSWORD = r"(?:password|passwd|secret)"
KEY = r"(?:api|access|account|secret|private|auth|encryption)[_ -]?key"


# Each form: texts of which a line must contain one, a text that it must also contain, the pattern,
# and its flags. The texts are in lower case. The pattern's group stays; the rest is masked.
# Patterns are compiled on first use.
FORMS: tuple[tuple[Any, ...], ...] = (
    (
        ("-----begin",),
        "key",
        rf"({PRIVATE_KEY}-----)(?:\\n|\s)*[A-Za-z0-9+/=\\]{{8,}}",
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
    (("passw", "secret"), "", rf"({PASSWORD}['\"]?\s*[=:]\s*['\"]?)[^\s'\"&,;]{{6,}}", re.I),
    (("key",), "", rf"({KEY}['\"]?\s*[=:]\s*['\"]?)[^\s'\"&,;]{{6,}}", re.I),
    # 'DB_PASS': 'hunter2', as in a dump of the environment.
    (
        ("_pass", "_pwd", "passphrase", "_credential"),
        "",
        r"((?:_PASS|_PWD|PASSPHRASE|_CREDENTIALS?)['\"]?\s*[=:]\s*['\"]?)[^\s'\"&,;]{3,}",
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
        rf"((?<![-\w])--[\w-]{{0,40}}?{PASSWORD}\s+['\"]?)(?![$<-])[^\s'\"]{{4,}}",
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


def mask(text: str, hints: tuple[str, ...] = HINTS) -> str:
    """Return the text with `***` in place of what looks like a token, a key or a password.

    `hints` are those of HINTS that the whole log holds (see `hints_in`); a line without any of
    them is returned as it is.
    """
    low = text.lower()
    for hint in hints:
        if hint in low:
            break
    else:
        return text
    for form, (hints, beside, *_) in enumerate(FORMS if len(text) > 8 else ()):
        if beside in low and any(hint in low for hint in hints):
            text = compiled(form).sub(
                lambda match: next((group for group in match.groups() if group), "") + "***", text
            )
    return text


def shown(text: object, most: int = 300) -> str:
    """Return one masked line of at most `most` characters. Line breaks become blanks."""
    flat = ANSI.sub("", str(text)[: most * 8])
    if not flat.isprintable():
        flat = "".join(c if c.isprintable() else " " for c in flat)
    flat = IN_ADDRESS.sub(r"\1:***@", mask(flat)).rstrip()
    return flat if len(flat) <= most else flat[: most - 2] + " …"


def shown_lines(text: object, most: int = 40, width: int = 300) -> list[str]:
    """Return the last `most` lines that aren't blank, each masked and at most `width` long.

    A carriage return ends a line, as on a terminal.
    """
    flat = str(text)
    near = max(0, len(flat) - most * width * 4)
    # Start at a whole line: half a secret looks like any word.
    begin = max(flat.rfind("\n", 0, near), flat.rfind("\r", 0, near)) + 1
    cut = [shown(line, width) for line in re.split(r"[\r\n]+", flat[begin:])]
    return [line for line in cut if line.strip()][-most:]

"""What a token, a key or a password looks like in a log, and the same text without it. Standard library, Python 3.8.

Limits: patterns, not meaning. A name alone (key, token) hides nothing: what follows has to look like a value that is kept secret. No pattern may
take quadratic time: each starts at one place of a run of letters only, or has a bound.
"""

from __future__ import annotations

import re
from functools import lru_cache

ANSI = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])"
)  # a terminal's escape sequence
# Texts in lower case of which a form needs one, another that it needs beside, and the form: its group is what stays. Compiled when first needed.
_TOKENS = (
    "hf_", "sk-", "ghp_", "gho_", "ghs_", "ghu_", "_pat_", "glpat-", "xox", "akia", "asia", "ya29.", "aiza", "rpa_", "nvapi-", "gsk_", "r8_", "npm_", "eyj",
)  # fmt: skip
_FORMS = (
    (
        ("-----begin",),
        "key",
        r"(-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----)(?:\\n|\s)*[A-Za-z0-9+/=\\]{8,}",
        0,
    ),
    # One of Hugging Face, npm and the like holds no further underscore, so that hf_hub_download and npm_config_registry are none. Last a JSON web token.
    (
        _TOKENS,
        "",
        r"\b(?:(hf_)[A-Za-z0-9]{12,}|(gsk_|r8_|npm_)[A-Za-z0-9]{16,}|(nvapi-)[A-Za-z0-9_\-]{16,}|(A[KS]IA)[A-Z0-9]{12,}"
        r"|(sk-|gh[posu]_|github_pat_|dckr_pat_|glpat-|xox[abeprs]-|AKIA|ya29\.|AIza|rpa_)[A-Za-z0-9_\-.]{8,}"
        r"|(?<![\w-])(eyJ)[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}(?:\.[A-Za-z0-9_\-]+)?)",
        0,
    ),
    (("bearer ",), "", r"(?<=bearer )()[A-Za-z0-9_\-.=]{8,}", re.I),
    (
        ("authorization",),
        "",
        r"(authorization['\"]?\s*[:=]\s*['\"]?(?:(?:basic|token|bearer|digest|api-?key)\s+)?)(?![$<{])[^\s'\"*]{8,}",
        re.I,
    ),
    # `token: 128` and eos_token="<|im_end|>" are settings.
    (("token",), "", r"(token['\"]?\s*[=:]\s*['\"]?)(?!\d+\b|<)[^\s'\"&,;]{6,}", re.I),
    (
        ("passw", "secret"),
        "",
        r"((?:password|passwd|secret)['\"]?\s*[=:]\s*['\"]?)[^\s'\"&,;]{6,}",
        re.I,
    ),
    (
        ("key",),
        "",
        r"((?:api|access|account|secret|private|auth|encryption)[_ -]?key['\"]?\s*[=:]\s*['\"]?)[^\s'\"&,;]{6,}",
        re.I,
    ),
    # `api key 0123…`, as a sentence says it.
    (
        ("key",),
        "key ",
        r"((?:api|access|account|secret)[_ -]?key\s+)(?:[0-9a-f]{24,}|(?=[A-Za-z_\-]*\d)[A-Za-z0-9_\-]{20,})",
        re.I,
    ),
    (
        ("key",),
        "_key",
        r"([A-Z]_KEY['\"]?\s*[=:]\s*['\"]?)(?=[A-Za-z_\-]*\d)[A-Za-z0-9_\-+/=]{16,}",
        0,
    ),
    # --hf_token X, --password X; --tokenizer X and --pad_token X are settings.
    (
        ("passw", "secret"),
        "--",
        r"((?<![-\w])--[\w-]{0,40}?(?:password|passwd|secret)\s+['\"]?)(?![$<-])[^\s'\"]{4,}",
        re.I,
    ),
    (
        ("token", "key"),
        "--",
        r"((?<![-\w])--[\w-]{0,40}?(?:token|key)\s+['\"]?)(?!\d+\b)(?=[A-Za-z_\-]*\d)[A-Za-z0-9_\-.]{8,}",
        re.I,
    ),
    (
        ("sig", "x-amz-", "x-goog-", "key"),
        "=",
        r"([?&](?:sig|key|signature|x-(?:amz|goog)-(?:signature|credential|security-token))=)[^\s&'\"]{8,}",
        re.I,
    ),
    (
        ("hook",),
        "/",
        r"((?:hooks\.slack\.com/(?:services|workflows)|discord(?:app)?\.com/api/webhooks|open-apis/bot/v2/hook)/)[\w/-]{8,}",
        re.I,
    ),
)
HINTS = tuple(dict.fromkeys(hint for hints, *_ in _FORMS for hint in hints))
_TAILS = {
    hint[:-1].lstrip("_"): hint for hint in HINTS if hint.endswith("_")
}  # hf_, ghp_ …: told by the two or three letters before each underscore
_OTHERS = tuple(hint for hint in HINTS if hint not in _TAILS.values())


def hints_in(low: str) -> tuple[str, ...]:
    """Those of HINTS that a text in lower case may hold. To cut it once at its underscores is quicker than to look for each."""
    parts = low.split("_")[:-1]
    tails = {part[-3:] for part in parts} | {part[-2:] for part in parts}
    return (
        *[_TAILS[tail] for tail in _TAILS.keys() & tails],
        *[hint for hint in _OTHERS if hint in low],
    )


@lru_cache(maxsize=None)
def _compiled(form: int) -> re.Pattern:
    return re.compile(*_FORMS[form][2:])


def mask(text: str, hints: tuple[str, ...] = HINTS) -> str:
    """Hide what looks like a token, a key or a password. `hints`: those of HINTS that the whole log holds."""
    low = text.lower()
    for hint in hints:
        if hint in low:
            break
    else:
        return text
    for form, (wanted, beside, *_) in enumerate(_FORMS if len(text) > 8 else ()):
        if beside in low and any(hint in low for hint in wanted):
            text = _compiled(form).sub(
                lambda m: next((g for g in m.groups() if g), "") + "***", text
            )
    return text

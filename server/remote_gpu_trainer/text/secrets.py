"""Whether a text or a variable carries a secret by value, by the forms that `masking` knows.

This is stricter than masking, which may hide a harmless word: to refuse one would stop a run.
"""

from __future__ import annotations

import re

from .masking import FORMS, IN_ADDRESS, KEY, PASSWORD, PRIVATE_KEY, compiled

# Names whose value is a secret, however it looks. Many other names end in _TOKEN: PAD_TOKEN.
_NAME = re.compile(
    rf"(?:{PASSWORD}(?:_ACCESS)?|{KEY}"
    r"|(?:HF|HUB|HUGGINGFACE|GITHUB|GH|GITLAB|API|AUTH|ACCESS|BEARER|BOT|SESSION)_TOKEN)\Z",
    re.I,
)
# The first hints of the forms in which a secret begins as no word does. In the others a name stands
# before it, and the secret may look like any word.
_OWN_FORMS = ("-----begin", "hf_", "hook")
# What a program made, not a person: `sk-learn-contrib` and `--text_key sentence1` are none. Behind
# the beginning of a known token less is enough.
_MADE = re.compile(r"(?=[A-Za-z_]*\d)[A-Za-z0-9_]{8,}|[A-Za-z0-9_]{16,}")
_MADE_BY_NAME = re.compile(r"(?=[A-Za-z]*\d)[A-Za-z0-9]{12,}|[A-Za-z0-9]{16,}")
# Between user: and @host stands nothing but a password, however it looks; *** is a masked one.
_GIVEN = re.compile(r"[^*]")
# $HF_TOKEN, <your token>, {token}, ~/.token and /run/secrets/token say where a secret is.
_PLACE = ("$", "<", "{", "~", "/")


def holds_secret(text: str) -> bool:
    """Return whether a text holds the value of a secret, not only its name or its place."""
    if re.search(PRIVATE_KEY, text):
        return True
    values = [(_GIVEN, match[2]) for match in IN_ADDRESS.finditer(text)]
    low = text.lower()
    for form, (hints, *_) in enumerate(FORMS):
        made = _MADE if hints[0] in _OWN_FORMS else _MADE_BY_NAME
        for match in compiled(form).finditer(text) if any(hint in low for hint in hints) else ():
            name = next((group for group in match.groups() if group), "")
            values.append((made, match[0][len(name) :]))
    return any(made.search(value) for made, value in values if not value.startswith(_PLACE))


def is_secret(name: str, value: str) -> bool:
    """Return whether a variable's value is a secret, by its name or by how the two look."""
    named = len(value) >= 6 and _NAME.search(name) is not None
    return named or holds_secret(f"{name}={value}") or holds_secret(value)

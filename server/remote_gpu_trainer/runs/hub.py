"""A model's config.json by its name on the Hub: known here, on this disk, or fetched."""

from __future__ import annotations

import json
import os
import re
import urllib.error
import urllib.request
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from ..fit.known_configs import known_config
from ..fit.model_config import MOST_BYTES
from ..text import BadRequest
from ..text.masking import shown

# The oldest models have a name without an owner, such as roberta-large.
NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}|[a-z0-9]+(?:-[a-z0-9]+){1,6}")
HUB = "https://huggingface.co"
SECONDS = 10.0  # for an answer
INSTEAD = "pass a config.json in place of the name"

_COPIED = re.compile(r"(?:-unsloth)?-bnb-4bit$|-(?:GPTQ|AWQ)$", re.I)


class NoAnswer(BadRequest):
    """The Hub can't be asked."""


@dataclass(frozen=True)
class Found:
    """The bytes of a config.json, and a sentence on where they are from."""

    data: bytes
    note: str


def config_of(name: str) -> Found | None:
    """Return the config of a name on the Hub, None for a text that is no such name.

    Raises BadRequest where it can't be had.
    """
    if known := known_config(name):
        note = f"{name} as it is known here: {known.address}, read {known.date}"
        return Found(json.dumps(known.config).encode(), note)
    if not NAME.fullmatch(name) or name.endswith((".json", ".py")):
        return None
    if found := _on_this_disk(name):
        return found
    try:
        return _fetched(name)
    except NoAnswer:
        # Copies by others keep the name behind the owner.
        if known := known_config(_COPIED.sub("", name.rpartition("/")[2])):
            note = f"the Hub can't be asked; {name} is taken for the model of that name: "
            return Found(json.dumps(known.config).encode(), note + known.address)
        raise


def _home() -> Path:
    """The folder of the Hub's own programs."""
    return Path(os.environ.get("HF_HOME") or "~/.cache/huggingface").expanduser()


def _on_this_disk(name: str) -> Found | None:
    """The config that the Hub's programs have fetched before, the newest."""
    folder = _home() / "hub" / f"models--{name.replace('/', '--')}" / "snapshots"
    with suppress(OSError):
        paths = sorted(folder.glob("*/config.json"), key=lambda path: path.stat().st_mtime)
        if paths:
            return Found(_start_of(paths[-1]), f"{name} as it lies in {shown(folder, 200)}")
    return None


def _start_of(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MOST_BYTES + 1)


def _token() -> str:
    """The user's token for the Hub, '' without one. It is never printed."""
    token = os.environ.get("HF_TOKEN", "")
    with suppress(OSError, UnicodeDecodeError):
        token = token or (_home() / "token").read_text("ascii")
    return token.strip() if token.strip().isprintable() else ""


class _WithoutToken(urllib.request.HTTPRedirectHandler):
    """Follows an answer that leads elsewhere over https, and tells no other host the token."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        new = super().redirect_request(req, fp, code, msg, headers, newurl)
        old, to = urlsplit(req.full_url), urlsplit(newurl)
        if new is not None and (old.scheme, old.netloc) != (to.scheme, to.netloc):
            if old.scheme == "https" != to.scheme:
                return None
            new.remove_header("Authorization")
        return new


def _fetched(name: str) -> Found:
    """The config as the Hub has it now. Raises BadRequest."""
    if os.environ.get("HF_HUB_OFFLINE") in ("1", "true", "True", "ON", "YES"):
        why = f"{name} isn't known here, and HF_HUB_OFFLINE forbids to ask"
        raise NoAnswer(f"{why}; {INSTEAD}{_or_its_size(name)}")
    end = (os.environ.get("HF_ENDPOINT") or HUB).rstrip("/")
    if urlsplit(end).scheme not in ("https", "http"):
        raise BadRequest("HF_ENDPOINT is no address; unset it, or write https://HOST")
    url = f"{end}/{name}/resolve/main/config.json"
    request = urllib.request.Request(url, headers={"User-Agent": "remote-gpu-trainer"})
    token = _token()
    if token and url.startswith("https://"):
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.build_opener(_WithoutToken).open(request, timeout=SECONDS) as answer:
            return Found(answer.read(MOST_BYTES + 1), f"{name} as {shown(url, 200)} has it now")
    except urllib.error.HTTPError as error:
        raise BadRequest(_refused(name, error.code)) from None
    except (OSError, ValueError) as error:
        why = getattr(error, "reason", None) or error
        place = shown(urlsplit(end).netloc, 80)
        raise NoAnswer(
            f"can't ask {place} for {name}: {shown(why, 120)}; {INSTEAD}{_or_its_size(name)}"
        ) from None


def _or_its_size(name: str) -> str:
    """What to type where the name says how many weights there are."""
    sizes = re.findall(
        r"(?<![\w.])(\d{1,3}(?:[._]\d)?)b(?![a-z0-9])", name.rpartition("/")[2].lower()
    )
    return f", or --parameters {sizes[0].replace('_', '.')}B" if len(sizes) == 1 else ""


def _refused(name: str, code: int) -> str:
    """What an answer of the Hub means, and what to do."""
    if code in (401, 403):
        return (
            f"the Hub shows {name} to nobody unnamed, or has no such model; accept its terms there "
            f"and set HF_TOKEN, or {INSTEAD}"
        )
    if code == 404:
        return (
            f"the Hub has no config.json of {name}; check the name, or {INSTEAD}; a pipeline of "
            "diffusers has none: FILE.py:NAME counts its denoiser"
        )
    return f"the Hub answered {code} for {name}; try again, or {INSTEAD}"

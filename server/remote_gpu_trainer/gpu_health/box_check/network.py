"""Measure how fast the box reaches what training fetches and saves: the Hub, PyPI, a durable place.

Off by default. What comes is thrown away as it comes; nothing is written, here or there.
"""

import os
import re
import time
import urllib.error
import urllib.parse
import urllib.request

from ...logs.kernel.places import short
from .commands import run
from .findings import Findings

PLACE_SECONDS = 20.0  # for each place
PLACE_BYTES = 200 << 20  # bytes from each place
SENT_BYTES = 64 << 20  # bytes to a durable place
PIECE_BYTES = 1 << 20
PAGE_BYTES = 8 << 20  # bytes of an index page
# Bytes that no compression makes fewer, to a host that throws them away.
SEND = (
    'head -c "$1" /dev/urandom | ssh -o BatchMode=yes -o ConnectTimeout=10 -- "$2" "cat >/dev/null"'
)
# A file of half a gigabyte that anybody may read, and a package of which each version is as large.
HUB_FILE = "/openai-community/gpt2/resolve/main/model.safetensors"
INDEX_PAGE = "/torch/"
SLOW_MB_S, VERY_SLOW_MB_S = 10.0, 1.0  # MB/s, our limits
MODEL_MB = 15000.0  # MB of a model of 7B weights in 16 bit
BEHIND_SSH = re.compile(
    r"(?:ssh://)?([A-Za-z0-9_][\w.-]*(?:@[A-Za-z0-9][\w.-]*)?)(?::(?!//)\S*)?\Z"
)


def network(durable=""):
    """Measure. Return ([{place, address, mb, seconds, mb_s} or with error], findings)."""
    hub = (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
    index = (os.environ.get("PIP_INDEX_URL") or "https://pypi.org/simple").rstrip("/")
    measured = [
        downloaded("the Hub", lambda: hub + HUB_FILE),
        downloaded("PyPI", lambda: newest_file(index + INDEX_PAGE)),
    ]
    if durable:
        measured.append(uploaded(durable))
    return measured, judged_network(measured)


def open_address(url, seconds):
    """An answer of a server. Raises OSError and ValueError."""
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise ValueError("its address is neither http nor https")
    request = urllib.request.Request(url, headers={"User-Agent": "remote-gpu-trainer"})
    return urllib.request.urlopen(request, timeout=seconds)


def newest_file(page):
    """The address of the last file that an index page lists. Raises OSError and ValueError."""
    with open_address(page, PLACE_SECONDS) as answer:
        text = answer.read(PAGE_BYTES).decode("utf-8", "replace")
    links = re.findall(r"""href=["']([^"'#]+\.whl)(?:#[^"']*)?["']""", text)
    if not links:
        raise ValueError("its page lists no file")
    return urllib.parse.urljoin(page, links[-1])


def downloaded(place, address):
    """What came of a place within the time, and how fast."""
    began = time.monotonic()
    try:
        url = address()
        row = {"place": place, "address": without_password(url)}
        with open_address(url, PLACE_SECONDS) as answer:
            began, count = time.monotonic(), 0  # without the time for the name and the connection
            while count < PLACE_BYTES and time.monotonic() < began + PLACE_SECONDS:
                piece = answer.read(PIECE_BYTES)
                if not piece:
                    break
                count += len(piece)
    except (OSError, ValueError) as error:
        why = getattr(error, "reason", None) or error
        return {"place": place, "error": short(str(why) or type(error).__name__, 120)}
    return with_speed(row, count, time.monotonic() - began)


def uploaded(durable):
    """How fast a durable place behind ssh takes bytes, which nobody keeps."""
    match, row = BEHIND_SSH.match(durable), {"place": "the durable place"}
    if not match:
        return {**row, "error": "only a place behind ssh is measured, as user@host:path"}
    row["address"] = short(durable, 120)
    got = run(["sh", "-c", SEND, "sh", str(SENT_BYTES), match.group(1)], 2 * PLACE_SECONDS)
    if got["timed_out"]:
        return {**row, "error": f"it took no {SENT_BYTES >> 20} MiB in {2 * PLACE_SECONDS:.0f} s"}
    if got["rc"]:
        said = got["text"].strip().splitlines()
        return {**row, "error": short(said[-1] if said else f"ssh ended with {got['rc']}", 120)}
    return with_speed(row, SENT_BYTES, got["seconds"])


def with_speed(row, count, seconds):
    """The bytes and how fast they were."""
    seconds = max(seconds, 1e-3)
    speed = round(count / 1e6 / seconds, 2)
    return {**row, "mb": round(count / 1e6, 1), "seconds": round(seconds, 2), "mb_s": speed}


def without_password(url):
    """An address without the name and password that may stand in it."""
    parts = urllib.parse.urlsplit(url)
    return short(f"{parts.scheme}://{parts.hostname or ''}{parts.path}", 120)


def judged_network(measured):
    """The findings about what was measured."""
    add = Findings()
    for row in measured:
        if row.get("error"):
            add(None, "not_reached", row["place"], row["error"])
        elif row["mb_s"] < SLOW_MB_S:
            level = "degraded" if row["mb_s"] < VERY_SLOW_MB_S else "warn"
            minutes = max(1, round(MODEL_MB / max(row["mb_s"], 0.01) / 60))
            add(None, "slow_network", row["place"], row["mb_s"], minutes, level=level)
    return add.list

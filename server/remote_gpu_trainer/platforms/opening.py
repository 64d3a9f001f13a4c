"""Open public pages politely, and take what a reader would see of them as text.

Few hosts at once and one page of a host at a time, with a pause between them; what a host's
robots.txt forbids isn't opened. A page is data: at most `MOST_BYTES` of it are read, no script of
it runs, and nothing of it is kept but its text.
"""

from __future__ import annotations

import codecs
import http.client
import re
import threading
import time
import urllib.error
import urllib.request
import urllib.robotparser
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from html.parser import HTMLParser
from urllib.parse import urldefrag, urlsplit

from .. import __version__
from ..text.masking import shown

AGENT = f"remote-gpu-trainer/{__version__} (+https://github.com/remote-gpu-trainer)"
HOSTS_AT_ONCE = 4
PAUSE = 1.0  # seconds between two pages of a host
MOST_BYTES = 10_000_000  # Google's description of Compute, the longest source, has 5.0 MB
MOST_SECONDS = 30.0  # for a whole page, and for its host to send anything
LEAST_TEXT = 200  # characters; an HTML page with scripts and less text shows it by them alone
_GONE = (404, 410)
_BLOB = re.compile(r"https://github\.com/([^/]+/[^/]+)/blob/(.+)")
_IS_TEXT = re.compile(r"text/|.*\b(?:json|xml|yaml|javascript)\b", re.I)
_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset=[\"']?([\w-]{2,30})", re.I)
_HIDDEN = ("script", "style", "template")
# Elements within a line: what stands on both sides of their tags is one word.
_INLINE = (
    "a", "abbr", "b", "bdi", "code", "em", "font", "i", "kbd", "mark", "s", "small", "span",
    "strong", "sub", "sup", "tt", "u", "var", "wbr",
)  # fmt: skip
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"))


@dataclass(frozen=True)
class Opened:
    """What came of opening an address. One of the three is set.

    `text` is what a reader sees, None without it. `gone` says how it is clear that the page isn't
    there any more, `unseen` why the page couldn't be looked at, which says nothing about it.
    """

    text: str | None = None
    gone: str = ""
    unseen: str = ""


class _Unseen(Exception):
    """A page can't be looked at; the text says why."""


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows to web pages alone: urllib would go to FTP too."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        if urlsplit(newurl).scheme not in ("http", "https"):
            raise _Unseen(f"it leads to {shown(newurl, 100)}, which isn't a web page")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def open_all(
    addresses: Iterable[str],
    on_opened: Callable[[int], None] = lambda count: None,
    pause: float | None = None,
) -> dict[str, Opened]:
    """Open each address once. `on_opened` is told how many are done."""
    by_host: dict[str, list[str]] = {}
    for address in dict.fromkeys(addresses):
        by_host.setdefault(urlsplit(readable(address)).netloc, []).append(address)
    opened: dict[str, Opened] = {}
    counting = threading.Lock()

    def open_host(pages: list[str]) -> None:
        host = _Host(PAUSE if pause is None else pause)
        for address in pages:
            came = host.open(address)
            with counting:
                opened[address] = came
                on_opened(len(opened))

    with ThreadPoolExecutor(HOSTS_AT_ONCE) as pool:
        for _ in pool.map(open_host, by_host.values()):
            pass
    return opened


def readable(address: str) -> str:
    """The address that gives a page as text: of a file that GitHub shows, the file itself."""
    blob = _BLOB.fullmatch(urldefrag(address).url)
    return f"https://raw.githubusercontent.com/{blob[1]}/{blob[2]}" if blob else address


class _Host:
    """The pages of one host, one after the other, until the host can't be reached or says no."""

    def __init__(self, pause: float):
        self._pause = pause
        self._robots: urllib.robotparser.RobotFileParser | None = None
        self._refusal = ""

    def open(self, address: str) -> Opened:
        """Open a page as a reader's browser would, without its scripts."""
        if self._refusal:
            return Opened(unseen=self._refusal)
        url = urldefrag(readable(address)).url
        try:
            if not self._allowed(url):
                return Opened(unseen="the site's robots.txt asks programs not to open it")
            return self._looked_at(url)
        except _Unseen as error:
            return Opened(unseen=str(error))
        except urllib.error.HTTPError as error:
            return self._read_error(error)
        except (OSError, http.client.HTTPException, ValueError) as error:
            why = f"no answer ({shown(getattr(error, 'reason', '') or error, 100)})"
            if isinstance(error, urllib.error.URLError):  # no connection: nor would others get one
                self._refusal = why
            return Opened(unseen=why)
        finally:
            time.sleep(0 if self._refusal else self._pause)

    def _allowed(self, url: str) -> bool:
        """Whether the host's robots.txt lets programs open a page. One without it allows all."""
        if self._robots is None:
            rules = urllib.robotparser.RobotFileParser()
            parts = urlsplit(url)
            try:
                text, _, _ = _fetched(f"{parts.scheme}://{parts.netloc}/robots.txt")
                rules.parse(text.decode("utf-8", "replace").splitlines())
            except (urllib.error.HTTPError, _Unseen):
                rules.parse([])
            self._robots = rules
        return self._robots.can_fetch(AGENT, url)

    def _read_error(self, error: urllib.error.HTTPError) -> Opened:
        """What an answer that is no page says about the page."""
        status = f"{error.code} {http.client.responses.get(error.code, '')}".strip()
        if error.code in _GONE:
            return Opened(gone=status)
        if 300 <= error.code < 400:
            return Opened(gone="it is redirected in a circle")
        if error.code == 429:
            status = self._refusal = f"{status}: the site wants no more questions now"
        return Opened(unseen=status)

    def _looked_at(self, url: str) -> Opened:
        data, kind, final = _fetched(url)
        if _is_home(final) and not _is_home(url):
            return Opened(gone=f"it leads to the home page, {shown(final, 200)}")
        text = _decoded(data, kind)
        if not (kind.startswith(("text/html", "application/xhtml")) or _begins_as_html(text)):
            return Opened(text=text)
        reader = _Reader()
        reader.read(text)
        if reader.has_scripts and len(reader.text.strip()) < LEAST_TEXT:
            return Opened(unseen="it shows its text by JavaScript alone")
        return Opened(text=reader.text)


def _fetched(url: str) -> tuple[bytes, str, str]:
    """(body, content type, final address) of a page. Raises _Unseen, OSError, HTTPException."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise _Unseen("it isn't an address of the web")
    request = urllib.request.Request(url, headers={"User-Agent": AGENT, "Accept": "text/*, */*"})
    started = time.monotonic()
    with urllib.request.build_opener(_Redirects).open(request, timeout=MOST_SECONDS) as answer:
        kind = answer.headers.get("Content-Type", "text/plain")
        if not _IS_TEXT.match(kind):
            raise _Unseen(f"it is no text ({shown(kind, 60)})")
        pieces, size = [], 0
        while piece := answer.read1(1 << 16):
            pieces.append(piece)
            size += len(piece)
            if size > MOST_BYTES:
                raise _Unseen(f"it is longer than {MOST_BYTES // 1_000_000} MB")
            if time.monotonic() - started > MOST_SECONDS:
                raise _Unseen(f"it takes longer than {MOST_SECONDS:.0f} s")
        return b"".join(pieces), kind, answer.geturl()


def _is_home(url: str) -> bool:
    """Whether an address is the start of a site, as /, /en/ and /index.html are."""
    return not re.sub(r"^/(?:[a-z]{2}(?:-[a-z]{2})?/?)?(?:index\.html?)?$", "", urlsplit(url).path)


def _decoded(data: bytes, kind: str) -> str:
    """The text of a page, by its byte order mark, its header or its own word. Raises _Unseen."""
    declared = re.search(r"charset=[\"']?([\w-]+)", kind, re.I)
    written = _CHARSET.search(data[:2048])
    name = next((name for mark, name in _MARKS if data.startswith(mark)), "")
    name = name or (declared[1] if declared else written[1].decode() if written else "utf-8")
    try:
        text = data.decode(name, "replace")
    except LookupError:
        text = data.decode("utf-8", "replace")
    if "\0" in text:
        raise _Unseen("it is no text (it holds NULs)")
    return text


def _begins_as_html(text: str) -> bool:
    return bool(re.match(r"\s*<(?:!doctype html|html)\b", text[:200], re.I))


class _Reader(HTMLParser):
    """The text that a reader of an HTML page sees, and whether the page has scripts."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.has_scripts = False
        self._hidden = 0
        self._pieces: list[str] = []

    @property
    def text(self) -> str:
        """The text that was read so far."""
        return "".join(self._pieces)

    def read(self, text: str) -> None:
        """Read a page. Raises _Unseen for one that takes too long, as a hostile one can."""
        started = time.monotonic()
        for start in range(0, len(text), 1 << 16):
            self.feed(text[start : start + (1 << 16)])
            if time.monotonic() - started > MOST_SECONDS:
                raise _Unseen(f"its HTML takes longer than {MOST_SECONDS:.0f} s to read")
        self.close()

    def handle_starttag(self, tag, attrs):
        self.has_scripts |= tag == "script"
        self._hidden += tag in _HIDDEN
        if tag not in _INLINE:
            self._pieces.append("\n")

    def handle_endtag(self, tag):
        self._hidden -= tag in _HIDDEN and self._hidden > 0
        if tag not in _INLINE:
            self._pieces.append("\n")

    def handle_data(self, data):
        if not self._hidden:
            self._pieces.append(data)

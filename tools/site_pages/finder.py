"""The search by a pasted error text: its index and its page.

The generator's own search wants every word of a query on one page, so a log line with a number or
a path of its own finds nothing. docs/assets/find.js looks for the literal texts of the entries in
what was pasted, as `lookup` does; words only rank the rest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from . import markup
from .page import Page, Place

INDEX = "assets/find.json"
ADDRESS = "find/"


def index_text(pages: Iterable[Page]) -> str:
    """The index as JSON rows.

    a: address, t: title, d: what it is about, k: note, s: literal texts, r: regular expressions,
    w: the page's words. Advice is left out of s and r: libraries print it under every error.
    """
    telling = [(page, [s for s in page.signatures if s.role != "advice"]) for page in pages]
    rows = [
        {
            "a": page.address,
            "t": page.title,
            "d": page.about,
            "k": page.note,
            "s": [signature.text for signature in found if not signature.is_regex],
            "r": [for_browser(signature.text) for signature in found if signature.is_regex],
            "w": markup.plain(page.markdown),
        }
        for page, found in telling
        if page.search
    ]
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":"))


def for_browser(pattern: str) -> str:
    """A Python regular expression in JavaScript's form. The browser ignores case."""
    return re.sub(r"^\(\?i\)", "", pattern).replace("(?P<", "(?<")


def find_page(place: Place) -> Page:
    """The page with the field and the list of results, which the browser computes."""
    form = f"""<form id="find" data-index="{place.to(INDEX)}" data-root="{place.to("")}">
<label for="find-text">An error text, the end of a log, or what you see, in English or Chinese.
Nothing leaves this page.</label>
<textarea id="find-text" name="q" rows="5" spellcheck="false" autocapitalize="off"
 autocomplete="off"></textarea>
</form>
<p id="find-state" role="status">&nbsp;</p>
<ol id="find-hits"></ol>
<noscript><p>The search needs JavaScript.
<a href="{place.to("entries/")}">All entries</a> are on one page.</p></noscript>
<script src="{place.to("assets/find.js")}" defer></script>"""
    more = (
        "The command line reads whole logs, finds the rank that failed first, and says when "
        "nothing matches: `remote-gpu-trainer lookup --log train.log`."
    )
    return Page(
        place.address,
        "Find",
        "\n\n".join(["# Find an entry", markup.raw(form), markup.convert(more, place)]),
        "The known failure behind an error text, the end of a log or what you see, found in the "
        "browser.",
        search=False,
    )

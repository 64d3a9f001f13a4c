"""Convert the project's Markdown to what the generator reads: headings, and finished HTML between.

The text is data. It is read by the rules that its pages have on the repository's own web page
(CommonMark and tables). Its HTML tags are shown as text, its comments are left out, and of its
pictures only those in docs/assets are shown. Nothing of it reaches the generator's own syntax.
"""

from __future__ import annotations

import html
import re

from markdown_it import MarkdownIt
from markdown_it.token import Token
from pygments import highlight as coloured
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound
from remote_gpu_trainer.catalogue.entry import ID

from .page import Place

_COMMENT = re.compile(r"<!--.*?-->", re.S)
_ID = re.compile(rf"(?<![\w./-]){ID.pattern}(?![\w./-]*[\w/])")
_TAG = re.compile(r"(<[^>]*>)")
_SPECIAL = re.compile(r"[\\`*_\[\]{}~^=|!#:+]")
_BASH = {"sh", "bash", "shell"}
_SENTENCE_END = re.compile(r"[.?!:](\s|$)|[。？！：]")
ROOM = 160  # characters, as many as search engines show


def convert(text: str, place: Place, down: int = 0) -> str:
    """A page's text for the generator, its headings `down` levels lower."""
    parts, block = [], []
    tokens = _PARSER.parse(text, {"place": place})

    def close() -> None:
        if block:
            parts.append(raw(_PARSER.renderer.render(block, _PARSER.options, {"place": place})))
            block.clear()

    at = 0
    while at < len(tokens):
        token = tokens[at]
        if token.type == "heading_open" and token.level == 0:
            close()
            parts.append(heading(tokens[at + 1].content, place, min(int(token.tag[1]) + down, 6)))
            at += 3
            continue
        block.append(token)
        at += 1
    close()
    return "\n\n".join(parts) + "\n"


def heading(text: str, place: Place, level: int) -> str:
    """A heading for the generator, of Markdown that may hold code."""
    parts = _TAG.split(re.sub(r"</?a\b[^>]*>", "", inline(text, place)))
    return (
        "#" * level
        + " "
        + "".join(
            part if part.startswith("<") else _SPECIAL.sub(lambda m: f"&#{ord(m[0])};", part)
            for part in parts
        )
    )


def raw(text: str) -> str:
    """A block of finished HTML, which the generator leaves as it is.

    What could begin a fence or be widened is written as a character reference.
    """
    safe = (
        text.strip()
        .replace("`", "&#96;")
        .replace("~~~", "&#126;&#126;&#126;")
        .replace("\t", "&#9;")
    )
    return f"<div>\n{safe}\n</div>"


def inline(text: str, place: Place) -> str:
    """The HTML of a line or paragraph, without the paragraph's tags."""
    return _PARSER.renderInline(" ".join(text.split()), {"place": place})


def plain(markup: str) -> str:
    """The words of a page that `convert` wrote, for the search and for titles."""
    text = re.sub(
        r"^#+ ", "", re.sub(r"</(p|li|td|th|pre|dt|dd|div|h\d)>", "\n", markup), flags=re.M
    )
    return " ".join(html.unescape(_TAG.sub("", text)).split())


def first_sentences(text: str) -> str:
    """The whole sentences at the start of a paragraph that ROOM holds, at least one."""
    told, *more = re.split(r"(?<=[.!?。]) (?=\S)", " ".join(text.split()))
    for sentence in more:
        if len(told) + len(sentence) >= ROOM:
            break
        told += f" {sentence}"
    return told


def opening(text: str, place: Place) -> str:
    """The first sentences of a page, without markup; '' when no paragraph has a sentence.

    A line of links, such as those to other languages, is none.
    """
    tokens = _PARSER.parse(text, {"place": place})
    paragraphs = [
        plain(inline(inside.content, place))
        for token, inside in zip(tokens, tokens[1:], strict=False)
        if token.type == "paragraph_open" and token.level == 0
    ]
    return first_sentences(next(filter(_SENTENCE_END.search, paragraphs), ""))


def _tag(self, tokens, index, options, env) -> str:
    """Leave out a comment, show a tag as text."""
    return html.escape(_COMMENT.sub("", tokens[index].content))


def _fence(self, tokens, index, options, env) -> str:
    language = tokens[index].info.split()[0] if tokens[index].info.split() else "text"
    try:
        lexer = get_lexer_by_name("bash" if language in _BASH else language)
    except ClassNotFound:
        lexer = get_lexer_by_name("text")
    return coloured(
        tokens[index].content, lexer, HtmlFormatter(wrapcode=True, cssclass="highlight")
    )


def _picture(self, tokens, index, options, env) -> str:
    """A picture of docs/assets is shown; of any other only the words that stand for it."""
    words, place = html.escape(tokens[index].content), env["place"]
    path = place.path(str(tokens[index].attrGet("src") or ""))
    if not path.startswith("docs/assets/"):
        return words
    return f'<img src="{html.escape(place.to(path.removeprefix("docs/")))}" alt="{words}">'


def _linked(state) -> None:
    """Turn links of the source into links of the site, and ids into links to their entries."""
    place: Place = state.env["place"]
    for token in state.tokens:
        if token.type == "inline":
            token.children = _with_links(token.children or [], place)


def _with_links(tokens: list[Token], place: Place) -> list[Token]:
    found, inside, dropped = [], 0, []
    for token in tokens:
        if token.type == "link_open":
            target = place.link(str(token.attrGet("href") or ""))
            dropped.append(not target)
            inside += 1
            if target:
                token.attrSet("href", target)
                found.append(token)
        elif token.type == "link_close":
            inside -= 1
            if not dropped.pop():
                found.append(token)
        elif token.type == "text" and not inside:
            found += _with_ids(token.content, place)
        elif token.type == "code_inline" and not inside:
            found += _with_page(token, place)
        else:
            found.append(token)
    return found


def _with_page(code: Token, place: Place) -> list[Token]:
    """Link code that is the path of a page, such as `references/hub.md`, to that page."""
    address = place.addresses.get(code.content) if code.content.endswith(".md") else None
    if address is None or address == place.address:
        return [code]
    link = Token("link_open", "a", 1, attrs={"href": place.to(address)})
    return [link, code, Token("link_close", "a", -1)]


def _with_ids(text: str, place: Place) -> list[Token]:
    """Link the ids in a text to their entries.

    L4 and V100 are graphics cards, so an id with one letter is linked only in brackets, after
    "entry", or where the place says so.
    """
    found, at = [], 0
    for match in _ID.finditer(text):
        address = place.addresses.get(f"entry:{match[0]}")
        before = text[: match.start()]
        clear = (
            place.every_id
            or re.match(r"[A-Z]\w*[A-Z]", match[0])
            or re.search(r"\[([A-Z0-9]+, )*$|\b[Ee]ntry $", before)
        )
        if not address or not clear or address == place.address:
            continue
        found += [
            _text(text[at : match.start()]),
            Token("link_open", "a", 1, attrs={"href": place.to(address)}),
            _text(match[0]),
            Token("link_close", "a", -1),
        ]
        at = match.end()
    return [*found, _text(text[at:])]


def _text(content: str) -> Token:
    return Token("text", "", 0, content=content)


def _make_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    parser.core.ruler.after("inline", "site_links", _linked)
    for name, rule in (
        ("html_block", _tag),
        ("html_inline", _tag),
        ("fence", _fence),
        ("code_block", _fence),
        ("image", _picture),
    ):
        parser.add_render_rule(name, rule)
    parser.add_render_rule(
        "table_open", lambda *_: '<div class="wide" tabindex="0"><table class="data">\n'
    )
    parser.add_render_rule("table_close", lambda *_: "</table></div>\n")
    return parser


_PARSER = _make_parser()

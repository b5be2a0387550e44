"""Markdown as people read it, from texts that may be hostile. Pure.

Nothing in it acts or is fetched: a link shows where it leads and leads nowhere, a picture is named, HTML is text. What
a reader of Markdown leaves out (definitions of links, entities) stays text here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from markupsafe import Markup

from llm_do_temporal.ui.content.documents.syntax import coloured, language_of
from llm_do_temporal.ui.content.renderer import visible, visible_line

_BLOCKS = {"p", "div", "ul", "ol", "li", "blockquote", "pre", "hr", "table", "thead", "tbody", "tr", "th", "td"}
_TAGS = _BLOCKS | {"span", "code", "em", "strong", "s", "br"}
_ATTRIBUTES = {tag: {"class"} for tag in ("div", "span", "pre", "code")}


class _Renderer(RendererHTML):
    """Renderer whose methods, named like the tokens, return HTML made of escaped text."""

    def text(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return visible(tokens[idx].content)

    def code_inline(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return Markup("<code>{}</code>").format(visible(tokens[idx].content))

    def code_block(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return Markup("<pre>{}</pre>").format(visible(tokens[idx].content))

    def fence(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        named = tokens[idx].info.strip()
        shown = coloured(tokens[idx].content, _fenced(named))
        title = Markup('<div class="md-info">{}</div>').format(visible_line(named)) if named else Markup("")
        return Markup("{}<pre>{}</pre>").format(title, shown)

    def heading_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return Markup('<div class="md-heading {}">').format(tokens[idx].tag)

    def heading_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return Markup("</div>")

    def list_item_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        number = tokens[idx].info
        shown = Markup('<span class="md-number">{}{}</span> ').format(visible_line(number), tokens[idx].markup)
        return Markup("<li>") + (shown if number else "")

    def link_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return Markup('<span class="md-link">')

    def link_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        opened = next(token for token in reversed(tokens[:idx]) if token.type == "link_open")
        is_itself = opened.markup == "autolink"
        return Markup("</span>") + (Markup("") if is_itself else _target(opened, "href"))

    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        shown = Markup('<span class="md-image">picture: {}</span>').format(visible(tokens[idx].content))
        return shown + _target(tokens[idx], "src")

    def _cell(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        # Without the styles that align its text: the page allows none.
        return Markup("<{}>").format(tokens[idx].tag)

    th_open = td_open = _cell


def markdown_html(text: str) -> Markup:
    """Return Markdown as HTML without links, pictures, styles and scripts."""
    return Markup(nh3.clean(_markdown.render(text), tags=_TAGS, attributes=_ATTRIBUTES, link_rel=None))  # noqa: S704


def _target(token: Token, name: str) -> Markup:
    address, title = str(token.attrGet(name) or ""), str(token.attrGet("title") or "")
    told = Markup(" “{}”").format(visible_line(title)) if title else Markup("")
    return Markup(' <span class="md-url">({}{})</span>').format(visible_line(address), told)


def _fenced(info: str) -> str | None:
    name = info.split()[0] if info.split() else ""
    return language_of(f"a.{name}") or language_of(_NAMED.get(name.lower(), ""))


_NAMED = {"python": "a.py", "javascript": "a.js", "typescript": "a.ts", "bash": "a.sh", "shell": "a.sh", "rust": "a.rs"}


def _make_markdown() -> MarkdownIt:
    made = MarkdownIt("commonmark", {"html": False}, renderer_cls=_Renderer)
    made.enable(["table", "strikethrough"]).disable(["reference", "entity"])
    unchanged: Any = str
    made.normalizeLink = made.normalizeLinkText = unchanged
    # Nothing is followed, so every address is shown as one.
    made.validateLink = lambda url: True  # pyright: ignore[reportAttributeAccessIssue]
    return made


_markdown = _make_markdown()

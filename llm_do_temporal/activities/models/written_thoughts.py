"""Thoughts that a model wrote into its text, between tags.

Called by the wrapper that sends model turns. An adapter takes such thoughts out of a text only where a tag comes as a
piece of its own, or where the answer comes as a whole; some adapters never do.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

from pydantic_ai.messages import ModelResponse, ModelResponsePart, TextPart, ThinkingPart
from pydantic_ai.models import Model

_Tags = tuple[tuple[str, str], ...]
_TAGS: _Tags = (("<think>", "</think>"), ("<thinking>", "</thinking>"), ("[THINK]", "[/THINK]"))
_CONTENT = "content"
"""Id that an adapter gives to a thought that it found in the text of an answer."""


def with_thoughts(answer: ModelResponse, model: Model) -> ModelResponse:
    """Return the answer with the thoughts in its text as parts of their own."""
    own = model.profile.get("thinking_tags")
    tags = (*_TAGS, own) if own and own not in _TAGS else _TAGS
    parts: list[ModelResponsePart] = []
    for part in answer.parts:
        if isinstance(part, TextPart):
            is_after = bool(parts) and isinstance(parts[-1], ThinkingPart)
            parts.extend(_split(replace(part, content=part.content.lstrip("\r\n")) if is_after else part, tags))
        elif isinstance(part, ThinkingPart) and part.id == _CONTENT:
            parts.extend(_ended(part, tags))
        else:
            parts.append(part)
    return replace(answer, parts=parts)


@lru_cache
def _patterns(tags: _Tags) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the patterns of a thought anywhere, and of one at the beginning whose first or last tag is missing.

    A tag in backticks is text.
    """
    pairs = [(re.escape(begin), re.escape(end)) for begin, end in tags]
    closed = "|".join(f"(?<!`){begin}(?!`)(.*?){end}" for begin, end in pairs)
    # Templates of some models put the first tag into the prompt.
    half = "|".join(rf"\A\s*{begin}(?!`)(.*)\Z|\A(.*?)(?:\n\s*{end}|{end}[ \t]*\n)" for begin, end in pairs)
    return re.compile(closed, re.DOTALL), re.compile(half, re.DOTALL)


def _split(part: TextPart, tags: _Tags) -> list[ModelResponsePart]:
    text = part.content
    if not any(end in text or begin in text for begin, end in tags):
        return [part]
    closed, half = _patterns(tags)
    found = list(closed.finditer(text)) or [match for match in [half.search(text)] if match]
    if not found:
        return [part]
    parts: list[ModelResponsePart] = []
    at = 0
    for match in found:
        parts.extend(_said(part, text[at : match.start()], after_thought=at > 0))
        thought = next(group for group in match.groups() if group is not None)
        parts.extend([ThinkingPart(thought.strip())] if thought.strip() else [])
        at = match.end()
    return [*parts, *_said(part, text[at:], after_thought=True)]


def _ended(part: ThinkingPart, tags: _Tags) -> list[ModelResponsePart]:
    """Return a thought, and the text after its end, which the adapter did not see where it came in two pieces."""
    for _, end in tags:
        thought, found, after = part.content.partition(end)
        if found:
            text = _split(TextPart(after.lstrip()), tags) if after.strip() else []
            return [*([replace(part, content=thought)] if thought.strip() else []), *text]
    return [part]


def _said(part: TextPart, text: str, *, after_thought: bool) -> list[ModelResponsePart]:
    text = text.lstrip() if after_thought else text
    return [replace(part, content=text)] if text.strip() else []

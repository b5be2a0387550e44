"""Words of models and of people, and results, as people read them. Pure."""

from __future__ import annotations

import re
from typing import Any

from llm_do_temporal.ui.content.documents.document import ReadText, document_of
from llm_do_temporal.ui.content.documents.syntax import coloured
from llm_do_temporal.ui.content.renderer import pretty, visible

_MARKUP = re.compile(r'<(?!/?p>|div class="markdown">|/div>)')


def as_read(value: Any) -> ReadText:
    """Return a text, which may be Markdown, or a JSON value. Of a text without any markup the source is shown."""
    if not isinstance(value, str):
        return ReadText(coloured(pretty(value), "json"))
    document = document_of("words.md", value)
    has_markup = document.read is not None and _MARKUP.search(document.read) is not None
    return document if has_markup else ReadText(visible(value))

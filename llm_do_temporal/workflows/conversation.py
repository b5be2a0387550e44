"""What a model is told when an invocation begins: the text, and references to the attachments."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from pydantic_ai.messages import DocumentUrl, ImageUrl, UserContent

from llm_do_temporal.activities.serving import BLOB_SCHEME
from llm_do_temporal.policy.attachments import Attachment

_NOTHING_SAID = "Begin."
"""Providers refuse an empty message; a worker may be started with no prompt at all."""


def opening(prompt: str, given: Any, attachments: Sequence[Attachment]) -> str | list[UserContent]:
    """The first user message: prompt, input and one reference an attachment. Bytes are added when it is sent."""
    texts = [prompt] if prompt.strip() else []
    if given is not None:
        texts.append(given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, indent=2))
    text = "\n\n".join(texts) or _NOTHING_SAID
    if not attachments:
        return text
    content: list[UserContent] = [text]
    for attachment in attachments:
        content.append(f"Attached file: {attachment.path} ({attachment.media_type}, {attachment.bytes} bytes)")
        content.append(_reference(attachment))
    return content


def _reference(attachment: Attachment) -> UserContent:
    url = f"{BLOB_SCHEME}{attachment.sha256}#{quote(attachment.path)}"
    if attachment.media_type.startswith("image/"):
        return ImageUrl(url, media_type=attachment.media_type)
    return DocumentUrl(url, media_type=attachment.media_type)

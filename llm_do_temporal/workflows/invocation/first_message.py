"""The first message of an invocation to its model: the text, and references to the attachments."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pydantic_ai.messages import UserContent

from llm_do_temporal.message_history import reference
from llm_do_temporal.messages.runs import InvokeWorkerInput
from llm_do_temporal.policy.files.attachments import Attachment, Form, accepted_files, attachment_forms
from llm_do_temporal.policy.models import Accepts, label, models_of
from llm_do_temporal.redaction.hidden_characters import made_visible

_NOTHING_SAID = "Begin."
"""Providers refuse an empty message; a worker may be started with no prompt at all."""


def first_message(invocation: InvokeWorkerInput) -> str | list[UserContent]:
    """Return the first user message of an invocation. Raises AttachmentRefusal for a file that a model cannot get."""
    aliases, model = invocation.settings.models.aliases, invocation.model
    forms = attachment_forms(
        invocation.attachments,
        invocation.worker.attachments_as or invocation.settings.attachments_as,
        frozenset[Accepts].intersection(*(accepted_files(aliases, name) for name in models_of(model))),
        model=label(aliases, model),
    )
    return opening(invocation.prompt, invocation.input, invocation.attachments, forms)


def opening(
    prompt: str, given: Any, attachments: Sequence[Attachment], forms: Sequence[Form]
) -> str | list[UserContent]:
    """Return the first user message: prompt, input, and a reference to each attachment.

    The activity of the model turn replaces the references by the files in their `forms`.
    """
    texts = [prompt] if prompt.strip() else []
    if given is not None:
        texts.append(given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, indent=2))
    text = "\n\n".join(texts) or _NOTHING_SAID
    if not attachments:
        return text
    content: list[UserContent] = [text]
    for attachment, form in zip(attachments, forms, strict=True):
        # A name with a line end would add lines of its own to the prompt.
        shown = attachment.model_copy(update={"path": made_visible(attachment.path, keep="")})
        content.append(f"Attached file: {shown.path} ({attachment.media_type}, {attachment.bytes} bytes)")
        content.append(reference(shown, form))
    return content

"""Ends of answers: whole, cut, or broken off by the provider.

Called by the wrapper that sends model turns, before an answer enters a history. Adapters know the finish reasons of
their own protocol; gateways and local servers send many others, and an adapter leaves out what they mean. An answer
that its server broke off is no whole answer, whatever text has come.
"""

from __future__ import annotations

import re
from dataclasses import replace

from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.messages import BaseToolCallPart, FinishReason, ModelResponse, TextPart

from llm_do_temporal.redaction.hidden_characters import cut

_OTHER = re.compile(r"[^a-z]+")
_SIGNS: tuple[tuple[FinishReason, tuple[str, ...]], ...] = (
    (
        "error",
        (
            *("error", "fail", "abort", "cancel", "interrupt", "disconnect", "timeout", "timedout", "malformed"),
            *("insufficient", "unavailable", "overload", "incomplete", "inprogress", "queued", "unexpected", "toomany"),
            "missing",
        ),
    ),
    ("length", ("length", "maxtoken", "maxoutput", "maxnewtoken", "tokenlimit", "context", "truncat")),
    (
        "content_filter",
        (
            "filter",
            "safety",
            "sensitive",
            "blocked",
            "blocklist",
            "prohibited",
            "recitation",
            "moderation",
            "guardrail",
        ),
    ),
)
"""Pieces of words in the finish reasons of servers, by what they mean; the first that fits decides."""
_EXACT: dict[str, FinishReason] = {"load": "error", "other": "error"}
"""Reasons whose word is also a piece of others."""
NO_REASON = (None, "", "FINISH_REASON_UNSPECIFIED")
"""Finish reasons that say nothing, the last one of Google's protocol.

A stream has no end then. A whole answer is taken as whole, as its body has an end of its own."""
_REASON_CHARS = 60
"""Longest reason of a server that an error quotes."""


def with_known_end(answer: ModelResponse) -> ModelResponse:
    """Return the answer, with a finish reason that means a cut in the project's words.

    An answer that its provider will go on with has no end yet. Raises UnexpectedModelBehavior for one that its server
    broke off, or that lacks the calls it announces.
    """
    if answer.state == "suspended":
        return answer
    sent = (answer.provider_details or {}).get("finish_reason")
    reason = answer.finish_reason or (meaning(sent) if isinstance(sent, str) else None)
    if reason is None and isinstance(sent, str) and (answer.provider_name or "").startswith("google"):
        # Its reasons are all named, and each but STOP is for an answer that is not whole.
        reason = None if sent == "STOP" or sent in NO_REASON else "error"
    if reason == "error" and not _is_slip(answer, sent):
        words = cut(sent, _REASON_CHARS) if isinstance(sent, str) else reason
        raise UnexpectedModelBehavior(f"its server broke it off, with the finish reason '{words}'")
    if reason == "tool_call" and not any(isinstance(part, BaseToolCallPart) for part in answer.parts):
        raise UnexpectedModelBehavior("it ends with tool calls, and has no tool call")
    return replace(answer, finish_reason=reason)


def _is_slip(answer: ModelResponse, sent: object) -> bool:
    """Return whether the model made a call that its provider could not read, and said nothing else.

    The model is told so in its next turn: asked the same again, it would often do the same.
    """
    has_words = any(isinstance(part, TextPart) and part.content.strip() for part in answer.parts)
    return isinstance(sent, str) and "call" in _OTHER.sub("", sent.lower()) and not has_words


def meaning(sent: str) -> FinishReason | None:
    """Return what a server's reason means; None: nothing that is known, or that the answer is whole."""
    plain = _OTHER.sub("", sent.lower())
    if plain in _EXACT:
        return _EXACT[plain]
    return next((reason for reason, signs in _SIGNS if any(sign in plain for sign in signs)), None)

"""Sizes on the wire, in bytes: what a value, an answer of a model and the arguments of its calls may have at most."""

from __future__ import annotations

MAX_CALL_BYTES = 1024 * 1024
"""Arguments of all tool calls of one answer, as JSON. What they set off travels together, each several times (in the
question for a person beside their diff, in the activity), and one message to the server has at most 4 MiB."""
MAX_ANSWER_BYTES = 4 * 1024 * 1024
"""One answer of a model, its text or its structured output included; far more than any model writes at once."""
OVERSIZED = "llm_do_oversized_bytes"
"""The only argument of a call whose real arguments were too large to keep: their size."""
KEPT_FROM_BYTES = 256 * 1024
"""From here on a value goes to the blob store."""
MAX_INLINE_BYTES = 1_900_000
"""The largest value that a client without the blob store sends; Temporal takes 2 MiB."""
MAX_VALUE_BYTES = 16 * 1024 * 1024
"""The largest value that is sent at all: what a workflow can work on without holding up its worker service."""
TOO_LARGE = "PayloadsTooLarge"
"""The SDK's name, and ours, for a result that cannot be carried; it is no smaller the next time."""

"""Sizes of all that crosses Temporal or is kept in a history: each limit once, with its unit and its reason.

The server takes 2 MiB for one value and 4 MiB for one message, and ends a workflow whose history has 50 MB. Names end
in the unit: BYTES are of UTF-8, or of JSON in UTF-8, and CHARS are characters of a text. Limits on files, on answers of
providers and on requests to a page stand where they are checked.
"""

from __future__ import annotations

# Values
KEPT_FROM_BYTES = 256 * 1024
"""Smallest value that goes to the blob store instead of the history."""
MAX_INLINE_BYTES = 1_900_000
"""Largest value that a client without the blob store sends; Temporal takes 2 MiB."""
MAX_VALUE_BYTES = 16 * 1024 * 1024
"""Largest value that is sent at all: more would hold up the worker service that works on it."""
TOO_LARGE = "PayloadsTooLarge"
"""Type of the failure of a result that cannot be carried, named by the SDK; it is no smaller the next time."""

# Answers of models
MAX_ANSWER_BYTES = 4 * 1024 * 1024
"""Largest answer of a model that is kept, its text or structured output included; far more than any model writes."""
MAX_CALL_BYTES = 1024 * 1024
"""Largest arguments of all tool calls of one answer together, as JSON. All that they set off travels at once, each
several times (in the question for a person beside its diff, in the activity), and one message to the server has at most
4 MiB."""
MAX_CALLS = 200
"""Most tool calls of one answer that are taken: a workflow begins them all in one task, which has little time."""
OVERSIZED = "llm_do_oversized_bytes"
"""The only argument of a call whose real arguments were too large to keep: their size in bytes."""
LIVE_TEXT_CHARS = 4_000
"""Longest end of an unfinished answer that a heartbeat carries: enough for a screen."""
QUOTED_CHARS = 500
"""Longest quotation of a model that refuses, or of a provider that fails, in an error."""

# Failures
FAILURE_CHARS = 20_000
"""Longest text in a failure that goes into a history: of its message, of each text of its details and of its causes."""
TRACE_CHARS = 8_000
"""Longest end of a stack trace in a failure."""
MAX_CAUSES = 8
"""Causes of a failure that are kept, one behind the other."""
LOG_CHARS = 8_000
"""Longest message, and longest traceback, of one line in a service's log."""
MAX_LOGGED_CHARS = 16_000
"""Most characters in a service's log of one failure of a toolset, of a server's standard error during one use, and of
what one call of other people's code writes to the standard streams."""

# Tools
MAX_READ_CHARS = 1_000_000
"""Longest text that one call of `read_file` returns: more than most models can be told at all. Escaped as JSON that is
up to 6 MB."""
MAX_CONTEXT_CHARS = 1_000_000
"""Longest text of all files of one call's `extra_context` together, and of all fragments of a TemplateCall."""
MAX_DIFF_CHARS = 64 * 1024
"""Longest difference that a question about a change shows; more is cut off. It is kept by the asking workflow and by
the desk."""
SHOWN_OUTPUT_BYTES = 64 * 1024
"""Beginning of each stream of a command that its result carries; both together stay far below what a history takes."""
MAX_PYTHON_RESULT_BYTES = 8_000_000
"""Largest result of a Python tool, as JSON: half of what the next request can carry."""
MAX_CALL_FOR_TOOL_BYTES = MAX_CALL_BYTES
"""Largest call of a worker that a running tool makes: as much as all calls of one answer of a model may have."""
MAX_PINNED_BYTES = 256 * 1024
"""Largest file with functions for workflow code: it travels with its worker, in every delegation to it."""

# Toolsets of packages and MCP servers
MAX_LISTING_BYTES = 256 * 1024
"""Largest list of tools of one toolset, as JSON: the schemas travel with every turn."""
MAX_DESCRIPTION_CHARS = 8_000
"""Longest description of a listed tool; more is cut off."""
MAX_EXTERNAL_RESULT_BYTES = 256 * 1024
"""Largest result of one call, as JSON: it comes back with every later turn."""
MAX_EXTERNAL_ERROR_CHARS = 16_000
"""Longest error of a toolset: it goes to a model, and into a history."""

# Batches
ITEM_ERROR_CHARS = 120
"""Beginning of an item's error that the run's own result tells; the item's workflow has all of it."""
ITEM_RESULT_BYTES = 300
"""Most that one item's result takes in the state that a batch carries on when it is continued as new."""

MAX_READ_ITEMS = 5_000
"""Most items that a run reads by itself: a folder that has grown beyond that is a mistake rather than a wish."""
MAX_LINES_BYTES = 8 * 1024 * 1024
"""Largest file whose lines a run reads as items: half of what the start of a run can carry."""

# Names, summaries, notifications
MAX_ID_CHARS = 255
"""Longest id of a workflow: PostgreSQL and MySQL keep no more, and a server on one of them tries a start with a longer
id for ever. The development server would take 1,000."""
MAX_RUN_ID_CHARS = 150
"""Longest id of a run, which leaves room for the paths of what it delegates to."""
MAX_KEYWORD_CHARS = 255
"""Longest value of a search attribute of type Keyword: PostgreSQL and MySQL keep no more, and leave a workflow with a
longer one out of every list."""
SUMMARY_CHARS = 200
"""Longest one-line summary of an activity, a workflow or a call, in histories, memos and lists."""
NOTIFIED_SUMMARY_CHARS = 500
"""Longest summary of a call in a notification."""
NOTIFIED_CONTENT_CHARS = 64_000
"""Longest content of a notification, as JSON; more is left out, and only its size is told."""

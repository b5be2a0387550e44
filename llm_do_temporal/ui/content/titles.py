"""Titles of requests in words of people: what is wanted, before the technical line of the call. Pure.

A title is made from what a model chose. It is text, it is cut with `…`, and it never replaces the summary or the whole
call, which are shown with it.
"""

from __future__ import annotations

from collections.abc import Mapping

from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.client.views.inbox import InboxEntry
from llm_do_temporal.policy.values import canonical
from llm_do_temporal.redaction.hidden_characters import shown_value

TITLE_CHARS = 160
_VALUE_CHARS = 48
_MOST_VALUES = 3
_REPEATED = "may have happened: "
_VERBS = {
    "write_file ": ("Write the file ", "Write files: "),
    "edit_file ": ("Change the file ", "Change files: "),
    "shell ": ("Run the command ", "Run commands: "),
    "call ": ("Call the worker ", "Call the worker "),
    "share ": ("Share the file ", "Share files: "),
    "create worker ": ("Create the worker ", "Create workers: "),
}
"""First words of a summary, and what one request is called by instead, and many."""
_PREPOSITIONS = frozenset(("at", "by", "for", "from", "in", "into", "of", "on", "to", "with"))


def entry_title(entry: InboxEntry) -> str:
    """Return the title of a question in a list."""
    args = entry.group.cells if entry.group is not None else {}
    is_whole = entry.group is not None and not entry.group.left_out
    return request_title(entry.tool, entry.summary, args, is_whole=is_whole)


def question_title(question: Question) -> str:
    """Return the title of a question."""
    request = question.request
    args = {name: value if isinstance(value, str) else canonical(value) for name, value in request.args.items()}
    return request_title(request.tool, request.summary, args)


def group_title(title: str) -> str:
    """Return the title of a group of similar questions."""
    return _cut(
        next((many + title[len(verb) :] for verb, (_, many) in _VERBS.items() if title.startswith(verb)), title)
    )


def tells_more(title: str, summary: str) -> bool:
    """Whether a summary has words behind its first one that the title does not have."""
    return summary.partition(" ")[2] not in title


def request_title(tool: str, summary: str, args: Mapping[str, str], *, is_whole: bool = True) -> str:
    """Return what a call wants, like `Send mail to ann@x.org, subject: Hello`. `is_whole` says whether `args` are."""
    if summary.startswith(_REPEATED):
        return _cut(f"Repeat what may have happened: {summary[len(_REPEATED) :]}")
    for verb, (single, _) in _VERBS.items():
        rest = summary[len(verb) :]
        # A tool of the workshop or of a server may be called like a verb; its summary goes on like this.
        if summary.startswith(verb) and not (tool == verb.split()[0] and rest.startswith(("{", "of "))):
            return _cut(single + rest)
    if summary != tool and not summary.startswith(f"{tool} "):
        return _cut(summary[:1].upper() + summary[1:] if summary.startswith("review ") else summary)
    words = tool.replace("_", " ").replace("-", " ").strip() or tool
    shown = list(args.items())[:_MOST_VALUES]
    told = [_told(name, value) for name, value in shown]
    if len(args) > len(shown) or not is_whole:
        told.append("…")
    return _cut(f"{words[:1].upper()}{words[1:]}{_joined(told)}")


def _told(name: str, value: str) -> str:
    short = shown_value(value if len(value) <= _VALUE_CHARS else f"{value[:_VALUE_CHARS]}…")
    return f"{name} {short}" if name in _PREPOSITIONS else f"{name}: {short}"


def _joined(told: list[str]) -> str:
    if not told:
        return ""
    is_phrase = told[0].partition(" ")[0] in _PREPOSITIONS
    values = ", ".join(told)
    return f" {values}" if is_phrase else f" ({values})"


def _cut(title: str) -> str:
    return title if len(title) <= TITLE_CHARS else f"{title[:TITLE_CHARS]}…"

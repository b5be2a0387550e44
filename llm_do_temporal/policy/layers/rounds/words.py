"""Words for a model about a review: what was not accepted, what people changed, and what they said.

Bounded, whatever the review: differences are left out first, then names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from llm_do_temporal.policy.layers.answer import LineComment
from llm_do_temporal.policy.layers.sections import Section
from llm_do_temporal.policy.values import Value

MAX_DIFFERENCES = 6_000
"""Most characters of differences."""
MAX_NAMES = 100
"""Most paths that one list names."""
MAX_COMMENTS = 40_000
"""Most characters of comments."""


class PathDifference(Value):
    """Path with the difference that is told of it."""

    path: str
    difference: str = ""
    """Body of a unified diff; empty where there is none to show."""


class ReturnedSection(Value):
    """Section of a review, as it comes back to the model. Paths are those that the model knows."""

    section: Section
    by: str = ""
    """Name of the person who decided; empty: nobody was asked, or nobody said a name."""
    note: str = ""
    keeps_rest: bool = False
    rejected: tuple[str, ...] = ()
    in_part: tuple[PathDifference, ...] = ()
    """Files that were accepted in part, with the difference that was not."""
    edited: tuple[PathDifference, ...] = ()
    """Files that were accepted as somebody changed them, with what they changed."""
    left_out: tuple[tuple[str, str], ...] = ()
    """Pairs of a path that was accepted and the path it needs, which was not."""
    comments: tuple[LineComment, ...] = ()


def review_words(sections: Sequence[ReturnedSection]) -> str:
    """Return the words; empty where there is nothing to tell."""
    room = _Room()
    return "\n\n".join(part for section in sections for part in _parts(section, room))


class _Room:
    """Characters that are left."""

    def __init__(self) -> None:
        self._differences = MAX_DIFFERENCES
        self._comments = MAX_COMMENTS

    def has_difference(self, text: str) -> bool:
        if not text or len(text) > self._differences:
            return False
        self._differences -= len(text)
        return True

    def has_comment(self, text: str) -> bool:
        self._comments -= len(text)
        return self._comments >= 0


def _parts(told: ReturnedSection, room: _Room) -> Iterator[str]:
    who = _one_line(told.by) or "the review"
    of = "" if told.section is Section.ORDINARY else f" ({told.section.value.replace('_', ' ')})"
    state = "They are still among your changes" if told.keeps_rest else "They are again as they were before"
    if told.rejected:
        yield f"Not accepted{of}. {state}:\n{_listed(told.rejected)}"
    if told.in_part:
        head = f"Accepted in part{of}. What follows was not accepted, and "
        head += "is still among your changes:" if told.keeps_rest else "is not in the files:"
        yield _shown(head, told.in_part, room)
    if told.edited:
        yield _shown(f"Accepted as {who} has changed it{of}; the files have this now:", told.edited, room)
    if told.left_out:
        pairs = [f"{path}, because of {needed}" for path, needed in told.left_out]
        yield f"Left out{of}, since each needs another change that was not accepted:\n{_listed(pairs)}"
    if told.comments:
        yield f"Comments of {who}{of}:\n" + _comments(told.comments, room)
    if told.note:
        yield f"Said by {who}{of}: {told.note}"


def _shown(head: str, files: Sequence[PathDifference], room: _Room) -> str:
    shown = [head]
    names: list[str] = []
    for file in files:
        if room.has_difference(file.difference):
            shown.append(f"{_one_line(file.path)}:\n{file.difference.rstrip()}")
        else:
            names.append(file.path)
    return "\n".join([*shown, *([_listed(names)] if names else [])])


def _comments(comments: Sequence[LineComment], room: _Room) -> str:
    lines: list[str] = []
    for number, comment in enumerate(comments):
        where = _one_line(comment.path) + ("" if comment.line is None else f":{comment.line}")
        line = f"{where}: " + "\n    ".join(comment.text.splitlines())
        if not room.has_comment(line):
            lines.append(f"and {len(comments) - number} more comments")
            break
        lines.append(line)
    return "\n".join(lines)


def _listed(names: Sequence[str]) -> str:
    lines = [f"- {_one_line(name)}" for name in names[:MAX_NAMES]]
    if len(names) > MAX_NAMES:
        lines.append(f"- and {len(names) - MAX_NAMES} more")
    return "\n".join(lines)


def _one_line(name: str) -> str:
    """Return a name in which nothing can be taken for the next line."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in name)

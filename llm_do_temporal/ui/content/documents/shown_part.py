"""Parts of a call as the page shows them: differences on two sides, files as people read them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from llm_do_temporal.messages.approvals import RequestApprovalInput
from llm_do_temporal.policy.files.protection import PATH_TOOLS
from llm_do_temporal.ui.content.call_parts import Part, tells_all
from llm_do_temporal.ui.content.documents.diffs import DiffBlock, blocks_of
from llm_do_temporal.ui.content.documents.document import ReadText, document_of
from llm_do_temporal.ui.content.documents.syntax import coloured, language_of

_FILE_TEXTS = frozenset({"content", "old_text", "new_text"})


@dataclass(frozen=True)
class ShownPart:
    """Part of a call with what a page needs to show it."""

    part: Part
    document: ReadText
    blocks: list[DiffBlock] = field(default_factory=list[DiffBlock])
    """Sides of a difference; empty for other kinds."""
    is_told: bool = False
    """Whether a difference above shows all that the part changes, so that it need not be opened."""


def shown_parts(parts: Sequence[Part], request: RequestApprovalInput) -> list[ShownPart]:
    """Return the parts of a call in the order in which people read them: commands and differences first."""
    path = str(request.args.get("path", "")) if request.tool in PATH_TOOLS else ""
    is_compared = any(part.kind == "diff" and tells_all(part.text) for part in parts)
    first = [part for part in parts if part.kind in ("argv", "diff")]
    return [shown_part(part, path, is_compared=is_compared) for part in (*first, *(p for p in parts if p not in first))]


def shown_part(part: Part, path: str = "", *, is_compared: bool = False) -> ShownPart:
    """Return a part that is about the file at `path`; `is_compared` if a difference of that file is shown, too."""
    if part.kind == "diff":
        return ShownPart(part, ReadText(coloured(part.text, None)), blocks_of(part.text, language_of(path)))
    if part.kind == "json":
        return ShownPart(part, ReadText(coloured(part.text, "json")))
    is_file = bool(path) and part.label in _FILE_TEXTS
    document = document_of(path if is_file else "", part.text, is_written=True)
    return ShownPart(part, document, is_told=is_file and is_compared)

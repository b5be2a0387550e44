"""The offline whiteboard planner: makes a plan of the notes in a PNG's description.

The script sees no picture. The board that ships carries its notes as text in the file as well, in a `tEXt` chunk
called `Description`; of any other picture the script says that it cannot see it.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator

from llm_do_temporal.offline.model.play import PlaySteps
from llm_do_temporal.offline.model.seen import SeenRequest

SIGNATURE = b"\x89PNG\r\n\x1a\n"
_HEAD = struct.Struct(">I4s")
_CHECKSUM_BYTES = 4
_SECTIONS = {"goal": "Goal", "todo": "Steps", "done": "Done", "open": "Open"}
"""Word before the colon of a note, and the section for that word; a note without such a word is a step."""


def plan(seen: SeenRequest) -> PlaySteps:
    """Answer with a plan, or with the reason why there is none."""
    yield from ()
    picture = next((item for item in seen.attachments if item.media_type.startswith("image/")), None)
    if picture is None:
        return "There is no plan: no picture of a whiteboard is attached."
    notes = description(picture.data)
    if not notes:
        return f"There is no plan: {picture.identifier} has no description, and this script cannot see pictures."
    return "\n\n".join(
        [*_sections(notes), f"Planned from the description in {picture.identifier}, not from the picture."]
    )


def description(data: bytes) -> str:
    """Return the text called `Description` of a PNG; empty if it has none, or if the bytes are no PNG."""
    return next((text.decode("latin-1") for name, _, text in map(_divided, _texts(data)) if name == b"Description"), "")


def _divided(chunk: bytes) -> tuple[bytes, bytes, bytes]:
    return chunk.partition(b"\0")


def _texts(data: bytes) -> Iterator[bytes]:
    position = len(SIGNATURE) if data.startswith(SIGNATURE) else len(data)
    while position + _HEAD.size <= len(data):
        length, kind = _HEAD.unpack_from(data, position)
        position += _HEAD.size
        if kind == b"tEXt":
            yield data[position : position + length]
        position += length + _CHECKSUM_BYTES


def _sections(notes: str) -> Iterator[str]:
    found: dict[str, list[str]] = defaultdict(list)
    for line in filter(str.strip, notes.splitlines()):
        kind, _, note = line.partition(":")
        word = kind.strip().lower()
        found[word if word in _SECTIONS else "todo"].append((note if word in _SECTIONS else line).strip())
    for word, title in _SECTIONS.items():
        if found[word]:
            mark = "{}. " if word == "todo" else "- "
            lines = [mark.format(number) + note for number, note in enumerate(found[word], start=1)]
            yield "\n".join([f"## {title}", "", *lines])

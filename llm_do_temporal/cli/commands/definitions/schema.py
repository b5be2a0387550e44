"""`schema`: JSON Schema of the files that people write, for editors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from llm_do_temporal.extension import definition_files

if TYPE_CHECKING:
    SchemaKind = str
else:
    SchemaKind = Literal[("worker", "workshop", *(one.kind for one in definition_files()))]


def schema(kind: SchemaKind, /) -> None:
    """Print the JSON Schema of a kind of file, for editors. Made of what reads the file, so `check` agrees with it.

    Parameters
    ----------
    kind
        Kind of file: a worker's keys, workshop.yaml, or an evaluation file.
    """
    from llm_do_temporal.definitions.schemas.published import published_json

    print(published_json(kind), end="")

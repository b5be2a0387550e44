"""`schema`: JSON Schema of the files that people write, for editors."""

from __future__ import annotations

from typing import Literal


def schema(kind: Literal["worker", "workshop", "eval"], /) -> None:
    """Print the JSON Schema of a kind of file, for editors. Made of what reads the file, so `check` agrees with it.

    Parameters
    ----------
    kind
        Kind of file: a worker's keys, workshop.yaml, or an evaluation file.
    """
    from llm_do_temporal.definitions.schemas.published import published_json

    print(published_json(kind), end="")

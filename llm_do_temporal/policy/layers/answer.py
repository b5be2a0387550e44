"""Answer of a person to a review: the changes that are accepted, and words about the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from llm_do_temporal.errors import DecisionRefused
from llm_do_temporal.policy.layers.layer import Layer
from llm_do_temporal.policy.layers.nodes import Digest
from llm_do_temporal.policy.layers.paths import lies_below
from llm_do_temporal.policy.values import Value

ALL = "/"
"""Name of the folder in which all changes are: no file can have it."""
_FORMER_ALL = "*"
"""Name that stood for all changes, and may be a file's."""
_LITERAL = "./"
"""Beginning of a name that is a path, whatever else it could mean."""
MAX_COMMENTS = 200
Words = Annotated[str, Field(min_length=1, max_length=4_000)]


class LineComment(Value):
    """Remark of a person on a changed file."""

    path: str
    line: int | None = Field(default=None, ge=1)
    """Number of the line in the changed file, from 1; None: the file as a whole."""
    text: Words


class ReviewAnswer(Value):
    """Arguments of the question that a review asks. As it is asked, all changes are accepted but conflicts."""

    changes: Digest
    """Digest of the changes that were shown."""
    accept: tuple[str, ...] = (ALL,)
    """Paths that are accepted as a whole. One that ends in `/` stands for all below it that is no conflict, and `/` for
    all changes that are none. `./PATH` is the change of this path alone. `*` is an earlier name of `/`, and is refused
    where a changed file is called so."""
    hunks: Mapping[str, tuple[str, ...]] = {}
    """Ids of the hunks that are accepted, of files that are accepted in part."""
    edits: Mapping[str, Digest] = {}
    """Blobs with the contents that a person gave to files, which are accepted with that."""
    comments: tuple[LineComment, ...] = Field(default=(), max_length=MAX_COMMENTS)
    rest: Literal["drop", "keep"] = "drop"
    """Treatment of the changes that are not accepted: files go back to their state before, or stay as they are in the
    layer."""

    def paths(self, layer: Layer, conflicts: frozenset[str] = frozenset()) -> list[str]:
        """Return the paths among the layer's changes that are accepted as a whole.

        Raises DecisionRefused for one that is not among them.
        """
        changed = layer.changes
        taken: set[str] = set()
        for name in self.accept:
            folder = name.removesuffix("/")
            if name == _FORMER_ALL and name in changed:
                raise DecisionRefused(
                    "'*' may mean all changes, or the changed file with this name",
                    next_step="Write '/' for all changes, './*' for the file.",
                )
            if name in (ALL, _FORMER_ALL):
                found = {path for path in changed if path not in conflicts}
            elif name.startswith(_LITERAL):
                found = {name.removeprefix(_LITERAL)} & changed.keys()
            elif name.endswith("/"):
                inside = {path for path in changed if path == folder or lies_below(path, folder)}
                found = inside - conflicts
                if inside and not found:
                    raise DecisionRefused(
                        f"all that changed in '{name}' was changed by somebody else meanwhile",
                        next_step="Accept each of these files by its name.",
                    )
            else:
                found = {name} & changed.keys()
            if not found and name not in (ALL, _FORMER_ALL):
                raise DecisionRefused(f"'{name}' is not among the changes", next_step="Look at the review again.")
            taken |= found
        in_part = {*self.hunks, *self.edits}
        return [path for path in changed if path in taken and path not in in_part]


def named(path: str) -> str:
    """Return the name in `accept` that means the change of this path alone, whatever a stranger called the file."""
    return f"{_LITERAL}{path}" if path == _FORMER_ALL or path.startswith(_LITERAL) else path

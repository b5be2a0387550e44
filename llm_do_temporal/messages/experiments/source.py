"""Source of what a fork reuses, as it travels with every request that may be looked up."""

from __future__ import annotations

from pydantic import Field

from llm_do_temporal.messages.base import Message, is_false
from llm_do_temporal.messages.budget import Saved
from llm_do_temporal.policy.layers.layer import Digest


class ForkSource(Message):
    """Record of another run, which an invocation of a fork looks its steps up in."""

    run: str
    """Workflow id of the other run."""
    index: Digest
    """Blob with the ForkIndex."""
    then: bool = Field(default=True)
    """Whether files and definitions are read as they were then, as far as the record has them; else as they are now."""
    in_place: bool = Field(default=False, exclude_if=is_false)
    """Whether the run goes on with work of the other run in the files themselves, as a batch that is tried again does.
    Then only steps of the same item are reused, and nothing but answers of models and outcomes of calls."""


class Reused(Message):
    """Origin of a turn that was not asked of a model: in the metadata of its answer."""

    run: str
    path: str
    turn: int
    saved: Saved = Saved()
    """Usage of the turn in the other run."""

    @property
    def place(self) -> str:
        """Run, path and turn in words, like `decks-1 main turn 3`."""
        return f"{self.run} {self.path} turn {self.turn}"

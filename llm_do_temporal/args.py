"""Typed input of workers: what the author of a class named by `schema_in_ref:` imports.

    from llm_do_temporal.args import AttachmentPath, WorkerArgs

    class EvaluatorInput(WorkerArgs):
        deck: str
        rubric: str = "Be strict."

        def input_parts(self) -> list[str]:
            return [self.rubric, AttachmentPath(self.deck)]

A tool that calls the worker has the class's fields as its parameters. Without `input_parts` the worker is told
the fields as JSON. This module needs nothing but pydantic.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

__all__ = ["AttachmentPath", "WorkerArgs"]


class AttachmentPath(str):
    """A text of `input_parts` that is not told, but names a file of the caller's to attach."""

    __slots__ = ()


class WorkerArgs(BaseModel):
    """Base of typed input; an unknown field is an error. Any other pydantic model will do as well.

    A class may define `input_parts(self)`, which returns what the worker is told: a text, or a list of texts and
    of files to attach (`AttachmentPath`, or any path of pathlib). It runs in the worker service at each call.
    """

    model_config = ConfigDict(extra="forbid")

"""Inputs and results of the activities that make workers, load templates and check typed input."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from llm_do_temporal.messages.base import Message, is_empty, is_none
from llm_do_temporal.messages.definitions import CalledTemplate, PinnedWorker
from llm_do_temporal.messages.layers import LayerWork
from llm_do_temporal.policy.layers.layer import LayerUpdate


class DraftWorkerInput(Message):
    """Input of `draft_worker`: what a model says of the worker it wants."""

    name: str
    instructions: str
    description: str
    output_schema_ref: str | None = None
    model: str | None = None


class WorkerDraft(Message):
    """Result of `draft_worker`: the file as it would be written."""

    source: str
    """Path relative to the workshop."""
    text: str


class SaveWorkerInput(Message):
    """Input of `save_worker`."""

    name: str
    text: str
    """The file, as a person has seen it."""
    layer: LayerWork | None = Field(default=None, exclude_if=is_none)
    """Layer to work on; None: the workshop's own files."""
    content_key: str = Field(default="", exclude_if=is_empty)
    """Key of the call that it belongs to; see `policy.content_keys`. Empty: it has none."""


class SavedWorker(Message):
    """Result of `save_worker`."""

    source: str
    takes_attachments: bool = True
    layer: LayerUpdate | None = Field(default=None, exclude_if=is_none)
    """Changes of the layer that it worked on; None: it worked on no layer."""


class LoadTemplateInput(Message):
    """Input of `load_template`."""

    template: str
    """A path below the workshop, or `pkg:name`."""
    params: dict[str, str]
    input: str
    run_python: bool = True
    """Whether to run the Python that the template names; before the call was allowed, none is."""


class LoadedTemplate(Message):
    """Result of `load_template`: the template as a worker, and what it is told."""

    worker: PinnedWorker
    prompt: str
    template: CalledTemplate
    read_key: str = Field(default="", exclude_if=is_empty)
    """Key of what was read, by which it is found again; see `policy.content_keys`. Empty: it has none."""


class BuildInputInput(Message):
    """Input of `build_input`."""

    worker: str
    """Name of the worker whose input this is; `pkg:name` for one that ships with the package."""
    reference: str
    """The `schema_in_ref` of that worker."""
    values: Any
    """Values that it was given."""


class CheckOutputInput(Message):
    """Input of `check_output`."""

    worker: str
    """Name of the worker whose result this is, `pkg:name` for one that ships with the package; or a template's."""
    is_template: bool = False
    reference: str
    """The `output_schema_ref` of that worker or template."""
    value: Any
    """The result, which fits the schema."""


class CheckedOutput(Message):
    """Result of `check_output`: the judgement of a class with validators."""

    problems: tuple[str, ...] = ()
    """Problems of the result; empty if it has none."""
    value: Any = None
    """Result as the class made it, if there are no problems."""


class BuiltInput(Message):
    """Typed input that was checked."""

    prompt: str | None = None
    """Prompt that `input_parts()` made; None if the class does not define it, and the values are the input."""
    values: dict[str, Any]
    """The fields, defaults filled in."""
    attachments: tuple[str, ...] = ()
    """Paths that `input_parts()` attaches, in the caller's files."""
    read_key: str = Field(default="", exclude_if=is_empty)
    """Key of what was read, by which it is found again; see `policy.content_keys`. Empty: it has none."""

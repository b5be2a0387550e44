"""The page of names on the wire, beside the workflows as they are defined."""

from __future__ import annotations

from typing import Any

from temporalio import workflow

from llm_do_temporal.workflows.invocation.workflow import LlmDoWorker
from llm_do_temporal.workflows.run.workflow import LlmDoRun
from scripts.pages.wire import HANDLERS, render

Named = tuple[str, str, str]


def defined(cls: type[Any]) -> set[Named]:
    """Workflow, kind and name of each handler that Temporal knows of a workflow."""
    definition: Any = workflow._Definition.must_from_class(cls)  # pyright: ignore[reportPrivateUsage]
    by_kind = {"signal": definition.signals, "query": definition.queries, "update": definition.updates}
    return {(definition.name, kind, name) for kind, handlers in by_kind.items() for name in handlers}


def test_the_page_has_all_handlers_of_both_workflows() -> None:
    assert {(one.workflow, one.kind, one.name) for one in HANDLERS} == defined(LlmDoRun) | defined(LlmDoWorker)


def test_the_page_tells_every_field_of_a_type_with_its_meaning() -> None:
    page = render()
    assert "| `expected` | `SeenFile \\| None` |" in page
    assert "| `read_file` | [`ReadFileInput`](#readfileinput) | [`FileText`](#filetext) |" in page

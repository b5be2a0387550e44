"""The references to activities, beside the activities that the worker service registers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.durable_exec.temporal import AgentPlugin
from pydantic_ai.messages import ModelResponse
from temporalio import activity

from llm_do_temporal.activities.definitions import DefinitionActivities
from llm_do_temporal.activities.models.conversations import Conversations
from llm_do_temporal.extension import activity_refs
from llm_do_temporal.messages.activities import ALL_ACTIVITIES, FILE_ACTIVITIES, REQUEST_MODEL, ActivityRef
from llm_do_temporal.policy.queues import Queues
from llm_do_temporal.policy.shell import Isolation
from llm_do_temporal.service.build import ServiceHost, activities_by_role, file_activities
from llm_do_temporal.storage.places import workshop_blobs
from llm_do_temporal.workflows.invocation.agent import AGENT

Types = tuple[type, type]


def defined(activities: Iterable[Callable[..., Any]]) -> dict[str, Types]:
    """Types of request and result by wire name, as Temporal has them from the definitions."""
    found: dict[str, Types] = {}
    for function in activities:
        definition: Any = activity._Definition.must_from_callable(function)  # pyright: ignore[reportPrivateUsage]
        assert definition.name not in found, f"{definition.name} is registered twice"
        found[definition.name] = ((definition.arg_types or [object])[0], definition.ret_type)
    return found


def referenced(references: Iterable[ActivityRef[Any, Any]]) -> dict[str, Types]:
    return {reference.name: (reference.request, reference.result) for reference in references}


@pytest.fixture
def files(tmp_path: Path) -> list[Callable[..., Any]]:
    client: Any = None
    blobs = workshop_blobs(tmp_path)
    definitions = DefinitionActivities(tmp_path, blobs, search_attributes=False, queues=Queues())
    return file_activities(ServiceHost(tmp_path, blobs, client, Isolation.PREFERRED), definitions)


@pytest.fixture
def conversations(tmp_path: Path) -> Conversations:
    return Conversations(workshop_blobs(tmp_path))


def test_every_activity_has_exactly_one_reference() -> None:
    references = (*ALL_ACTIVITIES, *activity_refs())
    assert len(referenced(references)) == len(references)


def test_registered_activities_have_the_names_and_types_of_their_references(
    files: list[Callable[..., Any]], conversations: Conversations
) -> None:
    by_role = activities_by_role(conversations, files, has_files=True)
    registered = [function for activities in by_role.values() for function in activities]
    assert defined(registered) == referenced({*ALL_ACTIVITIES, *activity_refs()} - {REQUEST_MODEL})
    assert defined(by_role["files"]) == referenced((*FILE_ACTIVITIES, *activity_refs()))


def test_a_service_without_files_registers_a_stand_in_for_every_activity_that_needs_them(
    files: list[Callable[..., Any]], conversations: Conversations
) -> None:
    alone = activities_by_role(conversations, files, has_files=False)["workflows"]
    assert defined(alone).keys() == {
        reference.name for reference in {*ALL_ACTIVITIES, *activity_refs()} - {REQUEST_MODEL}
    }


def test_the_activity_of_models_is_the_one_that_pydantic_ai_registers() -> None:
    plugin: Any = AgentPlugin(AGENT)
    _, result = defined(plugin.activities)[REQUEST_MODEL.name]
    assert result is ModelResponse

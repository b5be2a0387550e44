"""Which task queue work goes to, who polls it, and whose turn it is there."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from pydantic import TypeAdapter, ValidationError

from llm_do_temporal.errors import UsageError
from llm_do_temporal.policy.models import ModelAlias
from llm_do_temporal.policy.queues import ROLES, ProviderKeys, ProviderName, Queues, Role, fairness_key, polled_queues

ALIASES: Mapping[str, str | ModelAlias] = {
    "fast": "openai:gpt-5-mini",
    "local": ModelAlias(model="openai:llama", base_url="http://127.0.0.1:11434/v1"),
}
PROVIDERS = {"openai": ProviderKeys(max_requests_per_second=2), "local": ProviderKeys()}


@pytest.mark.parametrize(
    ("model", "queue"),
    [
        ("openai:gpt-5", "q.models.openai"),
        ("fast", "q.models.openai"),  # what a plain alias stands for
        ("openai-responses:gpt-5", "q.models.openai"),  # the same provider by another protocol
        ("gateway/openai:gpt-5", "q.models.openai"),
        ("local", "q.models.local"),  # an alias with an address comes before the provider whose protocol it speaks
        ("anthropic:claude-sonnet-5-5", None),
        ("open:ai", None),
    ],
)
def test_requests_to_a_model_go_to_the_queue_of_its_provider(model: str, queue: str | None) -> None:
    assert Queues(models=("openai", "local")).of_model("q", ALIASES, model) == queue
    assert Queues().of_model("q", ALIASES, model) is None


def test_a_protocol_with_a_queue_of_its_own_uses_that() -> None:
    queues = Queues(models=("openai", "openai-responses"))
    assert queues.of_model("q", {}, "openai-responses:gpt-5") == "q.models.openai-responses"


@pytest.mark.parametrize(
    ("only", "separate_files", "polled"),
    [
        (
            ROLES,
            False,
            {"q": {"workflows", "models", "files"}, "q.models.openai": {"models"}, "q.models.local": {"models"}},
        ),
        (
            ROLES,
            True,
            {
                "q": {"workflows", "models", "files"},
                "q.models.openai": {"models"},
                "q.models.local": {"models"},
                "q.files": {"files"},
            },
        ),
        ({"workflows", "files"}, False, {"q": {"workflows", "models", "files"}}),
        ({"workflows"}, True, {"q": {"workflows", "models"}}),
        ({"models"}, False, {"q.models.openai": {"models"}, "q.models.local": {"models"}}),
        ({"files"}, True, {"q.files": {"files"}}),
    ],
)
def test_a_service_polls_what_its_roles_need(
    only: set[Role], separate_files: bool, polled: dict[str, set[Role]]
) -> None:
    found = polled_queues("q", PROVIDERS, separate_files=separate_files, only=only)
    assert {one.task_queue: one.roles for one in found} == polled
    limits = {one.task_queue: one.max_per_second for one in found if one.max_per_second is not None}
    assert limits == ({"q.models.openai": 2} if "models" in only else {})


@pytest.mark.parametrize(
    ("only", "separate_files", "said"),
    [
        ({"workflows"}, False, "files have a queue of their own"),
        ({"workflows", "models"}, False, "files have a queue of their own"),
        ({"files"}, False, "a service for files has nothing to do"),
        ({"models", "files"}, False, "a service for files has nothing to do"),
        (set[Role](), True, "a service for nothing has nothing to do"),
    ],
)
def test_roles_that_would_leave_something_undone_are_refused(only: set[Role], separate_files: bool, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        polled_queues("q", PROVIDERS, separate_files=separate_files, only=only)


@pytest.mark.parametrize("only", [{"models"}, {"models", "files"}])
def test_models_without_workflows_need_a_provider_with_a_queue(only: set[Role]) -> None:
    with pytest.raises(UsageError, match="a service for models has nothing to do"):
        polled_queues("q", {}, separate_files=True, only=only)


@pytest.mark.parametrize("rate", [0, -1, 10_001, float("nan"), float("inf"), "fast"])
def test_a_limit_is_a_number_above_zero(rate: object) -> None:
    with pytest.raises(ValidationError):
        ProviderKeys.model_validate({"max_requests_per_second": rate})


@pytest.mark.parametrize("name", ["", "open ai", "a/b", "-a", "a:b", "a" * 101])
def test_a_provider_has_a_name_that_a_queue_can_have(name: str) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(ProviderName).validate_python(name)


def test_runs_take_turns_under_keys_of_64_bytes_at_most() -> None:
    assert fairness_key("pitch-1a2b3c4d") == "pitch-1a2b3c4d"
    long = [fairness_key("é" * 40 + end) for end in "ab"]
    assert [len(key.encode()) for key in long] == [64, 64]
    assert long[0] != long[1]

"""Calls of templates: the rules that allow them, and what models get back."""

from __future__ import annotations

from typing import Any

from llm_do_temporal.testing import ScriptedModel, call
from tests.support.runs.place import Place

REFERENCE_RULES = {
    "allow": ["pkg:*", "./templates/**/*.yaml"],
    "lock": "templates/pitchdeck-single.yaml",
    "allowed_suffixes": [".pdf", ".txt"],
    "max_attachments": 1,
    "max_bytes": 15_000_000,
}


def allow_templates(place: Place, main: ScriptedModel, **rules: Any) -> None:
    place.worker("main", main, toolsets={"delegation": {"templates": rules or {"allow": ["**"]}}})


def template_call(name: str = "templates/one.yaml", text: str = "Judge this.", **more: Any) -> Any:
    return call("llm_worker_call", worker_name=name, input=text, **more)


def template_results(model: ScriptedModel) -> list[str]:
    return [result.text for result in model.requests[-1].results("llm_worker_call")]

"""Bases of the values of doors: the words below their fields stand in the OpenAPI document and on its page."""

from __future__ import annotations

from pydantic import ConfigDict

from llm_do_temporal.messages.base import Message, Strict


class Shown(Message):
    """Value that a door gives."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class Taken(Strict):
    """Value that a door takes; an unknown field is a mistake."""

    model_config = ConfigDict(use_attribute_docstrings=True)

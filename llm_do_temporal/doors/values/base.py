"""Bases of the values of doors: the words below their fields stand in the OpenAPI document and on its page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Self

from pydantic import ConfigDict, ValidationError, model_validator

from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages.base import Message, Strict
from llm_do_temporal.messages.json_values import check_json

_MAX_MISTAKES = 20
_MAX_MISTAKE_CHARS = 4_000


class ResponseValue(Message):
    """Value of a response, or a part of one."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class RequestValue(Strict):
    """Value of a request, or a part of one; an unknown field is a mistake."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class RequestBody(RequestValue):
    """Body of a request: all of it is JSON that everybody reads alike."""

    @model_validator(mode="before")
    @classmethod
    def _check_json(cls, value: Any) -> Any:
        check_json(value)
        return value

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Return the value that a program describes. Raises UsageError, which says what is wrong with it."""
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            raise UsageError(mistakes_in(error.errors())) from None


def mistakes_in(mistakes: Iterable[Mapping[str, Any]]) -> str:
    """Return what is wrong with a value that a program has sent, place by place, and none of the value itself."""
    told = [f"{'.'.join(map(str, one['loc']))}: {_mistake(one)}" for one in islice(mistakes, _MAX_MISTAKES)]
    return "; ".join(told)[:_MAX_MISTAKE_CHARS]


def _mistake(told: Mapping[str, Any]) -> str:
    return f"{told['msg']}: {told['ctx']['error']}" if told["type"] == "json_invalid" else told["msg"]

"""Names of models: aliases of a workshop, and the string that names a model to an activity.

A model is `provider:name`, or the name of an alias that says more: an address, the variable that holds the key,
settings. The alias is pinned with the run. To the activity that serves a turn it travels inside the model's id, so that
a turn is served as it was meant even after `workshop.yaml` was changed. No key is ever part of it.

Several models, of which the next is asked when one fails, are one text with commas between them, wherever a model is
named: so they are chosen, checked and inherited like a single model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, StringConstraints, field_validator, model_validator

from llm_do_temporal.policy.key_shapes import begins_like_key, looks_like_key
from llm_do_temporal.policy.models.prices import NOTHING_TO_PAY, Price
from llm_do_temporal.policy.values import Value

Accepts = Literal["text", "pdf", "image"]
ALIAS_ID = "alias:"
"""Prefix of an aliased model's id on its way to an activity. Nobody can write such an id: `resolve_model` refuses it.
"""

OFFLINE = "offline:"
"""Beginning of the names of models that are scripts."""

_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")


def joined_models(value: object) -> object:
    """Return a list of models as one text, any other value as it is. Raises ValueError for a list that names none."""
    if not isinstance(value, list | tuple):
        return value
    names = [str(name) for name in cast("list[object]", value)]
    if not names or any(not name.strip() or "," in name for name in names):
        raise ValueError("a list of models names at least one, like [anthropic:claude-sonnet-5-5, openai:gpt-5]")
    return ",".join(name.strip() for name in names)


ModelNames = Annotated[
    str, StringConstraints(min_length=1), BeforeValidator(joined_models, json_schema_input_type=str | list[str])
]
"""Model, or several models: a list, or a text with commas."""


def models_of(named: str) -> tuple[str, ...]:
    """Return the models in a text, in order."""
    return tuple(name.strip() for name in named.split(",") if name.strip())


def is_full_name(model: str) -> bool:
    """Return whether a text has the form `provider:name` and names one model."""
    return ":" in model and "," not in model and not model.startswith(ALIAS_ID)


def check_no_secret(value: object) -> None:
    """Raise ValueError, without repeating it, for a text in `value` that looks like a key."""
    if isinstance(value, str) and looks_like_key(value):
        raise ValueError(
            "this looks like a key; keys are never written into files: put it into an environment variable of the "
            "worker service and name that variable with api_key_env"
        )
    if isinstance(value, Mapping):
        for inner in cast("Mapping[str, object]", value).values():
            check_no_secret(inner)
    if isinstance(value, list | tuple):
        for inner in cast("list[object]", value):
            check_no_secret(inner)


def check_variable(name: str) -> str:
    """Return the name of an environment variable. Raises ValueError, without repeating a possible secret."""
    if not _VARIABLE.fullmatch(name) or looks_like_key(name):
        raise ValueError("it is the name of an environment variable, like OLLAMA_KEY, and never the key itself")
    return name


class ModelAlias(Value):
    """Entry of `models:`. Text alone is short for `{model: text}`, and so is a list of models and aliases."""

    model: str = Field(min_length=1)
    """Full name `provider:name`; or several models and aliases, and then no other key is set."""
    base_url: str | None = None
    """Address of a server with the provider's protocol, like http://127.0.0.1:11434/v1."""
    api_key_env: str | None = None
    """The environment variable of the worker service that holds the key."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Model settings; a workshop's and a worker's win over them."""
    accepts: tuple[Accepts, ...] | None = None
    """Kinds of files that the model takes as they are; None: those known of the provider."""
    price: Price | None = Field(default=None, exclude_if=lambda value: value is None)
    """Price of its tokens; None: as the price list has it, and nothing for an offline model."""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: object) -> object:
        if isinstance(value, str | list):
            return {"model": joined_models(cast("object", value))}
        if not isinstance(value, dict):
            return value
        # What passes here counts as Python and no longer as JSON, where strict validation takes lists for tuples.
        given = cast("dict[str, Any]", value)
        return {key: tuple(cast("list[Any]", one)) if isinstance(one, list) else one for key, one in given.items()}

    @field_validator("base_url")
    @classmethod
    def _plain_address(cls, address: str | None) -> str | None:
        if address is None:
            return None
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
            raise ValueError("it is an address like http://127.0.0.1:11434/v1")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ValueError("an address has no user, password, query or fragment; a key goes into api_key_env")
        for segment in parts.path.split("/"):
            if begins_like_key(segment):
                check_no_secret(segment)
        return address

    @field_validator("api_key_env")
    @classmethod
    def _variable_name(cls, name: str | None) -> str | None:
        return None if name is None else check_variable(name)

    @field_validator("model")
    @classmethod
    def _no_key(cls, value: str) -> str:
        for model in models_of(value):
            name = model.rpartition(":")[2]
            if begins_like_key(name):
                check_no_secret(name)
        return value

    @model_validator(mode="after")
    def _one_place(self) -> ModelAlias:
        if "," in self.model and not self.is_plain:
            raise ValueError("an alias for several models says nothing else; give each of them an alias of its own")
        return self

    @field_validator("settings")
    @classmethod
    def _no_keys(cls, value: dict[str, Any]) -> dict[str, Any]:
        check_no_secret(value)
        return value

    @property
    def is_plain(self) -> bool:
        """Whether no key but the model is set."""
        return not self.model_dump(exclude={"model"}, exclude_defaults=True)


Aliases = Mapping[str, str | ModelAlias]


def alias_of(aliases: Aliases, model: str) -> ModelAlias | None:
    """Return the alias named `model` that says more than `provider:name`; None where there is none."""
    found = aliases.get(model)
    return found if isinstance(found, ModelAlias) else None


def chain_of(aliases: Aliases, named: str) -> tuple[str, ...]:
    """Return the models that a text names, in order, with the models of an alias in the alias's place."""
    found: list[str] = []
    for name in models_of(named):
        several = aliases.get(name)
        found += models_of(several) if isinstance(several, str) and "," in several else [name]
    return tuple(dict.fromkeys(found))


def full_name(aliases: Aliases, model: str) -> str:
    """Return `provider:name` of a model, or the given text where it names no provider."""
    found = aliases.get(model, model)
    return found.model if isinstance(found, ModelAlias) else found


def label(aliases: Aliases, model: str) -> str:
    """Return the model's name for people: `provider:name`, after the alias where that says more; of several, all."""
    shown = [(name, alias_of(aliases, name)) for name in models_of(model)]
    return ", ".join(name if alias is None else f"{name} ({alias.model})" for name, alias in shown)


def serving_id(aliases: Aliases, model: str) -> str:
    """Return the id by which an activity can build the model: `provider:name`, or the alias with address and price."""
    alias = alias_of(aliases, model)
    if alias is None or (alias.base_url is None and alias.api_key_env is None and alias.price is None):
        return full_name(aliases, model)
    spec = {
        "alias": model,
        "model": alias.model,
        "base_url": alias.base_url,
        "api_key_env": alias.api_key_env,
        "price": None if alias.price is None else alias.price.model_dump(mode="json"),
    }
    given = {name: value for name, value in spec.items() if value is not None}
    return ALIAS_ID + json.dumps(given, sort_keys=True, separators=(",", ":"))


def read_serving_id(model_id: str) -> tuple[str, ModelAlias]:
    """Return the name to show for an id of `serving_id`, and its alias. Raises ValueError for a broken id."""
    if not model_id.startswith(ALIAS_ID):
        return model_id, ModelAlias(model=model_id)
    spec = cast("dict[str, Any]", json.loads(model_id.removeprefix(ALIAS_ID)))
    name = str(spec.pop("alias"))
    return f"{name} ({spec.get('model')})", ModelAlias.model_validate(spec)


def play_of(model: str) -> tuple[str, str] | None:
    """Return file and function of `offline:FILE.py:FUNCTION`, a scripted model of the workshop; None for others."""
    file, colon, function = model.removeprefix(OFFLINE).rpartition(":")
    return (file, function) if model.startswith(OFFLINE) and colon else None


def stated_price(alias: ModelAlias) -> Price | None:
    """Return the price that needs no price list: the workshop's, or nothing for an offline model; None for others."""
    if alias.price is None and alias.model.startswith(OFFLINE):
        return NOTHING_TO_PAY
    return alias.price


def merged_settings(
    aliases: Aliases, model: str, workshop: Mapping[str, Any], worker: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the settings of a turn, key by key: the worker's win over the workshop's, these over the alias's."""
    alias = alias_of(aliases, model)
    return {**({} if alias is None else alias.settings), **workshop, **worker}

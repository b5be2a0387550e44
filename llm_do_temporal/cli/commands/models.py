"""`models`: the models that a workshop names, and those that exist. Needs no server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llm_do_temporal.cli.options import Location
from llm_do_temporal.cli.output import print_json
from llm_do_temporal.cli.tables import print_table
from llm_do_temporal.cli.text import PROGRAM, say
from llm_do_temporal.errors import UsageError

if TYPE_CHECKING:
    from llm_do_temporal.policy.models import ModelAlias


def models(
    name: str | None = None,
    /,
    *,
    json: bool = False,
    location: Location = Location(),  # noqa: B008 - frozen
) -> None:
    """List the model and the aliases of the workshop; given a part of a name, also the models that have it.

    Parameters
    ----------
    name
        Part of a name, like `claude` or `openai:`. Models that are not listed can be used, too.
    json
        Print one object.
    """
    found = _of_workshop(location, needed=name is None)
    known = None if name is None else [one for one in _known() if name.lower() in one.lower()]
    if json:
        print_json(found | ({} if known is None else {"known": known}), pretty=False)
        return
    rows = [[one["name"], one["model"], one["base_url"] or "", one["api_key_env"] or ""] for one in found["aliases"]]
    if name is not None:
        rows = [row for row in rows if name.lower() in " ".join(row[:2]).lower()]
    rows += [["", one, "", ""] for one in known or ()]
    if found["model"] is not None and name is None:
        say(f"the workshop's model: {found['model']}")
    if rows:
        print_table(["ALIAS", "MODEL", "AT", "KEY IN"], rows)
    else:
        say("no aliases" if name is None else f"no model's name contains '{name}'; it may exist all the same")


def _of_workshop(location: Location, *, needed: bool) -> dict[str, Any]:
    from llm_do_temporal.definitions.workshop import load_workshop

    workshop = location.local_workshop()
    if workshop is None:
        if needed:
            raise UsageError(
                "no workshop is known here, and no model was asked for",
                next_step=f"Go to the workshop's folder, or give a part of a name, like `{PROGRAM} models claude`.",
            )
        return {"model": None, "aliases": []}
    config = load_workshop(workshop).config
    return {"model": config.model, "aliases": [_alias(name, one) for name, one in config.models.items()]}


def _alias(name: str, alias: ModelAlias) -> dict[str, Any]:
    return {"name": name, "model": alias.model, "base_url": alias.base_url, "api_key_env": alias.api_key_env}


def _known() -> list[str]:
    """Return the names of all known models. Loads Pydantic AI, which takes a second or two."""
    from pydantic_ai.models import known_model_names

    from llm_do_temporal.policy.models import OFFLINE_MODELS, OFFLINE_PROVIDER

    return sorted({*known_model_names(), *(f"{OFFLINE_PROVIDER}:{name}" for name in OFFLINE_MODELS)})

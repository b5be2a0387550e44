"""Workshop: a folder with `workshop.yaml`, the settings that a run takes from it, and entries put into it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from llm_do_temporal.definitions.keys.files import WorkshopConfig
from llm_do_temporal.definitions.yaml.documents import (
    Document,
    Missing,
    Problem,
    Unreadable,
    decode,
    parse_yaml,
    raise_first,
    read_bytes,
    validate,
)
from llm_do_temporal.definitions.yaml.edits import ListPlace
from llm_do_temporal.environment import UI_URL_VARIABLE
from llm_do_temporal.errors import SandboxRefusal, UsageError, WorkshopNotFound
from llm_do_temporal.extension import in_runs, needs
from llm_do_temporal.messages.definitions import RunSettings
from llm_do_temporal.messages.runs import StartRunInput
from llm_do_temporal.policy.files.protection import is_always_protected
from llm_do_temporal.policy.files.sandbox import WorkshopSandbox, root_tree
from llm_do_temporal.policy.models import ModelAlias, ModelSources, is_full_name, models_of
from llm_do_temporal.policy.notifications import NotifySettings, check_ui_url
from llm_do_temporal.policy.queues import ProviderKeys, Queues
from llm_do_temporal.workshop_search import WORKSHOP_FILE, search_upwards

_log = logging.getLogger(__name__)
_NEXT_STEP = "Make one that says `sandbox: {root: .}`, or name the folder that has one with --workshop DIR."


@dataclass(frozen=True)
class Workshop:
    """Workshop that was read."""

    root: Path
    """Folder, with symlinks followed."""
    config: WorkshopConfig


_SAME = (RunSettings.model_fields.keys() & WorkshopConfig.model_fields.keys()) - {"limits", "models", "review", "turns"}
"""Keys of workshop.yaml that are pinned as they are."""


def run_settings(
    config: WorkshopConfig,
    start: StartRunInput,
    *,
    environment_model: str | None = None,
    search_attributes: bool = True,
    queues: Queues | None = None,
) -> RunSettings:
    """Return the settings of a run; `environment_model` is used where the start names no model of the environment.

    Raises UsageError for a review where none can be.
    """
    if start.review is not None or config.review is not None:
        needs("review", "a review of changes")
    same = {name: getattr(config, name) for name in _SAME}
    return RunSettings(
        **same,
        mode=start.mode or config.approvals.mode,
        rules=config.approvals.pinned(),
        models=ModelSources(
            force_model=start.force_model,
            run_model=start.model,
            workshop_model=config.model,
            environment_model=start.environment_model or environment_model,
            aliases=model_aliases(config),
            isolated=config.model_resolution == "isolated",
        ),
        workshop_has_sandbox=config.sandbox is not None,
        limits=start.limits.over(config.limits),
        turns=start.turns or config.turns,
        search_attributes=search_attributes,
        queues=queues or Queues(),
        review=start.review or config.review,
        review_branch=start.review_branch,
        aside=start.aside,
        scripted=start.scripted,
        extensions=in_runs(),
    )


def notify_settings(config: WorkshopConfig, environment: Mapping[str, str]) -> NotifySettings:
    """Return a run's notification targets, and the address of the page where it can be used."""
    ui_url = None
    if config.notify:
        try:
            ui_url = page_address(config, environment)
        except UsageError as error:
            _log.warning("messages have no links: %s", error)
    return NotifySettings(targets=config.notify, ui_url=ui_url)


def page_address(config: WorkshopConfig, environment: Mapping[str, str]) -> str | None:
    """Return the address of the web page, as the workshop names it, or else LLM_DO_UI_URL; None where neither does.

    Raises UsageError for a variable that is no address.
    """
    named = environment.get(UI_URL_VARIABLE)
    if config.ui_url is not None or not named:
        return config.ui_url
    try:
        return check_ui_url(named)
    except ValueError as error:
        raise UsageError(
            f"{UI_URL_VARIABLE} cannot be used: {error}",
            next_step="Set it to the address at which people open the page, or leave it out.",
        ) from None


def model_aliases(config: WorkshopConfig) -> dict[str, str | ModelAlias]:
    """Return the aliases, each as the model `provider:name` where it says no more than that."""
    return {name: alias.model if alias.is_plain else alias for name, alias in config.models.items()}


def unknown_models(model: str, config: WorkshopConfig) -> list[str]:
    """Return the models in a comma-separated text that are neither an alias nor have the form `provider:name`."""
    names = models_of(model) or (model,)
    return [name for name in names if name not in config.models and not is_full_name(name)]


def find_workshop(start: Path, *, named: bool = False) -> Path:
    """Return the only folder with `workshop.yaml` on the way up from `start`; `named`: a person named `start` itself.

    Raises WorkshopNotFound where there is none.
    """
    return search_upwards(start.resolve(), named=named)


def load_workshop(folder: Path) -> Workshop:
    """Read `workshop.yaml` of a folder. Raises WorkshopNotFound, or DefinitionError where it is wrong."""
    workshop, problems, _ = parse_workshop(folder)
    raise_first(problems)
    return workshop


def own_queues(folder: Path) -> tuple[Mapping[str, ProviderKeys], bool]:
    """Return the providers with a task queue of their own, and whether files have one. Raises DefinitionError.

    Most workshops have no such keys; their services start whatever else is wrong in the file.
    """
    try:
        text = (folder / WORKSHOP_FILE).read_bytes()
    except OSError:
        text = b""
    if b"providers" not in text and b"separate_files" not in text:
        return {}, False
    config = load_workshop(folder).config
    return config.providers, config.separate_files


def parse_workshop(folder: Path) -> tuple[Workshop, list[Problem], Document]:
    """Return the workshop without its invalid keys, the problems found, and the document for its lines.

    Raises WorkshopNotFound where the folder has no `workshop.yaml`.
    """
    root = folder.resolve()
    try:
        text = decode(read_bytes(root / WORKSHOP_FILE, root), WORKSHOP_FILE)
        real = (root / WORKSHOP_FILE).resolve().relative_to(root).as_posix()
        if not is_always_protected(real):
            raise Unreadable(f"'{WORKSHOP_FILE}' is a link to a file that workers may write; put the file itself there")
    except Missing as error:
        raise WorkshopNotFound(f"no {WORKSHOP_FILE} in the workshop's folder", next_step=_NEXT_STEP) from error
    except Unreadable as error:
        return Workshop(root, WorkshopConfig()), [Problem(WORKSHOP_FILE, None, str(error))], Document(None)
    config, found, document = _parse(text)
    problems = list(found)
    if config.sandbox is not None:
        wrong = check_sandbox_root(config.sandbox, root, elsewhere=config.separate_files)
        if wrong is not None:
            problems.append(Problem(WORKSHOP_FILE, document.line_of(("sandbox", "root")), wrong))
            config = config.model_copy(update={"sandbox": None})
    return Workshop(root, config), problems, document


@lru_cache(maxsize=16)
def _parse(text: str) -> tuple[WorkshopConfig, tuple[Problem, ...], Document]:
    document, problems = parse_yaml(text, file=WORKSHOP_FILE)
    config, invalid = validate(WorkshopConfig, document, file=WORKSHOP_FILE)
    return config, (*problems, *invalid), document


def check_sandbox_root(sandbox: WorkshopSandbox, root: Path, *, elsewhere: bool = False) -> str | None:
    """Return the problem of the sandbox's root, or None: it must be a folder inside the workshop, links followed.

    `elsewhere`: the folder may be on another machine, and missing here.
    """
    try:
        root_tree(sandbox)
        real = (root / sandbox.root).resolve()
        if real.is_symlink():  # in a circle; before Python 3.13, resolving it fails
            raise RuntimeError
    except SandboxRefusal as refusal:
        return refusal.message
    except (OSError, RuntimeError):
        return f"sandbox root '{sandbox.root}' cannot be opened"
    if not real.is_relative_to(root):
        return f"sandbox root '{sandbox.root}' is a link that leads out of the workshop"
    if not real.exists():
        missing = f"sandbox root '{sandbox.root}' does not exist; make the folder, or name another one"
        return None if elsewhere else missing
    return None if real.is_dir() else f"sandbox root '{sandbox.root}' is not a folder"


_ALLOW = ListPlace(WORKSHOP_FILE, ("approvals", "allow"))


def with_allow_entries(text: str, entries: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of a `workshop.yaml` with more entries at the end of `approvals: allow:`.

    Raises UsageError where the text is no valid YAML, or is written in a way that has no place for them.
    """
    return _ALLOW.with_items(text, entries)

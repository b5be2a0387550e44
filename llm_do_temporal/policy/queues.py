"""Task queues: where work goes, which processes poll it, and the order in which it is done there.

A provider of models may have a queue of its own, whose rate the server limits for all worker services together. The
files of a workshop may have a queue, polled on the machine that has them. All other work goes to the queue that runs
are started on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from llm_do_temporal.errors import UsageError
from llm_do_temporal.policy.models import Aliases, full_name
from llm_do_temporal.policy.values import Value

Role = Literal["workflows", "models", "files"]
ROLES: frozenset[Role] = frozenset({"workflows", "models", "files"})
ProviderName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
"""Provider as it stands before the colon of a model, the first word of several, or an alias with an address."""
BATCH_PRIORITY = 4
"""Priority of a batch's items; a run that is a single question has 3. Lower numbers go first."""
_MAX_KEY_BYTES = 64
"""Largest fairness key that Temporal takes."""


class ProviderKeys(Value):
    """Entry of `providers:` in `workshop.yaml`."""

    max_requests_per_second: float | None = Field(default=None, gt=0, le=10_000)
    """Rate over all worker services of the task queue together; None: no limit."""


class Queues(Value):
    """Work with task queues of its own. Pinned with a run, so that it goes on where it began."""

    models: tuple[str, ...] = ()
    """Providers, and aliases of models, with a queue each."""
    files: bool = False
    """Whether files, commands, Python tools and definitions have a queue."""

    def of_model(self, task_queue: str, aliases: Aliases, model: str) -> str | None:
        """Return the queue for requests to a model; None: the run's own."""
        provider = full_name(aliases, model).partition(":")[0].removeprefix("gateway/")
        named = next((name for name in (model, provider, provider.split("-")[0]) if name in self.models), None)
        return None if named is None else models_queue(task_queue, named)


class Polled(Value):
    """Task queue that a process polls."""

    task_queue: str
    roles: frozenset[Role]
    """Kinds of work taken from the queue. Requests to providers without a queue of their own come with `workflows`."""
    max_per_second: float | None = None


def models_queue(task_queue: str, provider: str) -> str:
    """Return the name of a provider's queue."""
    return f"{task_queue}.models.{provider}"


def files_queue(task_queue: str) -> str:
    """Return the name of the queue of the workshop's files."""
    return f"{task_queue}.files"


def polled_queues(
    task_queue: str, providers: Mapping[str, ProviderKeys], *, separate_files: bool, only: Collection[Role]
) -> tuple[Polled, ...]:
    """Return the queues that a process with the roles `only` polls.

    Raises UsageError where a role has nothing to do, or a needed role is missing.
    """
    found: list[Polled] = []
    if "workflows" in only:
        if "files" not in only and not separate_files:
            raise UsageError(
                "a service for workflows without files needs a workshop whose files have a queue of their own",
                next_step="Write `separate_files: true` into workshop.yaml, or serve `files` too.",
            )
        # With files, runs that began before those had a queue of their own find them here, too.
        found.append(Polled(task_queue=task_queue, roles=frozenset({"workflows", "models", *only})))
    if "models" in only:
        found += [
            Polled(
                task_queue=models_queue(task_queue, name),
                roles=frozenset({"models"}),
                max_per_second=keys.max_requests_per_second,
            )
            for name, keys in providers.items()
        ]
    if "files" in only and separate_files:
        found.append(Polled(task_queue=files_queue(task_queue), roles=frozenset({"files"})))
    idle = set(only).difference(*(one.roles for one in found))
    if idle or not found:
        raise UsageError(
            f"a service for {' and '.join(sorted(idle)) or 'nothing'} has nothing to do in this workshop",
            next_step="`models` alone needs `providers:` in workshop.yaml, and `files` alone `separate_files: true`.",
        )
    return tuple(found)


def fairness_key(run: str) -> str:
    """Return the key under which a run takes its turn with others at a queue."""
    return run if len(run.encode()) <= _MAX_KEY_BYTES else hashlib.sha256(run.encode()).hexdigest()

"""Runs again with changes, and with all reused that these leave as it was; two runs compared; workers tried."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from llm_do_temporal.extension import Command, CommandGroup, Extension

_HOME = "llm_do_temporal.extensions.forks"


class ForksExtension(Extension):
    """See the module."""

    name = "forks"

    def commands(self) -> Sequence[Command]:
        """See Extension."""
        from llm_do_temporal.extensions.forks.commands import diff, fork, try_worker

        tries = (
            'try notes "buy bread"  # nothing is written',
            'try notes "buy bread" --watch  # again on each save of its file',
        )
        forks = (
            "fork decks-1 --at main/pitch_evaluator-2@3 --dry-run",
            "fork decks-1 --worker workers/pitch_evaluator.worker",
            'fork decks-1 --decide a3=reject:"too long"',
        )
        return (
            Command("try", try_worker, CommandGroup.RUNS, "WORKER [PROMPT] [FLAGS]", tries),
            Command("fork", fork, CommandGroup.RUNS, "RUN [FLAGS]", forks),
            Command("diff", diff, CommandGroup.RUNS, "RUN OTHER [FLAGS]", ("diff decks-1 decks-1-fork",)),
        )

    def invocation_part(self) -> Callable[[Any, Any], Any]:
        """See Extension."""
        from llm_do_temporal.extensions.forks.workflow import fork_part

        return fork_part

    def activity_refs(self) -> Sequence[Any]:
        """See Extension."""
        from llm_do_temporal.extensions.forks.messages import REUSE_CALL

        return (REUSE_CALL,)

    def activities(self, host: Any) -> Sequence[Callable[..., Any]]:
        """See Extension."""
        from llm_do_temporal.extensions.forks.activities import ReuseActivities, records_of

        return (ReuseActivities(host.workshop, host.blobs, records_of(host.blobs)).reuse_call,)

    def interceptors(self, host: Any) -> Sequence[Any]:
        """See Extension."""
        from llm_do_temporal.extensions.forks.activities import RecordedReads, records_of
        from llm_do_temporal.extensions.forks.workflow import ForkHeaders

        return (RecordedReads(host.blobs, records_of(host.blobs)), ForkHeaders())

    def run_loader(self, host: Any) -> Callable[[Any, Any, Any], Any]:
        """See Extension."""
        from llm_do_temporal.extensions.forks.activities import load_fork, records_of

        return partial(load_fork, records_of(host.blobs))

    def known_turn(self, host: Any) -> Callable[[Any, str], Any]:
        """See Extension."""
        from llm_do_temporal.extensions.forks.activities import known_turn, records_of

        return partial(known_turn, records_of(host.blobs))

    def routes(self) -> Sequence[Any]:
        """See Extension."""
        from llm_do_temporal.extensions.forks.pages import routes

        return routes

    def addresses(self) -> Mapping[str, Callable[..., str]]:
        """See Extension."""
        from llm_do_temporal.extensions.forks.pages import difference_address

        return {"difference": difference_address}

    def routers(self) -> Sequence[Any]:
        """See Extension."""
        from llm_do_temporal.extensions.forks.api import router

        return (router,)

    def public_names(self) -> Mapping[str, Mapping[str, str]]:
        """See Extension."""
        api = f"{_HOME}.api"
        return {
            "LlmDoClient": {"fork": f"{_HOME}.client_forks"},
            "RemoteClient": {"fork": api, "forecast": api},
            "llm_do_temporal.client": {"ForkRequest": f"{_HOME}.client_forks"},
            "llm_do_temporal.remote": {"Fork": api, "ForkForecast": api},
        }

    async def take_over(self, client: Any, run: str, start: Any) -> tuple[Any, Sequence[str]]:
        """See Extension."""
        from llm_do_temporal.extensions.forks.client_attempts import prepare_attempt

        return await prepare_attempt(client, run, start)


EXTENSION = ForksExtension()

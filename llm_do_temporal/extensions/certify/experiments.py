"""Rehearsal of experiments, which the capability `evaluations` runs, if it is installed.

Every rehearsal of an experiment has a name of its own: ids of experiments follow from it, and none takes results over
from another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from temporalio.api.history.v1 import HistoryEvent

from llm_do_temporal.client.history.questions import news_at_desk
from llm_do_temporal.extension import definition_files
from llm_do_temporal.extensions.certify.evidence import Evidence, Histories, Point, gather
from llm_do_temporal.extensions.certify.rehearsal import Lane, Rehearsal
from llm_do_temporal.policy.models import Aliases
from llm_do_temporal.policy.values import REPEAT

EXPERIMENT_PATH = "experiment"
"""Path of the experiment's own workflow; those of cases end with the number of the repeat, so no case has it."""


def is_evaluation(worker: str) -> bool:
    """Return whether what is to be certified is an evaluation file."""
    return worker.endswith(tuple(one.suffix for one in definition_files() if one.kind == "eval"))


@dataclass(frozen=True)
class ExperimentSubject:
    """Evaluation whose experiment is done again each time."""

    spec: Any
    """EvaluationSpec."""

    @classmethod
    def of(cls, file: Path, folder: Path) -> ExperimentSubject:
        """Return the evaluation in a file. Raises DefinitionError, and UsageError for a file that is none."""
        from llm_do_temporal.extensions.evaluations.proof import find_evaluation

        return cls(find_evaluation(file, folder, None))

    def models(self, folder: Path) -> tuple[Sequence[str], Aliases]:
        """Return the models that the experiment asks, and the workshop's aliases.

        Raises UsageError for an evaluation that cannot be rehearsed, and DefinitionError.
        """
        from llm_do_temporal.extensions.evaluations.proof import check_evaluation

        return check_evaluation(self.spec, folder)

    def rehearsal(self, lane: Lane, name: str, point: Point | None) -> Rehearsal:
        """Return a rehearsal of the experiment under this name, struck right after `point`; None: never."""
        return ExperimentRehearsal(lane=lane, run="", point=point, spec=self.spec.model_copy(update={"name": name}))


@dataclass(kw_only=True)
class ExperimentRehearsal(Rehearsal):
    """Rehearsal of an experiment: the scripts of its cases answer, and nobody else."""

    spec: Any
    """EvaluationSpec."""

    async def _start(self) -> None:
        from llm_do_temporal.extensions.evaluations.proof import begin

        self.run, models = await begin(self.lane.client, self.spec, self.lane.workshop)
        self.models |= models

    async def _answer(self) -> None:
        """Answer nothing."""

    async def _result(self) -> Any:
        from llm_do_temporal.extensions.evaluations.proof import record_at_end

        return await record_at_end(self.lane.client, self.run, self.lane.workshop)

    def _gather(self, result: Any, error: str, histories: Histories) -> Evidence:
        return gather_experiment(result, error, self.lane.files(), histories)

    def _path(self, workflow: str) -> str:
        return workflow.removeprefix(self.run).removeprefix("-") or EXPERIMENT_PATH


def gather_experiment(record: Any, error: str, files: dict[str, str], histories: Histories) -> Evidence:
    """Put together what is left of an experiment; the ExperimentRecord is None where it has ended in an error."""
    if record is None:
        return gather(None, error, files, 0, histories)
    from llm_do_temporal.extensions.evaluations.proof import COUNTED, compared_parts, compared_whole, owners_of

    owners = owners_of(record)
    events: dict[str, list[tuple[str, HistoryEvent]]] = {name: [] for name in owners.values()}
    own: list[tuple[str, HistoryEvent]] = []
    for path, event in histories.events:
        owner = owners.get(path.partition("/")[0])
        (own if owner is None else events[owner]).append((path, event))
    parts = {
        name: gather(part, "", {}, _doubts(events[name]), Histories(events[name]))
        for name, part in compared_parts(record).items()
    }
    counted = [event.activity_task_scheduled_event_attributes.activity_type.name for _, event in own]
    left = compared_whole(record) | {name: counted.count(name) for name in COUNTED} | {"units": list(parts)}
    whole = gather(left, "", files, 0, Histories(own))
    return Evidence(
        result=whole.result,
        files=files,
        turns=whole.turns,
        writes=whole.writes,
        once=whole.once,
        children=whole.children,
        points=histories.points(),
        parts=parts,
    )


def _doubts(events: Sequence[tuple[str, HistoryEvent]]) -> int:
    """Number of questions whether to do again what may have happened."""
    asked = 0
    for path, event in events:
        news = None if "/" in path else news_at_desk(event)
        if news is not None and news.kind == "asked":
            uses = cast("list[dict[str, Any]]", news.message.get("capabilities") or [])
            asked += any(use.get("name") == REPEAT for use in uses)
    return asked

"""Rehearsal of an experiment, and what is compared of it: its record without times and names, and each case by itself.

Every rehearsal has a name of its own: ids of experiments follow from it, and none takes results over from another.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowFailureError

from llm_do_temporal.client.certify.evidence import Evidence, Histories, gather
from llm_do_temporal.client.certify.rehearsal import Rehearsal
from llm_do_temporal.client.connection.errors import translated
from llm_do_temporal.client.evaluations.experiments import read_failure, read_record
from llm_do_temporal.client.evaluations.start import begin_experiment, draft_evaluation, involved_in
from llm_do_temporal.client.history.desk_news import news_at_desk
from llm_do_temporal.definitions.workshop.workshop import load_workshop
from llm_do_temporal.errors import UsageError
from llm_do_temporal.login import login_name
from llm_do_temporal.messages.activities import JUDGE_CASE, SCORE_CASE
from llm_do_temporal.messages.experiments.evaluations import CaseResult, EvaluationEnd, ExperimentRecord
from llm_do_temporal.policy.evaluations.evaluators import MaxSeconds
from llm_do_temporal.policy.evaluations.spec import EXPECTED, EvaluationSpec
from llm_do_temporal.policy.models import Aliases
from llm_do_temporal.policy.values import REPEAT
from llm_do_temporal.storage.places import workshop_blobs

EXPERIMENT_PATH = "experiment"
"""Path of the experiment's own workflow; those of cases end with the number of the repeat, so no case has it."""
_NAMES = {"name", "workflow", "started_at", "ended_at"}
_COUNTED = (SCORE_CASE.name, JUDGE_CASE.name)


def check_evaluation(spec: EvaluationSpec, folder: Path) -> tuple[Sequence[str], Aliases]:
    """Return the models that an experiment asks, and the workshop's aliases.

    Raises UsageError for an evaluation that cannot be rehearsed, and DefinitionError.
    """
    against = None if spec.judge is None else spec.judge.against
    if against not in (None, EXPECTED):
        raise UsageError(
            f"the judge compares with experiment '{against}', which the server of a proof does not have",
            next_step=f"Take a judge of single answers, or `against: {EXPECTED}`.",
        )
    found = involved_in(spec, load_workshop(folder), os.environ.get("LLM_DO_MODEL") or None)
    judges = {} if found.judge is None else found.judge.models
    return sorted({*found.entry.models.values(), *judges.values()}), found.settings.models.aliases


@dataclass(kw_only=True)
class ExperimentRehearsal(Rehearsal):
    """Rehearsal of an experiment: the scripts of its cases answer, and nobody else."""

    spec: EvaluationSpec

    async def _start(self) -> None:
        draft = await draft_evaluation(
            self.lane.client,
            self.spec,
            self.lane.workshop,
            environment_model=os.environ.get("LLM_DO_MODEL") or None,
            started_by=login_name(),
        )
        judge = draft.identity.judge
        self.models |= {*draft.identity.models.values(), *({} if judge is None else judge.models).values()}
        self.run = (await begin_experiment(self.lane.client, draft, retry_errors=False)).workflow

    async def _answer(self) -> None:
        """Answer nothing."""

    async def _result(self) -> Any:
        client = self.lane.client.temporal
        handle = client.get_workflow_handle(self.run, result_type=EvaluationEnd)
        try:
            async with translated(self.run):
                end = await handle.result()
        except WorkflowFailureError:
            raise await read_failure(client, self.run) from None
        return read_record(workshop_blobs(self.lane.workshop), end.record)

    def _gather(self, result: Any, error: str, histories: Histories) -> Evidence:
        return gather_experiment(cast("ExperimentRecord | None", result), error, self.lane.files(), histories)

    def _path(self, workflow: str) -> str:
        return workflow.removeprefix(self.run).removeprefix("-") or EXPERIMENT_PATH


def gather_experiment(
    record: ExperimentRecord | None, error: str, files: dict[str, str], histories: Histories
) -> Evidence:
    """Put together what is left of an experiment; `record` is None where it has ended in an error."""
    if record is None:
        return gather(None, error, files, 0, histories)
    owners = _owners(record)
    events: dict[str, list[tuple[str, HistoryEvent]]] = {name: [] for name in owners.values()}
    own: list[tuple[str, HistoryEvent]] = []
    for path, event in histories.events:
        owner = owners.get(path.partition("/")[0])
        (own if owner is None else events[owner]).append((path, event))
    parts = {
        _name(one): gather(
            _comparable(one, record.spec), "", {}, _doubts(events[_name(one)]), Histories(events[_name(one)])
        )
        for one in record.results
    }
    counted = [event.activity_task_scheduled_event_attributes.activity_type.name for _, event in own]
    left = record.model_dump(mode="json", exclude={*_NAMES, "spec", "results"})
    left |= {name: counted.count(name) for name in _COUNTED}
    left["units"] = [_name(one) for one in record.results]
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


def _owners(record: ExperimentRecord) -> dict[str, str]:
    """Return the names of the repeats of cases, by the paths of the runs that each of them needed."""
    before = f"{record.workflow}-"
    return {
        run.removeprefix(before): _name(result)
        for result in record.results
        for run in (result.run, *(judge.run for judge in result.judges))
    }


def _name(result: CaseResult) -> str:
    return f"{result.case}#{result.repeat}"


def _comparable(result: CaseResult, spec: EvaluationSpec) -> dict[str, Any]:
    """Return the result without ids of runs and without times, which are others in each experiment."""
    left = result.model_dump(
        mode="json", exclude={"run": True, "facts": {"seconds"}, "judges": {"__all__": {"run", "seconds"}}}
    )
    case = spec.case(result.case)
    timed = {one.metric for one in (spec.evaluators_of(case) if case else ()) if isinstance(one, MaxSeconds)}
    left["scores"]["scores"] = [one for one in left["scores"]["scores"] if one["name"] not in timed]
    return left


def _doubts(events: Sequence[tuple[str, HistoryEvent]]) -> int:
    """Number of questions whether to do again what may have happened."""
    asked = 0
    for path, event in events:
        news = None if "/" in path else news_at_desk(event)
        if news is not None and news.kind == "asked":
            uses = cast("list[dict[str, Any]]", news.message.get("capabilities") or [])
            asked += any(use.get("name") == REPEAT for use in uses)
    return asked

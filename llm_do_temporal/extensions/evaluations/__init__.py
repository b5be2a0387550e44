"""Workers are evaluated: cases are run, scored and judged, and two versions are compared."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from llm_do_temporal.extension import (
    Command,
    CommandGroup,
    DefinitionFiles,
    Extension,
    NavigationEntry,
    RunStarter,
)
from llm_do_temporal.extensions.evaluations.policy import EVALUATION_SUFFIX


class EvaluationFiles(DefinitionFiles):
    """Evaluation files: `NAME.eval.yaml`, at the top of a workshop or below its `workers` folder."""

    kind = "eval"
    title = "evaluation file"
    suffix = EVALUATION_SUFFIX

    def find(self, root: Path) -> Sequence[Path]:
        """See DefinitionFiles."""
        from llm_do_temporal.extensions.evaluations.files import evaluation_files

        return evaluation_files(root)

    def problems(self, root: Path, workers: Collection[str]) -> Iterable[Any]:
        """See DefinitionFiles."""
        from llm_do_temporal.extensions.evaluations.files import evaluation_problems

        return evaluation_problems(root, workers)

    def schema(self) -> dict[str, Any]:
        """See DefinitionFiles."""
        from llm_do_temporal.extensions.evaluations.files import evaluation_schema

        return evaluation_schema()

    def models(self) -> Sequence[type]:
        """See DefinitionFiles."""
        from llm_do_temporal.extensions.evaluations.files import EvaluationFile
        from llm_do_temporal.extensions.evaluations.policy.scores import EVALUATORS

        return (EvaluationFile, *EVALUATORS.values())

    def tables(self) -> Mapping[str, type]:
        """See DefinitionFiles."""
        from llm_do_temporal.extensions.evaluations.files import CaseKeys, EvaluationFile
        from llm_do_temporal.extensions.evaluations.policy.scores import Bound, DecideEntry, JudgeSpec

        return {
            "file": EvaluationFile,
            "case": CaseKeys,
            "decide": DecideEntry,
            "judge": JudgeSpec,
            "threshold": Bound,
        }

    def name_kind(self, path: Sequence[str | int]) -> str | None:
        """See DefinitionFiles."""
        if tuple(path) in (("worker",), ("judge",), ("judge", "worker")):
            return "worker"
        return "model" if tuple(path) in (("model",), ("judge", "model")) else None

    def tool_texts(self, worker: str, spans: Sequence[Any]) -> Collection[Any]:
        """See DefinitionFiles."""
        from llm_do_temporal.extensions.evaluations.files import tool_texts

        return tool_texts(worker, spans)


class EvaluationsExtension(Extension):
    """See the module."""

    name = "evaluations"

    def commands(self) -> Sequence[Command]:
        """See Extension."""
        from llm_do_temporal.extensions.evaluations.commands import (
            add,
            compare,
            evaluate,
            export_experiment,
            list_evaluations,
            show_evaluation,
        )

        examples = (
            "eval workers/greeter.eval.yaml",
            "eval greeter --repeats 5 --junit report.xml",
            "eval list",
            "eval show greeter@-1",
            "eval compare greeter@-1 greeter",
            "eval add greeter-1f2e3d4c --to workers/greeter.eval.yaml",
        )
        below = {
            "list": list_evaluations,
            "show": show_evaluation,
            "compare": compare,
            "export": export_experiment,
            "add": add,
        }
        return (Command("eval", evaluate, CommandGroup.RUNS, "FILE [FLAGS]", examples, below),)

    def routes(self) -> Sequence[Any]:
        """See Extension."""
        from llm_do_temporal.extensions.evaluations.pages import routes

        return routes

    def navigation(self) -> Sequence[NavigationEntry]:
        """See Extension."""
        return (NavigationEntry("Evaluations", "/evaluations", place="an evaluation"),)

    def routers(self) -> Sequence[Any]:
        """See Extension."""
        from llm_do_temporal.extensions.evaluations.api import router

        return (router,)

    def public_names(self) -> Mapping[str, Mapping[str, str]]:
        """See Extension."""
        api = "llm_do_temporal.extensions.evaluations.api"
        methods = ("evaluations", "evaluate", "experiments", "experiment", "results", "compare")
        values = ("CaseResult", "Comparison", "Facts", "Results", "Start")
        return {
            "RemoteClient": dict.fromkeys(methods, api),
            "llm_do_temporal.remote": {f"Experiment{name}": api for name in values} | {"StartedExperiment": api},
        }

    def workflows(self) -> Sequence[type]:
        """See Extension."""
        from llm_do_temporal.extensions.evaluations.workflow import LlmDoEvaluation

        return (LlmDoEvaluation,)

    def activity_refs(self) -> Sequence[Any]:
        """See Extension."""
        from llm_do_temporal.extensions.evaluations.messages import (
            COLLECT_RESULTS,
            JUDGE_CASE,
            PREPARE_CASE,
            SCORE_CASE,
        )

        return (PREPARE_CASE, SCORE_CASE, JUDGE_CASE, COLLECT_RESULTS)

    def activities(self, host: Any) -> Sequence[Callable[..., Any]]:
        """See Extension."""
        from llm_do_temporal.extensions.evaluations.activities import EvaluationActivities, case_reader

        own = EvaluationActivities(host.workshop, host.blobs, case_reader(host.client, host.blobs))
        return (own.prepare_case, own.score_case, own.judge_case, own.collect_results)

    def run_starters(self) -> Sequence[RunStarter]:
        """See Extension."""
        from llm_do_temporal.extensions.evaluations import messages
        from llm_do_temporal.extensions.evaluations.policy.experiment import EXPERIMENT_PREFIX, part_of

        return (
            RunStarter(
                workflow=messages.EVALUATION_WORKFLOW,
                request=messages.RunEvaluationInput,
                result=messages.CollectedResults,
                memo=messages.EVALUATION_MEMO,
                facts=messages.EvaluationMemo,
                prefix=EXPERIMENT_PREFIX,
                read_part=part_of,
            ),
        )

    def definition_files(self) -> Sequence[DefinitionFiles]:
        """See Extension."""
        return (EVALUATION_FILES,)


EVALUATION_FILES = EvaluationFiles()
EXTENSION = EvaluationsExtension()

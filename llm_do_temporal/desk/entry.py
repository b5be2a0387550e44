"""The entry invocation of a run, as its start and the loading of its worker make it.

Shared by the run's workflow, which runs that invocation, and by readers of the run's history, which show it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from llm_do_temporal.messages.activities import BuiltInput, LoadedRun
from llm_do_temporal.messages.base import ENTRY_PATH
from llm_do_temporal.messages.runs import InvokeWorkerInput, StartRunInput
from llm_do_temporal.policy.budget import limited_by
from llm_do_temporal.policy.delegation import check_depth
from llm_do_temporal.policy.files.attachments import check_attachments
from llm_do_temporal.policy.files.sandbox import narrow
from llm_do_temporal.policy.models import resolve_model


def entry_invocation(run: str, start: StartRunInput, loaded: LoadedRun, *, started_at: datetime) -> InvokeWorkerInput:
    """Return the entry invocation; of a batch, the invocation that its items are made from.

    `started_at` is the start of the run's workflow. Files that the class of a typed input attaches are not among the
    attachments: the workflow looks for them later. Raises LlmDoError where the run is refused.
    """
    worker, settings = loaded.worker, loaded.settings
    check_depth(start.depth, settings.max_depth, worker=worker.name)
    check_attachments(worker.attachment_policy, start.attachments, whose=f"worker '{worker.name}'")
    model = resolve_model(
        settings.models,
        worker=worker.name,
        worker_model=worker.model,
        caller_model=None,
        compatible=worker.compatible_models,
    )
    limited = limited_by(worker.limits, limited_by(settings.limits))
    prompt = start.prompt if loaded.prompt is None else loaded.prompt
    values = start.input if loaded.template is None else None
    if loaded.built is not None and start.batch is None:
        built, values = prompt_and_input(loaded.built)
        prompt = "\n\n".join(text for text in (prompt, built) if text.strip())
    return InvokeWorkerInput(
        run=run,
        path=ENTRY_PATH,
        depth=start.depth,
        worker=worker,
        settings=settings,
        tree=narrow(loaded.tree, worker.sandbox, workshop_has_sandbox=settings.workshop_has_sandbox),
        model=model,
        limited=limited,
        started_at=started_at if limited else None,
        prompt=prompt,
        input=values,
        attachments=start.attachments,
        template=loaded.template,
        parts=start.parts,
    )


def prompt_and_input(built: BuiltInput) -> tuple[str, Any]:
    """Return prompt and input of a worker with typed input: the prompt that its class made and None, or "" and the
    fields."""
    return ("", built.values) if built.prompt is None else (built.prompt, None)

"""Experiments that tests begin."""

from __future__ import annotations

from typing import Any

import yaml

from llm_do_temporal.extensions.evaluations.client import read_experiment
from llm_do_temporal.extensions.evaluations.files import load_evaluation
from llm_do_temporal.extensions.evaluations.messages import ExperimentRecord, StartedExperiment
from llm_do_temporal.extensions.evaluations.start import begin_experiment, draft_evaluation
from tests.support.runs.place import Place


async def begun(place: Place, *, retry_errors: bool = False, **keys: Any) -> StartedExperiment:
    """The experiment of an evaluation file with these keys, started or found."""
    path = place.write("greeting.eval.yaml", yaml.safe_dump({"worker": "main", **keys}))
    spec = load_evaluation(path, place.folder)
    draft = await draft_evaluation(place.client, spec, place.folder, environment_model=None, started_by="ada")
    found = await begin_experiment(place.client, draft, retry_errors=retry_errors)
    place.started = list(dict.fromkeys((*place.started, found.experiment)))
    return found


async def evaluated(
    place: Place, *, retry_errors: bool = False, **keys: Any
) -> tuple[StartedExperiment, ExperimentRecord]:
    """The experiment of an evaluation file with these keys, once it has ended."""
    found = await begun(place, retry_errors=retry_errors, **keys)
    await place.client.temporal.get_workflow_handle(found.experiment).result()
    return found, (await read_experiment(place.client.temporal, found.experiment)).record

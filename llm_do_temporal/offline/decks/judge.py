"""The offline judge of evaluations: it holds an evaluation against the rubric by rules on words and numbers."""

from __future__ import annotations

import re
from typing import Any, cast

from llm_do_temporal.offline.model.play import PlaySteps
from llm_do_temporal.offline.model.seen import SeenRequest, fields_of
from llm_do_temporal.offline.model.typed_input import given_fields

_QUOTATION = re.compile(r'page \d+: "')
_NOTHING = "says nothing"
GO_AVERAGE, PASS_AVERAGE, PASS_FLAGS = 3.8, 2.5, 3


def judge_evaluation(seen: SeenRequest) -> PlaySteps:
    """Judge the evaluation in the input."""
    evaluation = fields_of(given_fields(seen).get("output"))
    scores = [fields_of(one) for one in cast("list[Any]", evaluation.get("scores") or [])]
    loose = [str(one.get("dimension")) for one in scores if not _has_evidence(one)]
    verdict, due = evaluation.get("verdict"), _verdict_due(scores, len(evaluation.get("red_flags") or ()))
    reasons = [f"no evidence for {', '.join(loose)}"] if loose else []
    reasons += [f"the verdict is '{verdict}', and '{due}' follows"] if verdict != due else []
    return {
        "grounded": bool(scores) and not loose,
        "verdict_follows": verdict == due,
        "reason": "; ".join(reasons) or "nothing is wrong with it",
    }
    yield


def _has_evidence(score: Any) -> bool:
    said = str(score.get("evidence") or "")
    return bool(_QUOTATION.search(said)) or (_NOTHING in said and score.get("score") == 1)


def _verdict_due(scores: list[Any], flags: int) -> str:
    numbers = [float(one.get("score") or 0) for one in scores]
    average = sum(numbers) / len(numbers) if numbers else 0.0
    if average < PASS_AVERAGE or flags >= PASS_FLAGS:
        return "pass"
    return "go" if average >= GO_AVERAGE and not flags else "watch"

"""Routes of questions and reviews: what waits for people, and their answers."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response

from llm_do_temporal.doors import reviews
from llm_do_temporal.doors.http.problems import problem_responses
from llm_do_temporal.doors.http.requests import PREFIX, Caller, QuestionId, RunId, Service, Shown, TokenFirst, saved
from llm_do_temporal.doors.values.reviews import ChangedLines, ReviewHead, ReviewParts, ShownChanges
from llm_do_temporal.doors.values.runs import Answer, AskedQuestion

router = APIRouter(prefix=PREFIX, tags=["questions"], route_class=TokenFirst)
ChangedPath = Annotated[str, Query(description="Path of the change.", min_length=1, max_length=4_096)]


@router.get("/questions")
async def list_questions(service: Service, caller: Caller) -> list[AskedQuestion]:
    """List all questions that wait, oldest first."""
    return await service.questions(caller)


@router.get("/runs/{run}/questions")
async def list_questions_of_run(service: Service, caller: Caller, run: RunId) -> list[AskedQuestion]:
    """List the questions of a run that wait, oldest first."""
    return await service.questions(caller, run)


@router.get("/runs/{run}/questions/{question}")
async def get_question(
    service: Service, caller: Caller, run: RunId, question: QuestionId, response: Response
) -> AskedQuestion:
    """Return a question, decided or not. Its `ETag` is what a decision and an undo name in `If-Match`."""
    asked = await service.question(caller, run, question)
    response.headers["ETag"] = f'"{asked.digest}"'
    return asked


@router.post("/runs/{run}/questions/{question}/decision", responses=problem_responses(409, 412, 428))
async def decide_question(
    service: Service, caller: Caller, run: RunId, question: QuestionId, answer: Answer, digest: Shown
) -> AskedQuestion:
    """Decide a question as it was shown. The first answer of all doors wins: 409 says whose that was."""
    return await service.decide(caller, run, question, answer, digest=digest)


@router.post("/runs/{run}/questions/{question}/undo", responses=problem_responses(409, 412, 428))
async def undo_decision(
    service: Service, caller: Caller, run: RunId, question: QuestionId, digest: Shown
) -> AskedQuestion:
    """Take back one's own decision about what was shown, before it takes effect; the question is open again."""
    return await service.undo(caller, run, question, digest=digest)


@router.get("/runs/{run}/reviews")
async def list_reviews_of_run(service: Service, caller: Caller, run: RunId) -> list[ReviewHead]:
    """List the reviews of a run, open or decided; each is the question of its id."""
    return await reviews.list_reviews(service, caller, run)


@router.get("/runs/{run}/reviews/{question}")
async def get_review(
    service: Service, caller: Caller, run: RunId, question: QuestionId, response: Response
) -> ShownChanges:
    """Return a review with its changes. Its `ETag` is what an answer names in `If-Match`."""
    shown = await reviews.show_review(service, caller, run, question)
    response.headers["ETag"] = f'"{shown.digest}"'
    return shown


@router.get("/runs/{run}/reviews/{question}/change")
async def get_change(
    service: Service,
    caller: Caller,
    run: RunId,
    question: QuestionId,
    path: ChangedPath,
    why: Annotated[bool, Query(description="Whether to read the words of the model.")] = False,
) -> ChangedLines:
    """Return a change of a review with its lines, hunk by hunk; a binary file is known by its digest."""
    return await reviews.show_change(service, caller, run, question, path, why=why)


@router.get("/runs/{run}/reviews/{question}/content", response_class=Response)
async def read_changed_file(
    service: Service,
    caller: Caller,
    run: RunId,
    question: QuestionId,
    path: ChangedPath,
    side: Annotated[Literal["now", "base"], Query(description="As it would be, or as it was.")] = "now",
) -> Response:
    """Send the bytes of one side of a changed file. They are never shown by a browser, only saved."""
    return saved(*await reviews.read_side(service, caller, run, question, path, side))


@router.post("/runs/{run}/reviews/{question}/answer", responses=problem_responses(409, 412, 428))
async def answer_review(
    service: Service, caller: Caller, run: RunId, question: QuestionId, parts: ReviewParts, digest: Shown
) -> AskedQuestion:
    """Answer a review as it was shown: some files or hunks, not others, with remarks. The first answer wins."""
    return await reviews.answer_review(service, caller, run, question, parts, digest=digest)


@router.get("/runs/{run}/patch", response_class=Response)
async def read_patch_of_run(service: Service, caller: Caller, run: RunId) -> Response:
    """Send what a run proposes, keeps aside or has committed last, as a patch that `git apply` takes."""
    return saved(await reviews.patch_of_run(service, caller, run), "text/x-diff")

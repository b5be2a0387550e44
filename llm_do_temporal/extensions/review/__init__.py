"""Changes of files are made in a layer, reviewed together by people, and made for real as a whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from llm_do_temporal.extension import Command, CommandGroup, Extension, Finding, QuestionView

_HOME = "llm_do_temporal.extensions.review"


class ReviewView(QuestionView):
    """Reviews of changes in every interface."""

    noun = "review"
    tool = "submit_changes"

    def done_words(self, kind: Any) -> str:
        """See QuestionView."""
        return {"approve": "accepted", "modify": "answered change by change"}.get(kind.value) or str(kind.done)

    def command(self, run: str, approval: str = "") -> str:
        """See QuestionView."""
        return f"review {run} --id {approval}" if approval else f"review {run}"

    def lines(self, question: Any, width: int) -> Sequence[Any]:
        """See QuestionView."""
        from llm_do_temporal.extensions.review.terminal import asked_lines

        return asked_lines(question, width)

    async def on_terminal(self, client: Any, question: Any, prompter: Any, console: Any) -> Any:
        """See QuestionView."""
        from llm_do_temporal.extensions.review.terminal import asked_review

        return await asked_review(client, question, prompter, console)

    async def page(self, request: Any, question: Any, known: Sequence[Any], **state: Any) -> Any:
        """See QuestionView."""
        from llm_do_temporal.extensions.review.pages import ReviewStep, show_review

        step = ReviewStep(
            problem=state.get("problem", ""), status=state.get("status", 200), is_sent=state.get("sent", False)
        )
        return await show_review(request, question, known, step)

    async def take(self, request: Any, question: Any, known: Sequence[Any]) -> Any:
        """See QuestionView."""
        from llm_do_temporal.extensions.review.pages import take_review

        return await take_review(request, question, known)

    async def outline(self, service: Any, who: Any, question: Any, most: int) -> str:
        """See QuestionView: the outcome of the check, and the first changes."""
        from llm_do_temporal.extensions.review.api import read_outline

        return await read_outline(service, who, question.run, question.id, most)

    def elsewhere(self, run: str) -> str:
        """See QuestionView."""
        return (
            "This message does not show the changed lines, so nothing is accepted here: who accepts has looked at "
            f"them, on the page or with `llm-do-temporal review {run}`."
        )


class ReviewExtension(Extension):
    """See the module."""

    name = "review"

    def commands(self) -> Sequence[Command]:
        """See Extension."""
        from llm_do_temporal.extensions.review.commands import review

        examples = (
            "review rename-1  # go through it on the terminal",
            "review rename-1 --diff src/",
            "review rename-1 --all --reject src/a.py:1f2e3d4c --comment 'src/a.py:12: keep the old name here'",
        )
        return (Command("review", review, CommandGroup.DECISIONS, "RUN [PATH] [FLAGS]", examples),)

    def routes(self) -> Sequence[Any]:
        """See Extension."""
        from llm_do_temporal.extensions.review.pages import routes

        return routes

    def routers(self) -> Sequence[Any]:
        """See Extension."""
        from llm_do_temporal.extensions.review.api import router

        return (router,)

    def commit_activities(self) -> Sequence[str]:
        """See Extension."""
        return ("commit_changes",)

    def question_view(self) -> QuestionView:
        """See Extension."""
        return ReviewView()

    async def read_patch(self, client: Any, run: str, workshop: Path | None) -> str:
        """See Extension."""
        from llm_do_temporal.extensions.review.client import read_patch

        return await read_patch(client, run, workshop)

    def public_names(self) -> Mapping[str, Mapping[str, str]]:
        """See Extension."""
        client, api, answer = f"{_HOME}.client", f"{_HOME}.api", f"{_HOME}.policy.review"
        shown = ("ChangeOrigin", "Preview", "Review", "ReviewChange", "ReviewChoice", "ShownDiff")
        remote = ("ChangedFile", "ChangedLines", "ReviewHead", "ReviewParts", "ShownChanges")
        return {
            "LlmDoClient": dict.fromkeys(("reviews", "decide_review"), client),
            "RemoteClient": dict.fromkeys(("reviews", "review", "change", "changed_file", "answer", "patch"), api),
            "llm_do_temporal.client": dict.fromkeys((*shown, "read_origin", "read_patch"), client)
            | {"LineComment": answer, "ReviewAnswer": answer},
            "llm_do_temporal.remote": dict.fromkeys(remote, api),
        }

    def check_start(self, start: Any, workshop: Any) -> None:
        """See Extension. A git branch that is to take the changes must be one that can."""
        if start.review_branch:
            from llm_do_temporal.extensions.review.git_branch import check_branch

            check_branch(workshop.root, workshop.config.sandbox, start.review_branch)

    def invocation_part(self) -> Callable[[Any, Any], Any]:
        """See Extension."""
        from llm_do_temporal.extensions.review.workflow import review_part

        return review_part

    def activity_refs(self) -> Sequence[Any]:
        """See Extension."""
        from llm_do_temporal.extensions.review.messages import (
            CHECK_CHANGES,
            COMMIT_CHANGES,
            PREPARE_REVIEW,
            SETTLE_REVIEW,
        )

        return (PREPARE_REVIEW, CHECK_CHANGES, SETTLE_REVIEW, COMMIT_CHANGES)

    def activities(self, host: Any) -> Sequence[Callable[..., Any]]:
        """See Extension."""
        from llm_do_temporal.extensions.review.activities import CheckActivities, ReviewActivities

        reviews = ReviewActivities(host.workshop, host.blobs)
        check = CheckActivities(host.workshop, host.blobs)
        return (reviews.prepare_review, check.check_changes, reviews.settle_review, reviews.commit_changes)

    def examine(self, workshop: Path) -> Sequence[Finding]:
        """See Extension. Commits that have begun and not ended are found."""
        from llm_do_temporal.extensions.review.commit import examine_commits

        return examine_commits(workshop)

    def leftovers(self, workshop: Path, before: float) -> Mapping[str, tuple[str, Callable[[], None]]]:
        """See Extension. Its records are the journals of commits."""
        from llm_do_temporal.extensions.review.commit import ended_commits

        return ended_commits(workshop, before)


EXTENSION = ReviewExtension()

"""A page on which people review made-up changes: with a blob store on disk, and a desk that takes what they decide."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from temporalio.converter import DataConverter

from llm_do_temporal.client import Question
from llm_do_temporal.client.open_questions import InboxContents
from llm_do_temporal.errors import DecisionRefused, UsageError
from llm_do_temporal.messages.approvals import Decision, Verdict
from llm_do_temporal.storage.blobs import BlobStore
from llm_do_temporal.storage.places import workshop_blobs
from tests.support.extensions.review.reviewed import Side, made_manifest, made_reviews
from tests.support.people.browser import Browser, Form, Page
from tests.support.people.inbox import entry_of
from tests.support.people.signed_in import browser_with


def _no_server(*_: Any, **_more: Any) -> Any:
    raise UsageError("no server here")


@dataclass
class ReviewDesk:
    """A client whose runs ask these questions, and whose desk takes the first decision on each."""

    questions_asked: list[Question]
    blobs: BlobStore
    workshop: Path
    decisions: list[Decision] = field(default_factory=list[Decision])
    temporal: Any = field(
        default_factory=lambda: SimpleNamespace(data_converter=DataConverter.default, get_workflow_handle=_no_server)
    )

    async def questions(self, run: str) -> list[Question]:
        return [one for one in self.questions_asked if one.run == run]

    async def approvals(self, run: str) -> list[Question]:
        return [one for one in await self.questions(run) if one.is_open]

    async def inbox(self, run: str | None = None, *, whole: bool = False) -> InboxContents:
        wanted = [one for one in self.questions_asked if one.is_open and run in (None, one.run)]
        return InboxContents([entry_of(one) for one in wanted], [], 0)

    async def decide(self, run: str, decision: Decision) -> object:
        at = next(at for at, one in enumerate(self.questions_asked) if (one.run, one.id) == (run, decision.id))
        question = self.questions_asked[at]
        if not question.is_open:
            raise DecisionRefused("somebody was faster")
        assert decision.decision is not None
        self.decisions.append(decision)
        now, args = datetime.now(UTC), decision.args or question.args
        verdict = Verdict(
            decision=decision.decision, args=args, note=decision.note, by=decision.by, at=now, door="update"
        )
        self.questions_asked[at] = replace(question, verdict=verdict)
        return verdict

    async def browser(self, user: str = "ada", *, workshop: bool = True) -> Browser:
        """Return a browser in which `user` has signed in; without `workshop` at a page on another machine."""
        return await browser_with(self, user, self.workshop if workshop else None)


def review_desk(folder: Path, sides: Mapping[str, tuple[Side, Side]], **more: Any) -> ReviewDesk:
    """Return a desk with the questions of a review of these changes; `folder` becomes a workshop."""
    (folder / "workshop.yaml").write_text("model: offline:notes\n")
    blobs = workshop_blobs(folder)
    manifest = made_manifest(blobs, sides, more.pop("conflicts", None))
    return ReviewDesk([one.question for one in made_reviews(blobs, manifest, **more)], blobs, folder)


def step_pairs(
    form: Form, step: str, *, without: Iterable[tuple[str, str]] = (), **fields: str
) -> list[tuple[str, str]]:
    """Return what a form sends by this button, with boxes unticked and fields typed; `_` in a name stands for `-`."""
    typed = {name.replace("_", "-"): text for name, text in fields.items()}
    kept = [(name, value) for name, value in form.pairs if name not in typed and (name, value) not in set(without)]
    return [*kept, *typed.items(), ("step", step)]


def review_form(page: Page) -> Form:
    return next(form for form in page.forms if "changes" in form.fields)

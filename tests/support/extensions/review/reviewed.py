"""Made-up reviews: changes with the bytes of both sides in a blob store, and the questions that ask about them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast

from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.extensions.review.client import Review, reviews_of
from llm_do_temporal.extensions.review.commit import Disk
from llm_do_temporal.extensions.review.messages import (
    NAME,
    SUBMIT_TOOL,
    ChangeCounts,
    CheckResult,
    ReviewSection,
    ShownReview,
    shown_review,
)
from llm_do_temporal.extensions.review.policy.review import ReviewAnswer, ReviewManifest, Section, sections_of
from llm_do_temporal.messages.approvals import (
    Approval,
    Decision,
    DecisionKind,
    ExtensionQuestion,
    RequestApprovalInput,
    Verdict,
)
from llm_do_temporal.policy.files.protection import Protection
from llm_do_temporal.policy.identity import IDENTITY_VERSION
from llm_do_temporal.policy.layers.layer import LayerAuthor, LayerChangeKind, LayerEntry, LayerNode, file_node, layer_of
from llm_do_temporal.sandbox.layers.contents import LayerContents
from llm_do_temporal.storage.blobs import BlobStore

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
EDITOR = LayerAuthor(invocation="main/editor-1", turn=3)
Side = str | bytes | LayerNode | None
"""Text or bytes of a file, any other node, or None: nothing is there."""
NOVEL = "".join(f"line {number}\n" for number in range(1, 41))
EDITED_NOVEL = NOVEL.replace("line 5\n", "line five\n").replace("line 30\n", "line thirty\nand more\n")


class ReviewedRun(LlmDoClient):
    """Client of a run that asks for these reviews, and takes every decision."""

    def __init__(self, *reviews: Review) -> None:
        super().__init__(cast("Any", None))
        self.asked = list(reviews)
        self.taken: list[Decision] = []

    async def reviews(self, run: str) -> list[Review]:
        return self.asked

    async def questions(self, run: str) -> list[Question]:
        return [one.question for one in self.asked]

    async def decide(self, run: str, decision: Decision, *, is_sent_only: bool = False) -> Approval | None:
        assert decision.decision is not None
        self.taken.append(decision)
        question = next(one.question for one in self.asked if one.question.id == decision.id)
        args = decision.args or question.args
        verdict = Verdict(decision=decision.decision, args=args, by=decision.by, at=NOON, door="update")
        return Approval(id=question.id, asked_at=NOON, request=question.request, verdict=verdict)

    @property
    def answer(self) -> ReviewAnswer:
        (decision,) = self.taken
        return ReviewAnswer.model_validate(decision.args)


def made_verdict(decision: DecisionKind = DecisionKind.REJECT) -> Verdict:
    return Verdict(decision=decision, args={}, by="bob", at=NOON, door="update")


def kept_node(blobs: BlobStore, side: Side, mode: int = 0o644) -> LayerNode | None:
    """Return the node, the bytes of a file kept."""
    if side is None or isinstance(side, LayerNode):
        return side
    kept = LayerContents(blobs).keep(side.encode() if isinstance(side, str) else side, "a file")
    return file_node(kept.sha256, kept.bytes, blob=kept.blob, mode=mode)


def made_manifest(
    blobs: BlobStore, sides: Mapping[str, tuple[Side, Side]], conflicts: Mapping[str, str] | None = None
) -> ReviewManifest:
    """Return the manifest of changes, each path with what was there and what is there now."""
    entries = {
        path: LayerEntry(base=kept_node(blobs, base), now=kept_node(blobs, now), author=EDITOR)
        for path, (base, now) in sides.items()
    }
    layer = layer_of(entries)
    return ReviewManifest(layer=layer, sections=sections_of(layer, Protection()), conflicts=conflicts or {})


def made_reviews(
    blobs: BlobStore, manifest: ReviewManifest, *, run: str = "run-1", check: CheckResult | None = None, **request: Any
) -> list[Review]:
    """Return the reviews of all sections, asked as a1, a2 and so on."""
    name = blobs.put_bytes(manifest.model_dump_json().encode())
    asked = [_question(manifest, section, name, number, run, check, request) for number, section in _numbered(manifest)]
    return reviews_of(asked, blobs)


def made_review(blobs: BlobStore, sides: Mapping[str, tuple[Side, Side]], **more: Any) -> Review:
    """Return the review of the ordinary changes among these."""
    conflicts = more.pop("conflicts", None)
    return made_reviews(blobs, made_manifest(blobs, sides, conflicts), **more)[0]


def _numbered(manifest: ReviewManifest) -> list[tuple[int, Section]]:
    return list(enumerate(manifest.sections, start=1))


def _question(
    manifest: ReviewManifest,
    section: Section,
    name: str,
    number: int,
    run: str,
    check: CheckResult | None,
    request: Mapping[str, Any],
) -> Question:
    digest = manifest.of(section).digest()
    kinds = [change.kind for change in manifest.changes(section)]
    counts = ChangeCounts(**{kind.value: kinds.count(kind) for kind in LayerChangeKind})
    conflicts = tuple(manifest.conflicts_of(section))
    shown = ReviewSection(section=section, digest=digest, counts=counts, conflicts=conflicts)
    facts: dict[str, Any] = {
        "invocation": run,
        "key": f"k{number}",
        "worker": "editor",
        "path": "main",
        "tool": SUBMIT_TOOL,
        "args": ReviewAnswer(changes=digest).model_dump(mode="json"),
        "args_schema": ReviewAnswer.model_json_schema(),
        "capabilities": (),
        "summary": f"{counts.total} changes",
        "identity_version": IDENTITY_VERSION,
        "extension": ExtensionQuestion(
            name=NAME, shown=ShownReview(number=1, manifest=name, section=shown, check=check).model_dump(mode="json")
        ),
    }
    return Question(f"a{number}", run, RequestApprovalInput.model_validate(facts | dict(request)), NOON)


def section(question: Question) -> Section:
    """Return the section that a review asks about."""
    shown = shown_review(question.request)
    assert shown is not None
    return shown.section.section


def digest(question: Question) -> str:
    """Return the digest of the changes that a review asks about."""
    shown = shown_review(question.request)
    assert shown is not None
    return shown.section.digest


class UnsyncedDisk(Disk):
    """Disk that does not wait for anything to be on it: what is tested is the order of things."""

    def sync(self, file: int) -> None:
        pass

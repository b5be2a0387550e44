"""Reviews: the layer of an invocation on its way to a person, and from there to the workshop's files."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from llm_do_temporal.extensions.review.policy.review import ReviewAnswer, Section
from llm_do_temporal.messages.activities import ActivityRef
from llm_do_temporal.messages.approvals import RequestApprovalInput
from llm_do_temporal.messages.base import Message, is_empty, is_none, is_zero
from llm_do_temporal.messages.layers import CommittedChanges
from llm_do_temporal.policy.files.sandbox import Tree
from llm_do_temporal.policy.layers.layer import CarriedLayer, Digest
from llm_do_temporal.policy.shell import ShellSettings

NAME = "review"
"""Name of the capability."""
SUBMIT_TOOL = "submit_changes"
"""Tool by which a worker asks for a review, and the name of the question at the desk."""


class ChangeCounts(Message):
    """Number of changes of each kind."""

    added: int = Field(default=0, exclude_if=is_zero)
    modified: int = Field(default=0, exclude_if=is_zero)
    deleted: int = Field(default=0, exclude_if=is_zero)
    renamed: int = Field(default=0, exclude_if=is_zero)
    mode: int = Field(default=0, exclude_if=is_zero)
    """Changes of nothing but permissions."""

    @property
    def total(self) -> int:
        """Number of all changes."""
        return self.added + self.modified + self.deleted + self.renamed + self.mode


class ReviewSection(Message):
    """Part of the changes that is decided by itself."""

    section: Section
    digest: Digest
    """Digest of the section's changes."""
    counts: ChangeCounts
    conflicts: tuple[str, ...] = Field(default=(), exclude_if=is_empty)
    """Paths that somebody else has changed meanwhile; they are accepted only by name. At most 1,000."""


class PrepareReviewInput(Message):
    """Input of `prepare_review`."""

    layer: CarriedLayer
    created: Mapping[str, Digest] = Field(default_factory=dict)
    """Files of workers that were made with `worker_create`, as in LayerState."""
    branch: str = ""
    """Git branch that is to take the changes; empty: the workshop's files are."""


class PreparedReview(Message):
    """Result of `prepare_review`: the changes as they are against the files of now."""

    layer: CarriedLayer
    """Layer with its base as it is now, and the bytes of both sides of each change kept; nothing is beside its
    manifest. For a branch it is the layer as it was."""
    review: Digest | None = None
    """Blob with the ReviewManifest: all that people are shown. None: there is no change left to review."""
    digest: Digest
    """Digest of all changes."""
    sections: tuple[ReviewSection, ...] = ()
    """Empty: there is no change left to review."""


CHECK_SECONDS = 600
"""Longest time that a workshop's check may take; one that is stopped has not passed."""
CHECK_OUTPUT_BYTES = 8 * 1024
"""Largest end of a check's output that is kept: as much as a person reads, or a model is told."""


class CheckChangesInput(Message):
    """Input of `check_changes`: the workshop's `check_command` runs on changes that are not made yet."""

    manifest: Digest
    """Blob with the layer."""
    command: str
    settings: ShellSettings = ShellSettings()


class CheckResult(Message):
    """Result of `check_changes`."""

    command: str
    exit_code: int | None = None
    """None: it could not be run."""
    output: str = ""
    """End of its output, both streams together."""
    problem: str = ""
    """Reason why it could not be run, or was stopped; empty if it ran to its end."""

    @property
    def passed(self) -> bool:
        """Whether it ended with exit code 0."""
        return self.exit_code == 0


class ShownReview(Message):
    """Review as the question at the desk has it. The changes themselves are in the manifest."""

    number: int
    """Number of the review in its invocation, from 1."""
    manifest: Digest
    """Blob with the ReviewManifest: all sections, of which the question is about one."""
    section: ReviewSection
    check: CheckResult | None = Field(default=None, exclude_if=is_none)
    """Outcome of the check on the changes that are proposed; None: the workshop has none."""
    branch: str = Field(default="", exclude_if=is_empty)
    """Git branch that takes the changes; empty: the workshop's files do."""


def shown_review(request: RequestApprovalInput) -> ShownReview | None:
    """Return the review that a question is about; None: it is about something else."""
    asked = request.extension
    return ShownReview.model_validate(asked.shown) if asked is not None and asked.name == NAME else None


class SectionAnswer(Message):
    """Answer of the people who decided on a section."""

    section: Section
    answer: ReviewAnswer | None = None
    """None: the section was rejected as a whole."""
    note: str = ""
    """Reason of a rejection, for the model."""
    by: str = ""
    """Name of the person who decided, as the last one of several; empty where nobody was asked."""


class SettleReviewInput(Message):
    """Input of `settle_review`."""

    review: Digest
    """Blob with the ReviewManifest."""
    tree: Tree
    """Files of the invocation that is told the rest, for the paths in its words."""
    answers: tuple[SectionAnswer, ...]


class SettledReview(Message):
    """Result of `settle_review`: what the answers come to."""

    accepted: Digest
    """Blob with the layer of the accepted changes, as people edited them."""
    digest: Digest
    """Digest of the accepted changes."""
    accepted_paths: int
    rejected_paths: int
    workers: tuple[str, ...] = ()
    """Files of workers that were accepted as such, and not as definitions."""
    tried: Digest | None = None
    """Blob with the layer that a check of the accepted changes is for, where it is another one, as for a branch."""
    kept: CarriedLayer = CarriedLayer()
    """Layer that the invocation goes on with once the accepted changes are made."""
    words: str = ""
    """Rejected changes with the comments on them, for the model; empty where everything was accepted without a word."""


class CommitChangesInput(Message):
    """Input of `commit_changes`."""

    key: str
    """Name of the commit: one that was made already is not made again."""
    manifest: Digest
    digest: Digest
    """Digest of the changes that were accepted; a manifest with another one is refused."""
    sections: tuple[Section, ...]
    """Sections that were accepted, at least in part."""
    workers: tuple[str, ...] = ()
    """Files among the definitions that are workers made with `worker_create`."""
    branch: str = ""
    """Git branch to commit to; empty: the workshop's files."""
    message: str = ""
    """Message of the git commit."""
    by: str = ""
    """People who accepted, for the git commit."""


PREPARE_REVIEW = ActivityRef("prepare_review", PrepareReviewInput, PreparedReview)
"""Compare a layer with the files as they are now, and keep all that a review of it shows."""
CHECK_CHANGES = ActivityRef("check_changes", CheckChangesInput, CheckResult)
"""Run the workshop's check on changes that are not made yet."""
SETTLE_REVIEW = ActivityRef("settle_review", SettleReviewInput, SettledReview)
"""Make the layer of the accepted changes, and the words for the model about the others."""
COMMIT_CHANGES = ActivityRef("commit_changes", CommitChangesInput, CommittedChanges)
"""Make accepted changes in the workshop's files, or on a git branch: all of them, or none."""

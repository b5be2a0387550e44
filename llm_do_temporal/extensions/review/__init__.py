"""Changes of files are made in a layer, reviewed together by people, and made for real as a whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from llm_do_temporal.extension import Extension, Finding


class ReviewExtension(Extension):
    """See the module."""

    name = "review"

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

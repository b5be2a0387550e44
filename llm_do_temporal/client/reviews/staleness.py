"""Comparison of a review that waits with the files as they are now: what others have changed since it was asked.

Only where the workshop's folder is on this machine. Nothing is changed; each file of the review is read.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from llm_do_temporal.client.reviews.review import Review
from llm_do_temporal.errors import LlmDoError
from llm_do_temporal.policy.layers.merge import against
from llm_do_temporal.sandbox.layers.base_files import TolerantFiles, base_files, folds_names


def compared(review: Review, workshop: Path | None) -> Review:
    """Return the review with the paths that have changed since it was asked; as it is where that cannot be seen.

    A review that goes to a git branch, or that was answered, is not compared. Blocks.
    """
    if workshop is None or review.shown.branch or not review.question.is_open:
        return review
    try:
        with base_files(workshop) as base:
            # A section may need folders of another one.
            conflicts = against(review.manifest.layer, TolerantFiles(base), folds=folds_names(base)).conflicts
    except (LlmDoError, OSError):
        return review
    mine = review.layer.changes
    return replace(review, moved={one.path: str(one.kind) for one in conflicts if one.path in mine})

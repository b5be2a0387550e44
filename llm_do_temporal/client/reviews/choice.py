"""Choice of a person in a review, change by change, from which the answer is made that the desk takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from llm_do_temporal.client.reviews.review import Review, ReviewChange
from llm_do_temporal.errors import DecisionRefused
from llm_do_temporal.policy.layers.answer import ALL, LineComment, ReviewAnswer, named
from llm_do_temporal.policy.layers.nodes import NodeKind
from llm_do_temporal.policy.layers.paths import above, lies_below


@dataclass(frozen=True)
class ReviewChoice:
    """Accepted parts of a review; a change that is not among them is not accepted."""

    review: Review
    whole: frozenset[str] = frozenset()
    """Paths that are accepted as a whole, of renamed files both."""
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Ids of hunks, of files that are accepted in part."""
    edits: Mapping[str, str] = field(default_factory=dict[str, str])
    """Blobs with the texts that a person gave to files, which are accepted so."""
    comments: tuple[LineComment, ...] = ()
    rest: Literal["drop", "keep"] = "drop"
    """Treatment of what is not accepted: files go back to their state before, or stay as they are in the layer."""

    @classmethod
    def of(cls, review: Review, answer: ReviewAnswer) -> ReviewChoice:
        """Return the choice that an answer stands for. Raises DecisionRefused where it is not about this review."""
        whole = frozenset(answer.paths(review.layer, frozenset(review.conflicts)))
        return cls(review, whole, dict(answer.hunks), dict(answer.edits), answer.comments, answer.rest)

    def with_all(self) -> ReviewChoice:
        """Return the choice with every change accepted that is no conflict and is not accepted in part."""
        others = {*self.parts, *self.edits}
        found = (one for one in self.review.changes if not one.conflict and one.path not in others)
        return replace(self, whole=self.whole.union(*(one.change.paths for one in found)))

    def with_change(self, change: ReviewChange, *, accepted: bool) -> ReviewChoice:
        """Return the choice with the change accepted as a whole, or not at all."""
        return self.with_changes([change], accepted=accepted)

    def with_changes(self, changes: Iterable[ReviewChange], *, accepted: bool) -> ReviewChoice:
        """Return the choice with all these changes accepted as a whole, or none of them at all."""
        paths = frozenset(path for change in changes for path in change.change.paths)
        return replace(
            self,
            whole=self.whole | paths if accepted else self.whole - paths,
            parts={path: ids for path, ids in self.parts.items() if path not in paths},
            edits={path: blob for path, blob in self.edits.items() if path not in paths},
        )

    def with_folder(self, folder: str, *, accepted: bool) -> ReviewChoice:
        """Return the choice with all changes below a folder accepted that are no conflicts, or with none at all.

        Raises DecisionRefused where there are none.
        """
        inside = [one for one in self.review.changes if one.path == folder or lies_below(one.path, folder)]
        if not inside:
            raise DecisionRefused(f"'{folder}/' has no changes", next_step="Look at the review again.")
        chosen = [one for one in inside if not (accepted and one.conflict)]
        if not chosen:
            raise DecisionRefused(
                f"all that changed in '{folder}/' was changed by somebody else meanwhile",
                next_step="Accept each of these files by its name.",
            )
        return self.with_changes(chosen, accepted=accepted)

    def with_hunks(self, change: ReviewChange, ids: Collection[str], known: Collection[str]) -> ReviewChoice:
        """Return the choice with these hunks of a change and no others; `known` are all that it has, in order."""
        chosen = tuple(one for one in known if one in ids)
        if len(chosen) in (0, len(known)):
            return self.with_change(change, accepted=bool(chosen))
        emptied = self.with_change(change, accepted=False)
        return replace(emptied, parts={**emptied.parts, change.path: chosen})

    def with_edit(self, change: ReviewChange, blob: str) -> ReviewChoice:
        """Return the choice with a file accepted as a person has edited it. Raises DecisionRefused for no file."""
        if change.change.now is None or change.change.now.kind is not NodeKind.FILE:
            raise DecisionRefused(f"'{change.path}' is no file that could be edited")
        emptied = self.with_change(change, accepted=False)
        return replace(emptied, edits={**emptied.edits, change.path: blob})

    def with_comment(self, comment: LineComment) -> ReviewChoice:
        """Return the choice with a remark on a changed file. Raises DecisionRefused for another one."""
        self.review.change(comment.path)
        return replace(self, comments=(*self.comments, comment))

    def state(self, change: ReviewChange) -> Literal["accepted", "in part", "edited", "not accepted"]:
        """Return the state of a change in this choice."""
        if change.path in self.edits:
            return "edited"
        if change.path in self.parts:
            return "in part"
        return "accepted" if change.path in self.whole else "not accepted"

    def answer(self) -> ReviewAnswer:
        """Return the answer, with folders in place of all that is in them.

        Raises DecisionRefused for an answer that would accept anything else than this choice.
        """
        answer = ReviewAnswer(
            changes=self.review.shown.section.digest,
            accept=self._accept(),
            hunks=self.parts,
            edits=self.edits,
            comments=self.comments,
            rest=self.rest,
        )
        accepted = frozenset(answer.paths(self.review.layer, frozenset(self.review.conflicts)))
        if accepted != self.whole.intersection(self.review.layer.changes).difference(self.parts, self.edits):
            raise DecisionRefused("the answer would accept other changes than were chosen", next_step="Name each file.")
        return answer

    def _accept(self) -> tuple[str, ...]:
        changed, conflicts = self.review.layer.changes.keys(), self.review.conflicts.keys()
        left_out = changed - {*self.whole, *self.parts, *self.edits}
        paths = [path for path in changed if path in self.whole]
        if paths and left_out <= conflicts:
            return (ALL, *(named(path) for path in paths if path in conflicts))
        split = {folder for path in changed - self.whole for folder in (path, *above(path))}
        sizes = Counter(folder for path in changed for folder in (path, *above(path)))
        # No folder stands for a conflict.
        accept = dict.fromkeys(named(path) for path in paths if path in conflicts)
        for path in (path for path in paths if path not in conflicts):
            whole = [folder for folder in (path, *above(path)) if folder not in split and sizes[folder] > 1]
            accept[f"{whole[-1]}/" if whole else named(path)] = None
        return tuple(accept)

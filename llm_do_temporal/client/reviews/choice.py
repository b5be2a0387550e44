"""Choice of a person in a review, change by change, from which the answer is made that the desk takes. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from llm_do_temporal.client.reviews.review import Review, ReviewChange
from llm_do_temporal.errors import DecisionRefused, UsageError
from llm_do_temporal.extensions.review.policy.answer import ALL, LineComment, ReviewAnswer, named
from llm_do_temporal.extensions.review.policy.sections import joined, needing
from llm_do_temporal.policy.layers.layer import is_file
from llm_do_temporal.policy.layers.paths import above

_MOST_LISTED = 5
"""Paths that one sentence names."""


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
        """Return the choice with all these changes accepted as a whole, or none of them at all.

        What they need is accepted with them, but for conflicts. With a folder that is not accepted nothing of all that
        is in it is, nor what needs that.
        """
        paths = frozenset(path for change in changes for path in change.change.paths)
        if not accepted:
            return self._with_paths(frozenset(needing(self.review.layer, paths)), accepted=False)
        return self._with_paths(paths, accepted=True)._with_needed(paths)

    def with_ticked(self, change: ReviewChange, *, ticked: bool) -> ReviewChoice:
        """Return the choice with this one change accepted as a whole, or not at all.

        What it needs, and what needs it, is left as it is: such a choice may be none that can be sent.
        """
        return self._with_paths(frozenset(change.change.paths), accepted=ticked)

    def with_names(self, names: Iterable[str], *, accepted: bool) -> ReviewChoice:
        """Return the choice with all that is named accepted, or nothing of it: PATH, or FOLDER/ with all below it.

        A folder accepts no conflict. Raises DecisionRefused for a name that stands for no change.
        """
        chosen: dict[str, ReviewChange] = {}
        for name in names:
            chosen |= {one.path: one for one in self.review.named(name, accepted=accepted)}
        return self.with_changes(chosen.values(), accepted=accepted)

    def with_folder(self, folder: str, *, accepted: bool) -> ReviewChoice:
        """Return the choice with all changes below a folder accepted that are no conflicts, or with none at all.

        Raises DecisionRefused where there are none.
        """
        return self.with_names([f"{folder}/"], accepted=accepted)

    def with_hunks(self, change: ReviewChange, ids: Collection[str], known: Collection[str]) -> ReviewChoice:
        """Return the choice with these hunks of a change and no others; `known` are all that it has, in order."""
        chosen = tuple(one for one in known if one in ids)
        if len(chosen) in (0, len(known)):
            return self.with_ticked(change, ticked=bool(chosen))
        emptied = self.with_ticked(change, ticked=False)
        return replace(emptied, parts={**emptied.parts, change.path: chosen})

    def with_edit(self, change: ReviewChange, blob: str) -> ReviewChoice:
        """Return the choice with a file accepted as a person has edited it. Raises DecisionRefused for no file."""
        if not is_file(change.change.now):
            raise DecisionRefused(f"'{change.path}' is no file that could be edited")
        accepted = self.with_change(change, accepted=True)
        return replace(accepted, whole=accepted.whole - {change.path}, edits={**accepted.edits, change.path: blob})

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

    @property
    def taken_along(self) -> frozenset[str]:
        """Paths that are not accepted, and that an answer would accept all the same: something accepted needs them."""
        chosen = self._chosen
        return frozenset(joined(self.review.layer, chosen) - chosen)

    def with_taken_along(self) -> ReviewChoice:
        """Return the choice with all accepted that is made in fact where it is sent as it is."""
        return replace(self, whole=self.whole | self.taken_along)

    def answer(self) -> ReviewAnswer:
        """Return the answer, with folders in place of all that is in them.

        Raises DecisionRefused for an answer that would accept anything else than this choice.
        """
        if along := self.taken_along:
            raise DecisionRefused(
                f"what is accepted cannot be made without {listed(along)}",
                next_step="Accept these by name, too, or leave out what needs them.",
            )
        return self.draft()

    def draft(self) -> ReviewAnswer:
        """Return the answer of a choice that is not made yet: it may lack changes that are taken along.

        Raises DecisionRefused for one that names other changes than this choice.
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

    @property
    def _chosen(self) -> frozenset[str]:
        return frozenset(self.review.layer.changes.keys() & {*self.whole, *self.parts, *self.edits})

    def _with_paths(self, paths: frozenset[str], *, accepted: bool) -> ReviewChoice:
        return replace(
            self,
            whole=self.whole | paths if accepted else self.whole - paths,
            parts={path: ids for path, ids in self.parts.items() if path not in paths},
            edits={path: blob for path, blob in self.edits.items() if path not in paths},
        )

    def _with_needed(self, paths: frozenset[str]) -> ReviewChoice:
        """Return the choice with all accepted that these paths need and that is no conflict."""
        needed = joined(self.review.layer, paths).difference(self._chosen)
        free = {path for path in needed if not self.review.by_path[path].conflict}
        return replace(self, whole=self.whole | free)

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


def listed(paths: Collection[str]) -> str:
    """Return the first of the paths, quoted, for a sentence."""
    named = ", ".join(f"'{path}'" for path in sorted(paths)[:_MOST_LISTED])
    return f"{named} and {len(paths) - _MOST_LISTED} more" if len(paths) > _MOST_LISTED else named


def check_parts(
    choice: ReviewChoice,
    *,
    everything: bool,
    accept: Collection[str],
    in_part: Collection[str] = (),
    edited: Collection[str] = (),
) -> None:
    """Raise UsageError where the parts that a choice was made of contradict each other, or it accepts nothing.

    `everything` says whether all changes were accepted first. `accept` has the names of what is accepted as a whole,
    with `/` at the end of a folder's; `in_part` and `edited` have paths.
    """
    review = choice.review
    for path in in_part:
        if path in accept or path in edited:
            other = "as a whole" if path in accept else "as edited"
            raise UsageError(f"'{path}' is accepted in part and {other}", next_step="Choose one of the two.")
    for name in accept if everything else ():
        if name.endswith("/") or not review.change(name).conflict:
            raise UsageError(
                f"all changes are accepted, and '{name}' is named besides",
                next_step="Accept all, or only what is named; beside all, name conflicts, and what is rejected.",
            )
    for name in (*accept, *in_part, *edited):
        if all(choice.state(one) == "not accepted" for one in review.named(name, accepted=True)):
            raise UsageError(
                f"'{name}' is accepted, and rejected by its own name, its folder's, or that of what it needs",
                next_step="Choose one of the two.",
            )
    if not (choice.whole or choice.parts or choice.edits or choice.comments):
        raise UsageError("it accepts nothing, and says no reason", next_step="Reject all of it, with a reason.")

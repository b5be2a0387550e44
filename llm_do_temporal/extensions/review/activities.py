"""The review activities: a layer against the files of now, what people's answers come to, and the commit.

Scheduled by the review of an invocation's workflow, which asks people in between. All of it may be attempted twice:
the first two only read files and keep blobs, and a commit that was made is not made again. A check runs over the layer
that holds the changes, and nothing that it writes is kept. A check that cannot be run is a result, too: it says why,
and people decide without it.
"""

from __future__ import annotations

import asyncio
import shlex
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from temporalio import activity

from llm_do_temporal.activities.commands import Ground, LayerGrounds, program_problem, run_on
from llm_do_temporal.activities.runtime.failures import user_errors
from llm_do_temporal.activities.runtime.threads import in_thread
from llm_do_temporal.definitions.protection import protection_of
from llm_do_temporal.definitions.workshop import load_workshop
from llm_do_temporal.errors import BlobsUnreachable, DecisionRefused, EffectFailed, LlmDoError
from llm_do_temporal.extensions.review.commit import LayerCommit, check_sections
from llm_do_temporal.extensions.review.git_branch import GitBranch, GitFiles, GitRepository, repository_of
from llm_do_temporal.extensions.review.messages import (
    CHECK_CHANGES,
    CHECK_OUTPUT_BYTES,
    CHECK_SECONDS,
    COMMIT_CHANGES,
    PREPARE_REVIEW,
    SETTLE_REVIEW,
    ChangeCounts,
    CheckChangesInput,
    CheckResult,
    CommitChangesInput,
    PreparedReview,
    PrepareReviewInput,
    ReviewSection,
    SectionAnswer,
    SettledReview,
    SettleReviewInput,
)
from llm_do_temporal.extensions.review.policy.review import (
    PathDifference,
    Rebase,
    ReturnedSection,
    ReviewAnswer,
    ReviewManifest,
    Section,
    SectionChoice,
    Settlement,
    changed_entry,
    check_file,
    for_git,
    rebased,
    review_words,
    sections_of,
    settled,
    worked_on,
)
from llm_do_temporal.messages.activities import ShellInput
from llm_do_temporal.messages.layers import CommittedChanges, CommittedFile
from llm_do_temporal.policy.files.sandbox import Mount, Tree, path_in_tree, root_tree
from llm_do_temporal.policy.layers.layer import NO_LAYER, CarriedLayer, Layer, LayerChange, LayerNode, is_file
from llm_do_temporal.sandbox.bubblewrap import working_bwrap
from llm_do_temporal.sandbox.layers.contents import LayerContents, base_files, folds_names
from llm_do_temporal.sandbox.layers.overlay import scratch_folder
from llm_do_temporal.sandbox.processes import Ended
from llm_do_temporal.storage.blobs import BlobStore

MAX_CONFLICTS = 1_000
"""Most conflicts that a section names to the desk; the manifest has them all."""
MAX_TOLD = 50
"""Most conflicts that a commit names."""
MAX_FILES = 500
"""Most files that a commit names."""


class ReviewActivities:
    """Activities on the changes of one workshop."""

    def __init__(self, workshop: Path, blobs: BlobStore) -> None:
        self._workshop = workshop
        self._blobs = blobs
        self._contents = LayerContents(blobs)

    @activity.defn(name=PREPARE_REVIEW.name)
    def prepare_review(self, asked: PrepareReviewInput) -> PreparedReview:
        """Compare the layer with the files as they are now, and keep all that a review of it shows. Changes nothing."""
        with user_errors():
            whole = self._contents.whole(asked.layer)
            rebase = self._over_branch(whole, asked.branch) if asked.branch else self._over_files(whole)
            layer = rebase.layer
            if not layer.changes:
                return PreparedReview(layer=asked.layer if asked.branch else CarriedLayer(), digest=NO_LAYER.digest())
            working = self._contents.manifest_of(whole) if asked.branch else None
            sections = sections_of(layer, protection_of(self._workshop), asked.created)
            manifest = ReviewManifest(
                layer=layer,
                sections=sections,
                conflicts=rebase.conflicts,
                found={} if asked.branch else rebase.found,
                working=working,
            )
            return PreparedReview(
                layer=CarriedLayer(manifest=working or self._contents.manifest_of(layer)),
                review=self._blobs.put_bytes(manifest.model_dump_json().encode()),
                digest=layer.digest(),
                sections=tuple(_section(manifest, section) for section in sections),
            )

    @activity.defn(name=SETTLE_REVIEW.name)
    def settle_review(self, asked: SettleReviewInput) -> SettledReview:
        """Return what the answers come to, and the words for the model about the rest. Changes nothing.

        Fails with DecisionRefused for an answer that does not fit what was shown.
        """
        with user_errors():
            manifest = ReviewManifest.model_validate_json(self._blobs.read(asked.review))
            choices = {
                one.section: self._choice(manifest, one.section, one.answer)
                for one in asked.answers
                if one.answer is not None
            }
            settlement = settled(manifest, choices)
            told = [
                self._told(one, choices.get(one.section), manifest, settlement, asked.tree) for one in asked.answers
            ]
            accepted = settlement.accepted
            workers = set(manifest.sections.get(Section.WORKERS, ())) & accepted.changes.keys()
            kept, tried = settlement.kept, None
            if manifest.working is not None:
                working = self._contents.whole(CarriedLayer(manifest=manifest.working))
                kept = worked_on(working, manifest.layer, accepted, settlement.kept)
                tried = self._contents.manifest_of(worked_on(working, manifest.layer, accepted, NO_LAYER))
            return SettledReview(
                accepted=self._contents.manifest_of(accepted),
                digest=accepted.digest(),
                accepted_paths=len(accepted.changes),
                rejected_paths=len(settlement.rest.entries),
                workers=tuple(sorted(workers)),
                tried=tried,
                kept=self._carried(kept),
                words=review_words(told),
            )

    @activity.defn(name=COMMIT_CHANGES.name)
    def commit_changes(self, asked: CommitChangesInput) -> CommittedChanges:
        """Make the accepted changes, all of them or none. Asked for again, it is carried on or answered."""
        with user_errors():
            layer = self._contents.whole(CarriedLayer(manifest=asked.manifest))
            protection = protection_of(self._workshop)
            if asked.branch:
                check_sections(layer, protection, asked.sections, asked.workers)
                branch = GitBranch(self._repository(), asked.branch)
                key, digest, message, by = asked.key, asked.digest, asked.message, asked.by
                return branch.commit(layer, self._contents, key=key, reviewed=digest, message=message, by=by)
            commit = LayerCommit(self._workshop, self._contents, protection)
            outcome = commit.commit(
                layer, key=asked.key, reviewed=asked.digest, sections=asked.sections, workers=asked.workers
            )
            left = {conflict.path for conflict in outcome.conflicts}
            files = [
                CommittedFile(path=path, bytes=one.now.bytes, sha256=one.now.sha256, created=one.base is None)
                for path, one in layer.changes.items()
                if outcome.committed and is_file(one.now) and path not in left
            ]
            return CommittedChanges(
                committed=outcome.committed,
                paths=outcome.paths,
                conflicts=tuple(str(conflict) for conflict in outcome.conflicts[:MAX_TOLD]),
                files=tuple(files[:MAX_FILES]),
                more_files=len(files[MAX_FILES:]),
            )

    def _over_files(self, layer: Layer) -> Rebase:
        """Return the layer over the files as they are now, the bytes of both sides kept."""
        with base_files(self._workshop, contents=self._contents) as base:
            rebase = rebased(layer, base, folds=folds_names(base))
            return rebase.model_copy(update={"layer": self._contents.with_bases(rebase.layer, base)})

    def _over_branch(self, whole: Layer, name: str) -> Rebase:
        """Return the part of the layer that is not on a branch yet, over the files of the branch."""
        layer = for_git(whole)
        repository = self._repository()
        files = GitFiles(repository, GitBranch(repository, name).parent(), self._contents, layer.changes)
        rebase = rebased(layer, files)
        conflicts = {path: f"on the branch: {reason}" for path, reason in rebase.conflicts.items()}
        return rebase.model_copy(update={"conflicts": conflicts})

    def _repository(self) -> GitRepository:
        return repository_of(self._workshop, load_workshop(self._workshop).config.sandbox)

    def _choice(self, manifest: ReviewManifest, section: Section, answer: ReviewAnswer) -> SectionChoice:
        """Return what is accepted of a section. Raises DecisionRefused where the answer does not fit it."""
        layer = manifest.of(section)
        if answer.changes != layer.digest():
            raise DecisionRefused("the answer is about other changes than those that were shown")
        changes = layer.changes
        for path in (*answer.hunks, *answer.edits, *(comment.path for comment in answer.comments)):
            changed_entry(changes, path)
        if both := sorted(answer.hunks.keys() & answer.edits.keys()):
            raise DecisionRefused(f"'{both[0]}' is accepted by its parts and as edited; choose one of the two")
        return SectionChoice(
            whole=tuple(answer.paths(layer, frozenset(manifest.conflicts))),
            in_part={path: self._in_part(layer, path, frozenset(ids)) for path, ids in answer.hunks.items() if ids},
            edited={path: self._edited(layer, path, blob) for path, blob in answer.edits.items()},
            keeps_rest=answer.rest == "keep",
        )

    def _in_part(self, layer: Layer, path: str, ids: frozenset[str]) -> LayerNode:
        entry = check_file(layer, path)
        if entry.now is None or entry.base is None:
            raise DecisionRefused(f"'{path}' is new; it is accepted as a whole, or not at all")
        return self._contents.with_hunks(path, entry.base, entry.now, ids)

    def _edited(self, layer: Layer, path: str, blob: str) -> LayerNode:
        entry = check_file(layer, path)
        try:
            data = self._blobs.read(blob)
        except EffectFailed as error:
            raise DecisionRefused(
                f"the contents that '{path}' was given are not in the blob store", next_step="Edit the file again."
            ) from error
        assert entry.now is not None  # check_file
        return self._contents.edited(path, entry.now, data)

    def _told(
        self,
        told: SectionAnswer,
        choice: SectionChoice | None,
        manifest: ReviewManifest,
        settlement: Settlement,
        tree: Tree,
    ) -> ReturnedSection:
        """Return what there is to tell the model of one section."""
        chosen = choice or SectionChoice()
        changes = manifest.changes(told.section)
        accepted, left_out, rest = settlement.accepted.entries, settlement.left_out, settlement.rest.entries

        def name(change: LayerChange) -> str:
            return f"{' -> '.join(path_in_tree(tree, path) for path in change.paths)} ({change.kind})"

        def shown(path: str, old: LayerNode | None, new: LayerNode | None) -> PathDifference:
            hunks = self._contents.hunks(path, old, new)
            return PathDifference(path=path_in_tree(tree, path), difference="" if hunks is None else hunks.unified())

        return ReturnedSection(
            section=told.section,
            by=told.by,
            note=told.note,
            keeps_rest=chosen.keeps_rest,
            rejected=tuple(name(one) for one in changes if one.path not in accepted and one.path not in left_out),
            in_part=tuple(
                # Its lines are as the proposed file has them.
                shown(path, rest[path].base, rest[path].now)
                for path in (change.path for change in changes)
                if path in chosen.in_part and path in rest
            ),
            edited=tuple(
                shown(path, manifest.layer.entries[path].now, node)
                for path, node in chosen.edited.items()
                if path in accepted
            ),
            left_out=tuple(
                (name(one), path_in_tree(tree, left_out[one.path])) for one in changes if one.path in left_out
            ),
            comments=tuple(
                one.model_copy(update={"path": path_in_tree(tree, one.path)})
                for one in (() if told.answer is None else told.answer.comments)
            ),
        )

    def _carried(self, layer: Layer) -> CarriedLayer:
        whole = CarriedLayer(recent=layer)
        return CarriedLayer(manifest=self._contents.manifest_of(layer)) if whole.is_long else whole


def _section(manifest: ReviewManifest, section: Section) -> ReviewSection:
    kinds = Counter(change.kind.value for change in manifest.changes(section))
    return ReviewSection(
        section=section,
        digest=manifest.of(section).digest(),
        counts=ChangeCounts(**kinds),
        conflicts=tuple(sorted(manifest.conflicts_of(section)))[:MAX_CONFLICTS],
    )


_TOP = Mount(at="/", root=".")


class CheckActivities:
    """Checks in one workshop. `bwrap` and `layers` are for machines (and tests) that differ."""

    def __init__(
        self,
        workshop: Path,
        blobs: BlobStore,
        bwrap: Callable[[], str | None] = working_bwrap,
        *,
        layers: LayerGrounds | None = None,
        seconds: float = CHECK_SECONDS,
    ) -> None:
        self._workshop = workshop
        self._bwrap = bwrap
        self._layers = layers or LayerGrounds(workshop, blobs)
        self._seconds = seconds

    @activity.defn(name=CHECK_CHANGES.name)
    async def check_changes(self, asked: CheckChangesInput) -> CheckResult:
        """Run the command at the top of the workers' files as the changes make them, isolated, without a network."""
        with user_errors():
            try:
                return await self._checked(asked)
            except BlobsUnreachable:
                raise
            except LlmDoError as error:
                return _not_run(asked, error.message)

    async def _checked(self, asked: CheckChangesInput) -> CheckResult:
        try:
            words = tuple(shlex.split(asked.command))
        except ValueError as error:
            return _not_run(asked, f"it cannot be split into words: {str(error).lower()}")
        if not words or not words[0] or "\0" in asked.command:
            return _not_run(asked, "it is no command: it begins with the name of a program")
        if problem := program_problem(words[0], isolated=True):
            return _not_run(asked, problem)
        tree = await asyncio.to_thread(self._tree)
        command = ShellInput(argv=words, tree=tree, cwd="/", timeout_seconds=0, settings=asked.settings)
        bwrap = await asyncio.to_thread(self._bwrap)
        layer = CarriedLayer(manifest=asked.manifest)
        async with (
            in_thread(self._layers.ground(command, layer, bwrap)) as ground,
            in_thread(scratch_folder()) as home,
        ):
            ended, _held_back = await run_on(
                ground, command, str(home), lambda: None, seconds=self._seconds, joined=True
            )
            try:
                return await asyncio.to_thread(_result, asked, ended, ground, self._seconds)
            finally:
                ended.close()

    def _tree(self) -> Tree:
        """Return all files that workers have, to be written to: what a check writes, such as caches, is thrown away."""
        sandbox = load_workshop(self._workshop).config.sandbox
        mounts = root_tree(sandbox).mounts or (_TOP,)
        return Tree(mounts=tuple(one.model_copy(update={"readonly": False, "max_file_bytes": None}) for one in mounts))


def _not_run(asked: CheckChangesInput, problem: str) -> CheckResult:
    return CheckResult(command=asked.command, problem=f"the check was not run: {problem}")


def _result(asked: CheckChangesInput, ended: Ended, ground: Ground, seconds: float) -> CheckResult:
    output = ended.stdout.tail(CHECK_OUTPUT_BYTES).decode(errors="replace")
    return CheckResult(
        command=asked.command,
        exit_code=None if ended.timed_out else ended.exit_code,
        output=ground.virtual(output),
        problem=f"it was stopped after {seconds:g} seconds" if ended.timed_out else "",
    )

"""Check of a whole workshop: every problem at once, for the command `check`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

from llm_do_temporal.definitions.models import (
    batch_problems,
    name_problems,
    play_problems,
    setting_problems,
    workshop_models,
)
from llm_do_temporal.definitions.protection import check_defining
from llm_do_temporal.definitions.registry.registry import complete, input_of, named_templates
from llm_do_temporal.definitions.tools.external import external_toolsets, may_name_capabilities, missing_packages
from llm_do_temporal.definitions.tools.python_tools import load_python_tools
from llm_do_temporal.definitions.workers.places import (
    PACKAGE_PREFIX,
    SHIPPED,
    known_names,
    places_of,
    unreachable_files,
)
from llm_do_temporal.definitions.workers.worker_file import ParsedWorker, read_worker
from llm_do_temporal.definitions.workshop import Workshop, model_aliases, parse_workshop, unknown_models
from llm_do_temporal.definitions.yaml.documents import Document, KeyPath, Problem, did_you_mean, label_of, problem_of
from llm_do_temporal.errors import DefinitionError, ExtensionNeeded, ModelRefusal, SandboxRefusal, WorkshopNotFound
from llm_do_temporal.extension import definition_files, needs
from llm_do_temporal.policy.approvals import DEFAULT_RULES
from llm_do_temporal.policy.delegation import is_name
from llm_do_temporal.policy.files.sandbox import Tree, WorkerSandbox, narrow, root_tree
from llm_do_temporal.policy.models import ModelSources, resolve_model
from llm_do_temporal.policy.values import ALWAYS_ASKS
from llm_do_temporal.workshop_search import WORKSHOP_FILE

_SANDBOX_STEP = "Add `sandbox: {root: .}` to workshop.yaml."


def check_workshop(folder: Path, *, run_python: bool = True) -> list[Problem]:
    """Every problem of the workshop in `folder`, sorted by file and line; an empty list is a good workshop.

    Without `run_python` nothing of the workshop's Python is run, and what only running it shows is not found.
    """
    try:
        workshop, problems, document = parse_workshop(folder)
    except WorkshopNotFound as error:
        return [problem_of(error, file=WORKSHOP_FILE)]
    workers = _Workers(workshop.root)
    templates, missing = named_templates(workers.in_workshop(), workshop.root)
    everybody = [*workers.in_workshop(), *templates]
    open_ended = any(may_name_capabilities(parsed, workshop, load=run_python) for parsed in everybody)
    problems += [*workshop_models(workshop, document), *missing]
    problems += play_problems(workshop, document, everybody, run_python=run_python)
    problems += _rule_problems(workshop, document, everybody, open_ended)
    problems += _extension_problems(workshop, document, everybody)
    for parsed in everybody:
        problems += [*parsed.problems, *complete(parsed, run_python=run_python)[2]]
        problems += [*input_of(parsed)[1], *load_python_tools(parsed)[1]] if run_python else []
        try:
            check_defining(parsed.place)
        except DefinitionError as error:
            problems.append(problem_of(error, file=parsed.place.label))
        problems += [*external_toolsets(parsed, workshop, load=run_python)[1], *setting_problems(parsed)]
        problems += [*_model_problems(parsed, workshop), *batch_problems(parsed, workshop.config)]
        problems += [*_sandbox_problems(parsed, workshop), *_shell_problems(parsed)]
        problems += _delegate_problems(parsed, workers)
        problems += _lost_files(parsed, workers, workshop)
    problems += workers.misplaced()
    for files in definition_files():
        problems += files.problems(workshop.root, workers.names)
    return sorted(dict.fromkeys(problems), key=lambda problem: (problem.file, problem.line or 0))


def start_warnings(workshop: Workshop, name: str, *, installed: bool) -> list[str]:
    """Return the warnings about the worker `name` and the workers that it may call, each once.

    They are those of `check_workshop` that need no Python, and only the files of these workers are read. `installed`
    says whether the run has the packages of this process, so that a missing one is a warning.
    """
    workers = _Workers(workshop.root)
    waiting, seen, problems = [name], {name}, list[Problem]()
    while waiting:
        parsed = workers.named(waiting.pop(0))
        if parsed is None or not parsed.is_valid:
            continue
        problems += [*parsed.problems, *setting_problems(parsed)]
        problems += missing_packages(parsed, workshop) if installed else []
        problems += [*_sandbox_problems(parsed, workshop), *_shell_problems(parsed)]
        problems += [*_delegate_problems(parsed, workers), *_lost_files(parsed, workers, workshop)]
        callees = [callee for callee, _ in _callees(parsed) if callee not in seen]
        waiting += callees
        seen.update(callees)
    return list(dict.fromkeys(str(problem) for problem in problems if problem.severity == "warning"))


class _Workers:
    """The worker files of a workshop, each read once, when it is asked for."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._read: dict[str, list[ParsedWorker]] = {}

    @cached_property
    def names(self) -> list[str]:
        """All names that have a file."""
        return known_names(root=self._root, shipped=SHIPPED)

    def in_workshop(self) -> Iterator[ParsedWorker]:
        """Every file of the workshop itself, hidden ones included."""
        for name in self.names:
            yield from (parsed for parsed in self._files(name) if not parsed.place.shipped)

    def named(self, name: str) -> ParsedWorker | None:
        """The file that is used for a name."""
        plain = name.removeprefix(PACKAGE_PREFIX)
        files = [parsed for parsed in self._files(plain) if plain == name or parsed.place.shipped]
        return files[0] if files else None

    def _files(self, name: str) -> list[ParsedWorker]:
        if name not in self._read:
            places = places_of(name, root=self._root, shipped=SHIPPED) if is_name(name) or name in self.names else []
            self._read[name] = [read_worker(place) for place in places]
        return self._read[name]

    def misplaced(self) -> Iterator[Problem]:
        """Yield a problem for each file that stands where no name leads, and is never used."""
        for name in self.names:
            first, *others = self._files(name)
            for other in others:
                if not other.place.shipped:
                    used = first.place.label
                    yield Problem(other.place.label, None, f"never used: '{used}' defines '{name}' too", "warning")
        for path in unreachable_files(self._root):
            where = "a worker stands in workers/NAME.worker or workers/NAME/worker.worker"
            yield Problem(label_of(path, self._root), None, f"never used: {where}", "warning")


def _extension_problems(workshop: Workshop, document: Document, workers: Sequence[ParsedWorker]) -> Iterator[Problem]:
    """Yield a warning for each file that asks for reviews, where they are not installed: services may have them."""
    try:
        needs("review", "`review`")
    except ExtensionNeeded as error:
        if workshop.config.review is not None:
            yield Problem(WORKSHOP_FILE, document.line_of(("review",)), str(error), "warning")
        for parsed in workers:
            if parsed.definition.review is not None:
                yield parsed.problem_at(("review",), str(error), "warning")


def _rule_problems(
    workshop: Workshop, document: Document, workers: Sequence[ParsedWorker], open_ended: bool
) -> Iterator[Problem]:
    """Yield a problem for each rule about a capability that no tool has: a typing error would silently allow a call.

    And for each example that its entry of `approvals: allow:` does not keep. `open_ended`: a toolset may have
    capabilities that only itself names.
    """
    toolsets = [parsed.definition.toolsets for parsed in workers]
    created = workshop.config.creation_defaults.toolsets
    names = set(DEFAULT_RULES).union(*(one.named_capabilities for one in (*toolsets, created) if one is not None))
    known = {name.rsplit(".", depth)[0] for name in names for depth in range(name.count(".") + 1)}
    rules = workshop.config.approvals.rules
    # What always asks asks whatever a rule says, but it may say whom.
    known |= {name for name in ALWAYS_ASKS if name in rules and rules[name].says_more}
    for name in (one for one in rules if one not in known):
        listed = None if open_ended else f"Capabilities are {', '.join(sorted(names))}."
        hint = did_you_mean(name, known, listed, cutoff=0.85 if open_ended else 0.6)
        if hint is not None:
            line = document.line_of(("approvals", "rules", name))
            message = f"no tool here is known to have the capability '{name}'; this rule does nothing"
            yield Problem(WORKSHOP_FILE, line, message, "warning", next_step=hint)
    tree = root_tree(workshop.config.sandbox)
    words = {"match": "is not covered by", "not_match": "is covered by"}
    for place, entry in enumerate(workshop.config.approvals.allow):
        for failed in entry.failed_examples(tree):
            line = document.line_of(("approvals", "allow", place, failed.key, failed.number))
            message = f"the `{failed.key}` example '{failed.text}' {words[failed.key]} '{entry.sentence}'"
            yield Problem(WORKSHOP_FILE, line, message, next_step="Change the entry, or the example.")


def _model_problems(parsed: ParsedWorker, workshop: Workshop) -> Iterator[Problem]:
    """Yield a problem for a model that is unknown, and for a model that the worker itself rules out."""
    definition = parsed.definition
    if definition.model is None:
        return
    yield from name_problems(parsed.place.label, parsed.document.line_of(("model",)), definition.model, workshop.config)
    if unknown_models(definition.model, workshop.config):
        return
    try:
        resolve_model(
            ModelSources(aliases=model_aliases(workshop.config)),
            worker=parsed.place.name,
            worker_model=definition.model,
            caller_model=None,
            compatible=definition.compatible_models,
        )
    except ModelRefusal as refusal:
        yield parsed.problem_at(("model",), refusal.message, next_step=refusal.next_step)


def _sandbox_problems(parsed: ParsedWorker, workshop: Workshop) -> Iterator[Problem]:
    """Yield refusals that even a direct start of the worker would meet, and a warning for file tools without files."""
    definition, sandbox = parsed.definition, workshop.config.sandbox
    try:
        tree = own_tree(parsed, workshop)
    except SandboxRefusal as refusal:
        if not any(problem.message == refusal.message for problem in parsed.problems):
            step = refusal.next_step or (_SANDBOX_STEP if sandbox is None else None)
            yield parsed.problem_at(_refused_key(parsed, workshop, refusal), refusal.message, next_step=step)
        return
    if definition.toolsets.has_filesystem and not tree.mounts:
        message = "the worker has file tools, but the workshop has no sandbox: it can reach no files"
        yield parsed.problem_at(("toolsets", "filesystem"), message, "warning", next_step=_SANDBOX_STEP)
    # A writable folder is made on the first write.
    asked = definition.sandbox
    for mount in tree.mounts if asked is not None and asked.paths is not None else ():
        folder = workshop.root / mount.root
        if folder.is_dir() or not (mount.readonly or folder.exists()):
            continue
        what = "is not a folder" if folder.exists() else "does not exist; it is only read, so nothing makes it"
        here: KeyPath = ("sandbox", "paths", mount.at.strip("/"), "root")
        yield parsed.problem_at(here, f"the folder '{mount.root}' of '{mount.at}' {what}", "warning")


def _shell_problems(parsed: ParsedWorker) -> Iterator[Problem]:
    """Yield a warning for rules that block commands where every other command is free."""
    shell = parsed.definition.toolsets.shell_policy
    if shell is None or shell.default is None or shell.default.blocked or shell.default.approval_required:
        return
    blocked = next((rule.pattern for rule in shell.rules if rule.blocked), None)
    if blocked is not None:
        message = (
            f"commands that no rule fits run without a question, so the rule that blocks '{blocked}' does not keep a "
            "program or script from doing the same"
        )
        step = "Let the default ask (approval_required: true) or block, and list the commands that are free."
        yield parsed.problem_at(("toolsets", "shell", "default"), message, "warning", next_step=step)


def own_tree(parsed: ParsedWorker, workshop: Workshop) -> Tree:
    """The files of a worker that is started directly. Raises SandboxRefusal."""
    sandbox = workshop.config.sandbox
    return narrow(root_tree(sandbox), parsed.definition.sandbox, workshop_has_sandbox=sandbox is not None)


def _lost_files(parsed: ParsedWorker, workers: _Workers, workshop: Workshop) -> Iterator[Problem]:
    """Yield a warning for each callee that asks for more files than this worker has: such a call is refused."""
    try:
        tree = own_tree(parsed, workshop)
    except SandboxRefusal:
        return
    has_sandbox = workshop.config.sandbox is not None
    for name, path in _callees(parsed):
        callee = workers.named(name)
        if callee is None or not callee.is_valid:
            continue
        try:
            own_tree(callee, workshop)
        except SandboxRefusal:
            continue  # said of the callee itself
        try:
            narrow(tree, callee.definition.sandbox, workshop_has_sandbox=has_sandbox)
        except SandboxRefusal as refusal:
            message = f"a call of '{name}' will be refused: {refusal.message}"
            step = f"Give this worker the files of '{name}', or '{name}' no more than these."
            yield parsed.problem_at(path, message, "warning", next_step=step)


def _refused_key(parsed: ParsedWorker, workshop: Workshop, refusal: SandboxRefusal) -> KeyPath:
    """Return the key of the worker's sandbox that alone draws the refusal; preferably with the same message."""
    sandbox = workshop.config.sandbox
    found: KeyPath = ("sandbox",)
    for key, value in parsed.definition.sandbox or ():
        try:
            narrow(root_tree(sandbox), WorkerSandbox(**{key: value}), workshop_has_sandbox=sandbox is not None)
        except SandboxRefusal as alone:
            found = ("sandbox", key)
            if alone.message == refusal.message:
                break
    return found


def _callees(parsed: ParsedWorker) -> list[tuple[str, KeyPath]]:
    """Return the workers that this worker may call, each as its name and the path of the key that names it."""
    here: KeyPath = ("toolsets", "delegation")
    options = parsed.definition.toolsets.delegation_options
    if options is None:
        return []
    named: list[tuple[str, KeyPath]] = [(name, (*here, name)) for name in options.delegates]
    listed = enumerate(options.allow_workers or ())
    return named + [(name, (*here, "allow_workers", n)) for n, name in listed if name != "*"]


def _delegate_problems(parsed: ParsedWorker, workers: _Workers) -> Iterator[Problem]:
    known_bad = {problem.line for problem in parsed.problems}
    sends_files = "attachment_policy" in parsed.definition.model_fields_set
    sends_files = sends_files and parsed.definition.attachment_policy.max_attachments > 0
    for name, path in _callees(parsed):
        callee = workers.named(name)
        if callee is None:
            if parsed.document.line_of(path) not in known_bad:
                step = did_you_mean(name, workers.names, f"Write it to 'workers/{name}.worker'.")
                yield parsed.problem_at(path, f"there is no worker '{name}'", next_step=step)
        elif sends_files and callee.is_valid and callee.definition.attachment_policy.max_attachments == 0:
            message = f"attachments are allowed here, but worker '{name}' takes none (max_attachments: 0)"
            yield parsed.problem_at(path, message, "warning")

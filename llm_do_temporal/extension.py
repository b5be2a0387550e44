"""Interface of an extension, by which it adds to the product, and the list of the extensions that are installed.

An extension is a folder of `llm_do_temporal.extensions`, whose package has its `EXTENSION`, or a package of somebody
else that names its own in the entry point group `llm_do_temporal.extensions`. Without its folder all the rest runs.
`docs/how-to/extensions.md` shows one.

Importing an extension must be quick: modules that its hooks need are imported in the hooks.
"""

from __future__ import annotations

import json
import pkgutil
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from enum import StrEnum
from functools import cache, partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Literal, TypeVar

from llm_do_temporal.errors import ExtensionNeeded, LlmDoError, UsageError

T = TypeVar("T")

GROUP = "llm_do_temporal.extensions"
"""Name of the package with the extensions that come along, and of the entry point group of all others."""
IN_SERVICE = "in this worker service"
"""Words for the place in which an extension is missing, where a worker service needs it; see `needs`."""


class CommandGroup(StrEnum):
    """Headings of the list of commands, in its order."""

    RUNS = "Start and follow runs"
    DECISIONS = "Decide"
    WORKSHOP = "Make a workshop and check it"
    SERVICES = "Serve"
    CARE = "Look after it"


@dataclass(frozen=True)
class Command:
    """A command of the program."""

    name: str
    function: Any
    """Function whose parameters and docstring Cyclopts reads. It may return an exit code, and may be a coroutine
    function."""
    group: CommandGroup
    usage: str = "[FLAGS]"
    """Words after the command's name."""
    examples: tuple[str, ...] = ()
    """Command lines without the program's name, each with a remark after two spaces and `#` where it needs one."""
    subcommands: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Functions of the commands below it, by their names."""


@dataclass(frozen=True)
class NavigationEntry:
    """A page that the web page names at its top, or as a tab of one of its pages."""

    title: str
    path: str
    """Address; the entry is the current one on all pages below it as well."""
    _: KW_ONLY
    under: str = ""
    """Address of the product's page of which it is a tab, as `/runs`; empty: it is named at the top of every page."""
    place: str = ""
    """Words for what a page below it is about; empty: where there is no such page, nothing is said of it."""


@dataclass(frozen=True)
class RunPart:
    """Part that a run has in a workflow of an extension, which has started it."""

    kind: str
    """Word for the part: its key in JSON, and in capitals its column in tables."""
    words: str
    """The part in words, without the workflow."""
    whole: str
    """Workflow in words, with its id."""
    facts: Mapping[str, Any]
    """Facts about it, as JSON has them."""
    links: tuple[tuple[str, str], ...]
    """Texts that together say part and workflow, each with the address of a page; empty: the text is no link."""


@dataclass(frozen=True)
class RunStarter:
    """Workflow type of an extension that starts runs, as children of its executions."""

    workflow: str
    """Name of the type."""
    request: type
    result: type
    memo: str
    """Key of its memo."""
    facts: type
    """Type of the memo's value."""
    prefix: str
    """Beginning of the workflow id of each execution, and of no run that has children of its own."""
    read_part: Callable[[str, str], RunPart | None]
    """Returns the part that a run has in an execution, by the workflow ids of both; None: it has none."""


class DefinitionFiles:
    """Kind of files of an extension that people write, in YAML, beside the workers of a workshop."""

    kind: str
    """Word for the kind, by which `schema` prints its JSON Schema."""
    title: str
    """Words for such a file."""
    suffix: str
    """Ending of the names of the files, none of which is a worker's."""

    def find(self, root: Path) -> Sequence[Path]:
        """Return the files of a workshop, sorted."""
        raise NotImplementedError

    def problems(self, root: Path, workers: Collection[str]) -> Iterable[Any]:
        """Yield each Problem of all files of a workshop, whose workers have these names."""
        raise NotImplementedError

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the files, with the meanings of keys; the caller may change it."""
        raise NotImplementedError

    def models(self) -> Sequence[type]:
        """Return the models whose keys people write, the one of a whole file first."""
        raise NotImplementedError

    def tables(self) -> Mapping[str, type]:
        """Return the models that tables of the reference pages list, by the names of the tables."""
        return {}

    def name_kind(self, path: Sequence[str | int]) -> str | None:
        """Return the kind of name that is the value at a path, `worker` or `model`; None: it is no name."""
        return None

    def tool_texts(self, worker: str, spans: Sequence[Any]) -> Collection[Any]:
        """Return each Span of a file whose text has names of tools or metrics in it, of which a worker may be one."""
        return ()


@dataclass(frozen=True)
class Finding:
    """Outcome of one check of a workshop, of its server, or of what runs have left behind."""

    what: str
    """Subject, in a word or two."""
    status: Literal["ok", "warning", "error"]
    message: str
    next_step: str | None = None
    exit_code: int = 1
    """Exit code of the command that checks, where the finding is an error."""

    def as_json(self) -> dict[str, Any]:
        """The finding as `doctor --json` has it."""
        return {"what": self.what, "status": self.status, "message": self.message, "next": self.next_step}


class QuestionView:
    """Way in which people see and answer the questions that an extension asks by itself, in every interface.

    Such a question is an ExtensionQuestion with the name of the extension. Each method has a default, which is used
    where the extension is not installed: it shows the value as JSON.
    """

    noun = "question"
    """Word for one of them; a word for several has an `s` behind it."""
    tool = ""
    """Tool that lists name for such a question; they are answered one by one."""

    def done_words(self, kind: Any) -> str:
        """Return the words by which people know a question that got an answer of this DecisionKind."""
        return str(kind.done)

    def command(self, run: str, approval: str = "") -> str:
        """Return the command that shows what is asked, without the program's name; `approval` is an id, or empty."""
        return f"approvals {run} {approval}".rstrip()

    def lines(self, question: Any, width: int) -> Sequence[Any]:
        """Return lines about what a Question asks, as str or Text of Rich, for a terminal where it is not asked."""
        return [json.dumps(question.request.extension.shown, ensure_ascii=True)]

    async def on_terminal(self, client: Any, question: Any, prompter: Any, console: Any) -> Any:
        """Return the AskedSubject with which a Question is asked on the terminal; None: like a call."""
        return None

    async def page(self, request: Any, question: Any, known: Sequence[Any], **state: Any) -> Any:
        """Return the page of a Question, and None for the ordinary one. `known` are all questions of the run.

        `state` may have `problem`, words for what went wrong; `status`, of the answer; and `sent`, whether an answer
        was sent that no service has taken yet.
        """
        return None

    async def take(self, request: Any, question: Any, known: Sequence[Any]) -> Any:
        """Return the answer to a form that was sent from its page, and None to have it taken as that of a call."""
        return None

    async def outline(self, service: Any, who: Any, question: Any, most: int) -> str:
        """Return what a message of a chat says of a Question, with `most` things at most. Raises LlmDoError.

        `service` is the DoorService, `who` the Principal who reads.
        """
        return json.dumps(question.request.extension.shown, ensure_ascii=True)

    def elsewhere(self, run: str) -> str:
        """Return the reason why a message of a chat cannot be answered with an approval."""
        return f"This message does not show all that is asked. `llm-do-temporal {self.command(run)}` shows it."


class Extension:
    """Base class of an extension. Each hook has a default that adds nothing."""

    name: str
    """Name of its folder, or of its entry point."""
    version: int = 1
    """Version of its part in runs. A run that began with another one is left to services that have that."""

    def commands(self) -> Sequence[Command]:
        """Return its commands; they stand behind those of the product, under the heading of each."""
        return ()

    def routes(self) -> Sequence[Any]:
        """Return the routes of its pages, as Starlette takes them.

        `render(request, "NAME/page.html")` renders a page from the folder `templates` beside the extension, where NAME
        is that of the extension. Files in the folder `static` are served below `/static/NAME/`.
        """
        return ()

    def navigation(self) -> Sequence[NavigationEntry]:
        """Return the pages that the web page names at its top, before the last of its own, or as tabs."""
        return ()

    def addresses(self) -> Mapping[str, Callable[..., str]]:
        """Return functions that make the address of a page from names, by what is named: `schedule`, `difference`."""
        return {}

    def public_names(self) -> Mapping[str, Mapping[str, str]]:
        """Return the names that it adds to public modules and classes, each with the module in which it is defined.

        They are in a mapping by the module's dotted name, like `llm_do_temporal.client`, or by the class's name alone,
        like `LlmDoClient`. What is added to a class is a function; it is called with the object before its arguments.
        """
        return {}

    def commit_activities(self) -> Sequence[str]:
        """Return the names of its activities that make the changes of a layer for real.

        The input of each names the blob with the layer in its field `manifest`, and the result is a CommittedChanges.
        """
        return ()

    def question_view(self) -> QuestionView | None:
        """Return how the questions that it asks by itself are shown; None: it asks none."""
        return None

    async def read_patch(self, client: Any, run: str, workshop: Path | None) -> str | None:
        """Return what a run proposes, has kept aside, or has made last, as a patch for `git apply`; None: not known.

        `client` is the LlmDoClient, `workshop` the folder that changes kept aside are compared with.
        """
        return None

    async def take_over(self, client: Any, run: str, start: Any) -> tuple[Any, Sequence[str]]:
        """Return the start of a further attempt at a batch, and lines for people about what it takes over.

        `client` is connected to Temporal, `run` the id of the attempt before, `start` the StartRunInput with the items
        that are left.
        """
        return start, ()

    def routers(self) -> Sequence[Any]:
        """Return routers of FastAPI with its operations of the HTTP API."""
        return ()

    def workflows(self) -> Sequence[type]:
        """Return its workflow classes, which every service that runs workflows registers."""
        return ()

    def activity_refs(self) -> Sequence[Any]:
        """Return the ActivityRef of each of its activities. They need the files of the workshop, and go to the task
        queue of these."""
        return ()

    def activities(self, host: Any) -> Sequence[Callable[..., Any]]:
        """Return its activities, bound to what they need: `host` is the ServiceHost of a service with files."""
        return ()

    def check_start(self, start: Any, workshop: Any) -> None:
        """Check a start, a StartRunInput, against the files of a Workshop. Raises LlmDoError.

        Called before the run is started, where its folder is known, and when it has begun.
        """

    def examine(self, workshop: Path) -> Sequence[Finding]:
        """Return what is wrong with what it keeps in the folder of a workshop."""
        return ()

    def leftovers(self, workshop: Path, before: float) -> Mapping[str, tuple[str, Callable[[], None]]]:
        """Return records that it keeps in the folder of a workshop and that ended before then, by their keys.

        `before` is a time in seconds since 1970. Each record is the id of the workflow that needs it, and the function
        that removes it; it is called once the server has no such workflow any more.
        """
        return {}

    def run_loader(self, host: Any) -> Callable[[Any, Any, Any], Any] | None:
        """Return the function that may load a run which has a part of it; `host` is the ServiceHost of the service.

        It is given the StartRunInput, the part and a RunLoad, and returns a LoadedRun, or None.
        """
        return None

    def known_turn(self, host: Any) -> Callable[[Any, str], Any] | None:
        """Return the coroutine function that looks up model turns which its part has told of.

        It is given what was told and the content key of the turn, and returns a ModelResponse; None: the model is
        asked.
        """
        return None

    def interceptors(self, host: Any) -> Sequence[Any]:
        """Return interceptors of the Temporal SDK, for all workflows and activities of a service."""
        return ()

    def invocation_part(self) -> Callable[[Any, Any], Any] | None:
        """Return the function that makes its part in an invocation, from the InvokeWorkerInput and a PartHost.

        It is called in workflow code, and returns an InvocationPart, or None where it has no part in the invocation.
        See `llm_do_temporal.workflows.tools.parts`.
        """
        return None

    def run_starters(self) -> Sequence[RunStarter]:
        """Return its workflow types that start runs. Their executions keep a background host, and the blobs that their
        histories name; their runs are left out of the list of runs unless it is asked for them."""
        return ()

    def definition_files(self) -> Sequence[DefinitionFiles]:
        """Return its kinds of definition files, which `check`, `schema` and editors know."""
        return ()

    def service_settings(self) -> Sequence[str]:
        """Return the names of settings of the worker service that it adds: each is a list of names, empty by default.

        A setting is a key of the settings file, and a variable with `LLM_DO_` before its name in capitals. The
        variable counts for services of the embedded server as well.
        """
        return ()

    def nexus_handlers(
        self, client: Any, workshop: Path, queue: str, settings: Mapping[str, Sequence[str]], *, sets_attributes: bool
    ) -> Sequence[object]:
        """Return handlers of Nexus services, which are served where workflows are.

        `client` is connected to Temporal, `workshop` the folder, `queue` the task queue on which runs are started;
        `settings` has the added settings of the service by name. `sets_attributes` says whether the namespace knows
        the product's search attributes.
        """
        return ()

    def folder(self, name: str) -> Path | None:
        """Return the folder with this name beside the extension; None where there is none."""
        file = sys.modules[type(self).__module__].__file__
        folder = Path(file or "").with_name(name)
        return folder if folder.is_dir() else None


@cache
def installed() -> tuple[Extension, ...]:
    """Return all extensions, in the order of their names.

    Raises UsageError for one of somebody else that cannot be loaded, is no Extension, or has the name of another.
    """
    found: dict[str, Extension] = {}
    modules = pkgutil.iter_modules(import_module(GROUP).__path__)
    own: list[Extension] = [import_module(f"{GROUP}.{module.name}").EXTENSION for module in modules]
    for extension in (*own, *map(_loaded, entry_points(group=GROUP))):
        if extension.name in found:
            raise UsageError(
                f"two extensions are called '{extension.name}'", next_step="Uninstall the package of one of them."
            )
        found[extension.name] = extension
    return tuple(found[name] for name in sorted(found))


def answers(hook: Callable[[Extension], T | None]) -> dict[str, T]:
    """Return what a hook of each extension returns, by the names of these; those that return None are left out.

    Raises UsageError, with the name of the extension, for any error but those that are for people already.
    """
    found: dict[str, T] = {}
    for one in installed():
        try:
            answer = hook(one)
        except LlmDoError:
            raise
        except Exception as error:
            raise UsageError(
                f"the extension '{one.name}' cannot say what it adds: {type(error).__name__}: {error}",
                next_step="Correct its package, or uninstall it.",
            ) from error
        if answer is not None:
            found[one.name] = answer
    return found


def added(hook: Callable[[Extension], Iterable[T]]) -> list[T]:
    """Return all that a hook of the extensions adds, in the order of their names. Raises like `answers`."""
    return [one for some in answers(lambda extension: tuple(hook(extension))).values() for one in some]


def activity_refs() -> tuple[Any, ...]:
    """Return the ActivityRef of each activity of all extensions."""
    return tuple(added(lambda one: one.activity_refs()))


def service_settings() -> tuple[str, ...]:
    """Return the names of the settings of the worker service that all extensions add."""
    return tuple(added(lambda one: one.service_settings()))


def in_runs() -> dict[str, int]:
    """Return the versions of all extensions that may have a part in a run, by their names, without loading them."""
    hook = "invocation_part"
    return {one.name: one.version for one in installed() if getattr(type(one), hook) is not getattr(Extension, hook)}


def needs(name: str, what: str, *, where: str = "here") -> None:
    """Raise ExtensionNeeded where the extension that `what` is part of is not installed; `where` names this place."""
    if all(one.name != name for one in installed()):
        raise ExtensionNeeded(f"{what} needs the extension '{name}', which is not installed {where}")


def added_names(owner: str) -> dict[str, str]:
    """Return the names that extensions add to a public module or class, with the modules that define them."""
    return dict(added(lambda one: one.public_names().get(owner, {}).items()))


@cache
def commit_activities() -> frozenset[str]:
    """Return the names of all activities that make the changes of layers for real."""
    return frozenset(added(lambda one: one.commit_activities()))


def view_of(request: Any) -> QuestionView | None:
    """Return how a question is shown that an extension asks; None where the RequestApprovalInput is of any other."""
    if request.extension is None:
        return None
    return _views().get(request.extension.name) or QuestionView()


def view_of_tool(tool: str) -> QuestionView | None:
    """Return how questions are shown that lists name by this tool; None: they are about a call, or a limit."""
    return next((view for view in _views().values() if view.tool == tool), None)


@cache
def _views() -> dict[str, QuestionView]:
    return answers(lambda one: one.question_view())


class Extensible:
    """Base of a class to which extensions add methods; see `Extension.public_names`."""

    def __getattr__(self, name: str) -> Any:
        """Return a method that an extension adds. Raises AttributeError."""
        added = (added_names(kind.__name__) for kind in type(self).__mro__ if not name.startswith("_"))
        home = next((names[name] for names in added if name in names), None)
        if home is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return partial(getattr(import_module(home), name), self)


def run_starters() -> list[RunStarter]:
    """Return the workflow types of all extensions that start runs."""
    return added(lambda one: one.run_starters())


def definition_files() -> list[DefinitionFiles]:
    """Return the kinds of definition files of all extensions."""
    return added(lambda one: one.definition_files())


def _loaded(entry: EntryPoint) -> Extension:
    package = entry.dist.name if entry.dist is not None else entry.value
    next_step = f"Correct the package '{package}', or uninstall it."
    try:
        extension = entry.load()
    except Exception as error:
        wrong = f"extension '{entry.name}' cannot be loaded: {type(error).__name__}: {error}"
        raise UsageError(wrong, next_step=next_step) from error
    if not isinstance(extension, Extension) or getattr(extension, "name", "") != entry.name:
        raise UsageError(
            f"extension '{entry.name}' names no Extension with that name: {entry.value}", next_step=next_step
        )
    if type(extension.version) is not int:
        raise UsageError(f"extension '{entry.name}' has a version that is no whole number", next_step=next_step)
    return extension

"""Keys below `toolsets:`, of worker files and of the `creation_defaults` of `workshop.yaml`."""

from __future__ import annotations

from pydantic import ConfigDict, Field, model_validator

from llm_do_temporal.definitions.keys.base import Switchable, Text
from llm_do_temporal.definitions.keys.external import ClassOptions, McpKeys
from llm_do_temporal.messages.base import Strict
from llm_do_temporal.policy.approvals import Ruling
from llm_do_temporal.policy.delegation import TemplateRules
from llm_do_temporal.policy.external import PYTHON_CAPABILITIES as DEFAULT_CAPABILITIES
from llm_do_temporal.policy.shell import ShellPolicy
from llm_do_temporal.policy.values import Capability


class FilesystemOptions(Switchable):
    """`filesystem:` of a worker's toolsets."""


class DelegateOptions(Switchable):
    """Keys below a worker's name in `delegation:`."""


class WorkerCreateOptions(Switchable):
    """`worker_create:` below `delegation:`."""


class DelegationOptions(Switchable):
    """`delegation:` of a worker's toolsets; a key that is none of these fields is the name of a worker."""

    model_config = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[str, DelegateOptions | None] = Field(init=False)  # pyright: ignore[reportIncompatibleVariableOverride]

    allow_workers: tuple[str, ...] | None = None
    """Workers that may be called with the one tool `worker_call`; `["*"]` is everybody, `[]` nobody."""
    worker_create: WorkerCreateOptions | None = None
    """Offers `worker_create`: the model writes new workers, which a person approves."""
    templates: TemplateRules | None = None
    """Templates that may be called: worker files with `$name` in their text, which the call fills in."""

    @property
    def delegates(self) -> tuple[str, ...]:
        """The workers that get a tool of their own, in the order of the file."""
        return tuple(self.__pydantic_extra__)

    @property
    def enabled_delegates(self) -> tuple[str, ...]:
        """The workers with a tool of their own that is not switched off."""
        return tuple(name for name, options in self.__pydantic_extra__.items() if options is None or options.enabled)

    @property
    def creates_workers(self) -> bool:
        """Whether the worker may create others."""
        return "worker_create" in self.model_fields_set and (self.worker_create is None or self.worker_create.enabled)

    @property
    def template_rules(self) -> TemplateRules | None:
        """Rules about the templates that the worker may call; None where it has no tool for them."""
        if "templates" not in self.model_fields_set:
            return None
        rules = self.templates or TemplateRules()
        return rules if rules.enabled else None


class PythonToolOptions(Switchable):
    """Keys below the name of a function in `custom:`."""

    pre_approved: bool = False
    needs_approval: bool = False
    blocked: bool = False
    capabilities: tuple[Capability, ...] = Field(default=DEFAULT_CAPABILITIES, min_length=1)
    description: Text | None = None
    """Description for the model, instead of the function's docstring."""

    @model_validator(mode="after")
    def _one_ruling(self) -> PythonToolOptions:
        given = [name for name in ("pre_approved", "needs_approval", "blocked") if getattr(self, name)]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(repr(name) for name in given)} exclude each other; keep one of them")
        return self

    @property
    def ruling(self) -> Ruling | None:
        """Ruling in the worker's file; None leaves the tool to the workshop's rules."""
        return next((ruling for ruling in Ruling if getattr(self, ruling.value)), None)


class CustomOptions(Switchable):
    """`custom:` of a worker's toolsets; every key but `enabled` is the name of a function of `tools.py`."""

    model_config = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[str, PythonToolOptions | None] = Field(init=False)  # pyright: ignore[reportIncompatibleVariableOverride]

    @property
    def functions(self) -> dict[str, PythonToolOptions]:
        """The functions that the model is offered, in the order of the file."""
        found = {name: options or PythonToolOptions() for name, options in self.__pydantic_extra__.items()}
        return {name: options for name, options in found.items() if options.enabled} if self.enabled else {}


class ShellOptions(ShellPolicy):
    """`shell:` of a worker's toolsets."""

    enabled: bool = True
    """`false`: it stays in the file, and is not offered."""


class Toolsets(Strict):
    """`toolsets:` of a worker; a key with nothing after it switches the toolset on.

    A key that is none of these fields is the path of a class, or an alias of `toolset_aliases`.
    """

    model_config = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[str, ClassOptions | None] = Field(init=False)  # pyright: ignore[reportIncompatibleVariableOverride]

    filesystem: FilesystemOptions | None = None
    """Tools for the files of the worker: `read_file`, `write_file`, `edit_file`, `list_files`."""
    delegation: DelegationOptions | None = None
    """Calls of other workers: each name below it is a tool of that name."""
    custom: CustomOptions | None = None
    """Functions of a `tools.py`, by their names."""
    mcp: dict[str, McpKeys] | None = None
    """Tools of MCP servers, by the names that you give these."""
    shell: ShellOptions | None = None
    """Commands, one program at a time, as its rules allow."""

    @property
    def classes(self) -> dict[str, ClassOptions]:
        """The toolsets that are classes, by class path or alias, with those that are switched off."""
        return {name: options or ClassOptions() for name, options in self.__pydantic_extra__.items()}

    @property
    def has_filesystem(self) -> bool:
        """Whether the worker has the file tools."""
        return "filesystem" in self.model_fields_set and (self.filesystem is None or self.filesystem.enabled)

    @property
    def shell_policy(self) -> ShellPolicy | None:
        """Rules for the commands that the worker may run; None where it has no such tool."""
        if "shell" not in self.model_fields_set:
            return None
        options = self.shell or ShellOptions()
        return ShellPolicy(**options.model_dump(exclude={"enabled"})) if options.enabled else None

    @property
    def delegation_options(self) -> DelegationOptions | None:
        """Keys about the workers that the worker may call; None where it has no delegation."""
        if "delegation" not in self.model_fields_set:
            return None
        options = self.delegation or DelegationOptions()
        return options if options.enabled else None

    @property
    def named_capabilities(self) -> set[str]:
        """The capabilities that are given to any of the tools."""
        external = (*self.classes.values(), *(self.mcp or {}).values())
        named = {name for options in self.python_tools.values() for name in options.capabilities}
        named |= {name for keys in external for name in keys.named_capabilities}
        return named.union(self.shell.capabilities if self.shell is not None else ())

    @property
    def python_tools(self) -> dict[str, PythonToolOptions]:
        """The functions of `tools.py` that are tools of the worker."""
        return {} if self.custom is None else self.custom.functions

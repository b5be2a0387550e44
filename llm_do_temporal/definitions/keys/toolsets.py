"""Keys below `toolsets:`, of worker files and of the `creation_defaults` of `workshop.yaml`."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import ConfigDict, Field, StringConstraints, field_validator, model_validator

from llm_do_temporal.messages.base import Strict
from llm_do_temporal.messages.definitions import ExternalToolset, McpServer
from llm_do_temporal.policy.approvals import Ruling
from llm_do_temporal.policy.delegation import TemplateRules
from llm_do_temporal.policy.external import PYTHON_CAPABILITIES as DEFAULT_CAPABILITIES
from llm_do_temporal.policy.external import ToolPolicy
from llm_do_temporal.policy.models import check_no_secret, check_variable
from llm_do_temporal.policy.shell import ShellPolicy
from llm_do_temporal.policy.values import Capability

Text = Annotated[str, StringConstraints(min_length=1)]


class Switchable(Strict):
    """Toolset or tool that can be switched off where it stands."""

    enabled: bool = True


Prefix = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z][a-zA-Z0-9_-]{0,31}$")]
_ADDRESS = re.compile(r"https?://[^\s/@?#]+(?:/[^\s?#]*)?")


def ruling_in(keys: Strict) -> Ruling | None:
    """Return the ruling whose key is set; None where none is. Raises ValueError where several are."""
    given = [ruling for ruling in Ruling if getattr(keys, ruling.value)]
    if len(given) > 1:
        raise ValueError(f"{' and '.join(repr(one.value) for one in given)} exclude each other; keep one of them")
    return given[0] if given else None


class PolicyKeys(Strict):
    """Policy keys of a toolset, or of a single tool in it."""

    pre_approved: bool = False
    """Calls need no person."""
    needs_approval: bool = False
    """Each call asks a person."""
    blocked: bool = False
    """No call is run."""
    capabilities: tuple[Capability, ...] | None = Field(default=None, min_length=1)
    """Capabilities that a call uses, and that the workshop's rules judge; none: `tool.call`."""

    @model_validator(mode="after")
    def _one_ruling(self) -> PolicyKeys:
        ruling_in(self)
        return self

    @property
    def policy(self) -> ToolPolicy:
        """The policy as it is pinned with a worker."""
        return ToolPolicy(ruling=ruling_in(self), capabilities=self.capabilities)


class _SourceKeys(PolicyKeys):
    """Keys that every external toolset has."""

    enabled: bool = True
    """`false`: it stays in the file, and its tools are not offered."""
    required: bool = False
    """`true`: a run fails where the toolset cannot be used; `false`: it goes on without its tools."""
    prefix: Prefix | None = None
    """Prefix of its tools' names."""
    tools: dict[str, PolicyKeys | None] = Field(default_factory=dict)
    """Policy keys of single tools, by the names that the tools have in the toolset."""

    @property
    def named_capabilities(self) -> tuple[str, ...]:
        """The capabilities given to any of its tools."""
        keys = (self, *(tool for tool in self.tools.values() if tool is not None))
        return tuple(name for one in keys for name in one.capabilities or ())

    def _pinned(self, **source: Any) -> ExternalToolset:
        tools = {name: (keys or PolicyKeys()).policy for name, keys in self.tools.items()}
        return ExternalToolset(required=self.required, prefix=self.prefix, policy=self.policy, tools=tools, **source)


class ClassOptions(_SourceKeys):
    """Keys below a class path, or below an alias, in `toolsets:`; unknown keys are arguments of the class."""

    model_config = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[str, Any] = Field(init=False)  # pyright: ignore[reportIncompatibleVariableOverride]

    @model_validator(mode="after")
    def _no_keys(self) -> ClassOptions:
        check_no_secret(self.__pydantic_extra__)
        return self

    def pinned(self, name: str, reference: str) -> ExternalToolset:
        """Return the toolset as the history keeps it; `name` is the key in the file, `reference` the class path."""
        return self._pinned(name=name, reference=reference, options=dict(self.__pydantic_extra__))


class McpKeys(_SourceKeys):
    """Keys below the name of a server in `mcp:`."""

    command: tuple[str, ...] | None = Field(default=None, min_length=1)
    """Program and arguments of a server that is started and reached through its standard input and output."""
    url: str | None = None
    """Address of a server that is reached over HTTP, instead of `command`."""
    env: tuple[str, ...] = ()
    """Names of variables of the worker service that the server gets."""
    headers_env: dict[str, str] = Field(default_factory=dict)
    """HTTP headers, each with the name of the variable that holds its value."""

    @field_validator("env")
    @classmethod
    def _variable_names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(check_variable(name) for name in names)

    @field_validator("headers_env")
    @classmethod
    def _header_variables(cls, headers: dict[str, str]) -> dict[str, str]:
        return {header: check_variable(name) for header, name in headers.items()}

    @field_validator("command")
    @classmethod
    def _no_keys(cls, command: tuple[str, ...] | None) -> tuple[str, ...] | None:
        check_no_secret(command)
        return command

    @field_validator("url")
    @classmethod
    def _plain_address(cls, url: str | None) -> str | None:
        if url is not None and not _ADDRESS.fullmatch(url):
            raise ValueError("it is an address like https://example.com/mcp, without user, query or fragment")
        return url

    @model_validator(mode="after")
    def _one_way(self) -> McpKeys:
        if (self.command is None) == (self.url is None):
            raise ValueError("a server has either 'command' or 'url'")
        if self.url is not None and self.env:
            raise ValueError("'env' is for a server with 'command'; a server with 'url' has 'headers_env'")
        if self.command is not None and self.headers_env:
            raise ValueError("'headers_env' is for a server with 'url'; a server with 'command' has 'env'")
        return self

    def pinned(self, name: str) -> ExternalToolset:
        """Return the server as the history keeps it; `name` is the key in the file."""
        server = McpServer(command=self.command, url=self.url, env=self.env, headers_env=self.headers_env)
        return self._pinned(name=f"mcp.{name}", server=server)


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


class PythonToolOptions(Switchable, PolicyKeys):
    """Keys below the name of a function in `custom:`."""

    capabilities: tuple[Capability, ...] = Field(default=DEFAULT_CAPABILITIES, min_length=1)  # pyright: ignore[reportIncompatibleVariableOverride]
    description: Text | None = None
    """Description for the model, instead of the function's docstring."""


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

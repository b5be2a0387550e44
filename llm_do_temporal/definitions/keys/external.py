"""Keys of external toolsets: classes of any Python package, and MCP servers."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import ConfigDict, Field, StringConstraints, field_validator, model_validator

from llm_do_temporal.messages.base import Strict
from llm_do_temporal.messages.external import ExternalToolset, McpServer
from llm_do_temporal.policy.approvals import Ruling
from llm_do_temporal.policy.external import ToolPolicy
from llm_do_temporal.policy.models import check_no_secret, check_variable
from llm_do_temporal.policy.values import Capability

Prefix = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z][a-zA-Z0-9_-]{0,31}$")]
_ADDRESS = re.compile(r"https?://[^\s/@?#]+(?:/[^\s?#]*)?")


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
        given = [ruling.value for ruling in Ruling if getattr(self, ruling.value)]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(repr(name) for name in given)} exclude each other; keep one of them")
        return self

    @property
    def policy(self) -> ToolPolicy:
        """The policy as it is pinned with a worker."""
        ruling = next((ruling for ruling in Ruling if getattr(self, ruling.value)), None)
        return ToolPolicy(ruling=ruling, capabilities=self.capabilities)


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

    def _tool_policies(self) -> dict[str, ToolPolicy]:
        return {name: (keys or PolicyKeys()).policy for name, keys in self.tools.items()}


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
        return ExternalToolset(
            name=name,
            reference=reference,
            options=dict(self.__pydantic_extra__),
            required=self.required,
            prefix=self.prefix,
            policy=self.policy,
            tools=self._tool_policies(),
        )


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
        return ExternalToolset(
            name=f"mcp.{name}",
            server=server,
            required=self.required,
            prefix=self.prefix,
            policy=self.policy,
            tools=self._tool_policies(),
        )

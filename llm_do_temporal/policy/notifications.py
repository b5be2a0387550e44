"""Notifications of a run's events: the targets of `notify:`, and the addresses that are allowed.

Addresses come from the author of the workshop, so they are trusted; the checks here keep them from being sent readably
over a network by mistake, and from standing in a file where they are secrets themselves.
"""

from __future__ import annotations

from enum import StrEnum
from ipaddress import ip_address
from typing import Annotated, Literal
from urllib.parse import SplitResult, quote, urlsplit

from pydantic import AfterValidator, Field, model_validator

from llm_do_temporal.policy.key_shapes import looks_like_key
from llm_do_temporal.policy.models import check_variable
from llm_do_temporal.policy.values import Value

MAX_TARGETS = 10


class NotifyEvent(StrEnum):
    """Event that targets can be notified of."""

    APPROVAL_REQUESTED = "approval.requested"
    APPROVAL_DECIDED = "approval.decided"
    APPROVAL_REMINDER = "approval.reminder"
    RUN_COMPLETED = "run.completed"
    RUN_FAILED = "run.failed"


def check_target(url: str, *, allow_http: bool) -> str:
    """Return an address that may be notified. Raises ValueError, without repeating a possible secret."""
    parts = _split(url)
    if parts.scheme == "http" and not allow_http and not _is_loopback(parts.hostname or ""):
        raise ValueError("http sends everything readably; use https, or say `allow_http: true`")
    return url


def check_ui_url(url: str) -> str:
    """Return the address of the approvals page, without a slash at its end. Raises ValueError."""
    if _split(url).query:
        raise ValueError("it is the address of a page, like https://approvals.example.com, without a query")
    return url.rstrip("/")


def link_to(ui_url: str | None, run: str, approval: str | None = None) -> str | None:
    """Return the address of a run's page, or of one of its approvals; None where no page is known."""
    if ui_url is None:
        return None
    page = f"{ui_url}/runs/{quote(run, safe='')}"
    return page if approval is None else f"{page}/approvals/{quote(approval, safe='')}"


def _split(url: str) -> SplitResult:
    parts = urlsplit(url)
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise ValueError("it is an address like https://llm.example.com")
    if parts.username is not None or parts.fragment or any(char.isspace() for char in url):
        raise ValueError("an address has no user, password, fragment or space in it")
    return parts


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _no_secret(url: str) -> str:
    if looks_like_key(url) or urlsplit(url).hostname == "hooks.slack.com":
        raise ValueError(
            "this address is a secret: put it into an environment variable of the worker service, and name that "
            "variable with url_env"
        )
    return url


Variable = Annotated[str, AfterValidator(check_variable)]


class NotifyTarget(Value):
    """Entry of `notify:`."""

    url: Annotated[str, AfterValidator(_no_secret)] | None = None
    url_env: Variable | None = None
    """Environment variable of the worker service that holds the address, where the address is a secret."""
    secret_env: Variable | None = None
    """Environment variable of the worker service that holds the key of the signature."""
    events: tuple[NotifyEvent, ...] = Field(default=tuple(NotifyEvent), min_length=1)
    format: Literal["json", "slack"] = "json"
    content: bool = False
    """Whether notifications carry arguments, outputs and the words of errors, too."""
    allow_http: bool = False
    """Whether the address may be an http address on another machine."""

    @model_validator(mode="after")
    def _usable(self) -> NotifyTarget:
        if (self.url is None) == (self.url_env is None):
            raise ValueError("a target has either 'url' or 'url_env'")
        if self.url is not None:
            check_target(self.url, allow_http=self.allow_http)
        if self.format == "json" and self.secret_env is None:
            raise ValueError("'secret_env' is missing: it names the variable that holds the key of the signature")
        return self

    @property
    def name(self) -> str:
        """Name of the target in messages: its host, or the variable that holds its address, and nothing secret."""
        parts = urlsplit(self.url or "")
        return f"{parts.scheme}://{parts.netloc}" if self.url else f"the address in {self.url_env}"


class NotifySettings(Value):
    """Notification targets of a run, pinned when it starts."""

    targets: tuple[NotifyTarget, ...] = ()
    ui_url: str | None = None
    """Address of the approvals page, for links; None: messages have none."""

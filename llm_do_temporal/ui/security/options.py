"""The way to know people that the flags name: a token file, a proxy, or a new token for this machine.

Used by the page and by the codec server, whose flags are the same.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from llm_do_temporal.errors import UsageError
from llm_do_temporal.login import login_name
from llm_do_temporal.ui.http_server import is_loopback
from llm_do_temporal.ui.security.users import Access, ProxyAccess, TokenAccess, new_token, read_token_file


@dataclass(frozen=True)
class Admission:
    """Flags that say how people are known; without any, a new token is made."""

    token_file: Path | None = None
    trusted_header: str | None = None
    trusted_proxies: tuple[str, ...] = ()


def admitted(admission: Admission, host: str, *, what: str) -> tuple[Access, str | None]:
    """Return the access to `what`, like "the page", at this address; and the new token, None unless one was made.

    Raises UsageError for flags that cannot be used, and for an address that others reach without a way to know them.
    """
    if (admission.trusted_header is None) != (not admission.trusted_proxies):
        raise UsageError(
            "--trusted-header and --trusted-proxy need each other: a header counts only from a proxy that is known",
            next_step="Like: --trusted-header X-Forwarded-User --trusted-proxy 10.0.0.5",
        )
    if admission.trusted_header is not None and admission.token_file is not None:
        raise UsageError("--token-file and --trusted-header are two ways to know people; choose one")
    if admission.trusted_header is not None:
        return ProxyAccess(admission.trusted_header, tuple(_ip(one) for one in admission.trusted_proxies)), None
    if admission.token_file is not None:
        return TokenAccess(read_token_file(admission.token_file)), None
    if not is_loopback(host):
        raise UsageError(
            f"{what} would be open to others at '{host}', and nothing says who they are",
            next_step="Give --token-file FILE (lines `name: token`), or --trusted-header and --trusted-proxy.",
        )
    token = new_token()
    return TokenAccess({login_name() or "somebody": token}), token


def _ip(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise UsageError(f"--trusted-proxy '{text}' is not an IP address") from None

"""Replies of HTTP servers that may not be there yet."""

from __future__ import annotations

import urllib.error
import urllib.request


def http_reply(port: int, path: str) -> tuple[int, str]:
    """Return status and text of a reply on this machine; the status is 0 where no server listens."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""

"""Certificate authorities that clients in tests trust: one, and nobody has its key.

Each client of a provider reads all authorities of the machine, 26 ms of processor time, and tests make thousands of
clients, for servers without TLS.
"""

from __future__ import annotations

import os
from pathlib import Path

_NOBODY = Path(__file__).with_name("nobody.pem")


def trust_nobody() -> None:
    """Have the clients of this process, and of those that it starts, trust this authority alone."""
    os.environ["SSL_CERT_FILE"] = str(_NOBODY)

"""Counts of wrong tokens, by the address they come from and all together, so that many cannot be tried.

After too many, no further token is looked at for a while, not even a right one; tokens refused in that time do not
count, so it always ends. People with a session need no token and notice nothing, and an address from which a right
token came before is not held up by the tries of others.
"""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict, deque
from collections.abc import Callable

PER_ADDRESS = 10
"""Wrong tokens from one address within `SECONDS`: more than a person mistypes, and far too few to guess by."""
TOGETHER = 200
"""Wrong tokens from everywhere within `SECONDS`; at most so many are kept, and those of known addresses."""
MAX_SIGN_IN_BYTES = 16 << 10
"""Largest form of signing in, which may be sent without a session."""
SECONDS = 60.0
MAX_KNOWN = 1_000
_IPV6_PREFIX = 64
"""Bits of an IPv6 address that count: the owner of one address usually has all that begin like it."""


class Attempts:
    """Wrong tokens of the last minute, with the addresses they came from."""

    def __init__(
        self, per_address: int = PER_ADDRESS, together: int = TOGETHER, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most = per_address
        self._most_together = together
        self._clock = clock
        self._wrong: deque[tuple[float, str]] = deque()
        self._known: OrderedDict[str, None] = OrderedDict()

    def may_try(self, peer: str) -> bool:
        """Whether a token from this address is looked at."""
        while self._wrong and self._wrong[0][0] <= self._clock() - SECONDS:
            self._wrong.popleft()
        place = place_of(peer)
        if sum(one == place for _, one in self._wrong) >= self._most:
            return False
        return place in self._known or len(self._wrong) < self._most_together

    def was_wrong(self, peer: str) -> None:
        """Count a wrong token, which `may_try` let through."""
        self._wrong.append((self._clock(), place_of(peer)))

    def was_right(self, peer: str) -> None:
        """Remember an address from which a right token came."""
        place = place_of(peer)
        self._known[place] = None
        self._known.move_to_end(place)
        while len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)


def place_of(peer: str) -> str:
    """Return the address that counts: the network for IPv6, the IPv4 address for IPv4 written as IPv6."""
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return peer[:64]
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, _IPV6_PREFIX), strict=False))

"""Scripts of others are as they were published: nobody edits them, not even by accident."""

from __future__ import annotations

import hashlib
from pathlib import Path

import llm_do_temporal.ui

VENDOR = Path(llm_do_temporal.ui.__file__).parent / "static" / "vendor"
PUBLISHED = {
    "htmx.min.js": "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130",
    "hx-sse.min.js": "18ef2761356ec1fe0bb6d92612315b37517a7c1e9856b661c5ae81fef239d103",
}


def test_scripts_of_others_are_as_they_were_published() -> None:
    assert {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in VENDOR.glob("*.js")} == PUBLISHED

"""Two configured keys, and how to see whether a text gives one away."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

KEY = "sk-proj-Q7xN2mPz+9Lw/4RtY8vKc3HdJ6sFb1Ge0UaWq5Zi=="
"""With signs that addresses, JSON and file names write otherwise."""
PASSWORD = "p\"a\\s<s>&'wörd #1%/42"


def leaks(text: str, key: str = KEY) -> bool:
    """Whether a key, or a long piece of one, can be read out of a text."""
    bare = text.replace("\u200b", "").replace("\u00ad", "")
    encoded = base64.b64encode(key.encode()).decode()
    wanted = (key, key[:20], key[-20:], quote(key, safe=""), key.encode().hex(), encoded[4:28], json.dumps(key)[1:-1])
    return any(one.lower() in bare.lower() for one in wanted)

"""JSON of requests: other encodings, keys that are there twice and millions of values are refused.

Numbers and texts that JSON does not have are the business of `check_json`.
"""

from __future__ import annotations

import json
from json import JSONDecodeError
from typing import Any

from llm_do_temporal.messages.json_values import RepeatedKey, unique_object

MAX_PARTS = 2_000_000
"""Largest number of commas and opening brackets in a text, those inside strings included.

Each may be a value, which takes a hundred bytes of memory and more.
"""


def read_json(data: bytes) -> Any:
    """Return the value of a text in UTF-8.

    Raises JSONDecodeError, also for another encoding, a key that is there twice and more than MAX_PARTS.
    RecursionError and ValueError come from the reader: for too many levels, and for numbers of thousands of digits.
    """
    if sum(map(data.count, (b",", b"[", b"{"))) > MAX_PARTS:
        raise JSONDecodeError(f"there are more than {MAX_PARTS:,} commas and brackets", "", 0)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise JSONDecodeError("it is not UTF-8", "", error.start) from error
    try:
        return json.loads(text, object_pairs_hook=unique_object)
    except RepeatedKey as error:
        raise JSONDecodeError(str(error), "", 0) from error

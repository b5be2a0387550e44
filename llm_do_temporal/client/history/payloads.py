"""Values in payloads of histories, read without knowing their types."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

from temporalio.api.common.v1 import Payload

from llm_do_temporal.storage.external_storage import is_kept_outside


def decode_json(payload: Payload) -> Any:
    """A payload's JSON value, or None when it holds something else or is kept elsewhere."""
    if is_kept_outside(payload):
        return None
    try:
        return json.loads(payload.data)
    except ValueError:
        return None


def first_object(payloads: Sequence[Payload]) -> dict[str, Any]:
    """The first payload as an object; an empty one when it is something else, or cannot be read here."""
    value = decode_json(payloads[0]) if payloads else None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}

"""Calls of a certain worker, with no files handed over or only such as lie below a folder."""

from __future__ import annotations

from llm_do_temporal.policy.files.sandbox import join
from llm_do_temporal.policy.kinds.call import AskedCall
from llm_do_temporal.policy.kinds.files import is_below, place_in

_CALL = "worker.call"
_SHARE = "sandbox.read"


def callee_of(call: AskedCall) -> str | None:
    """Return the name of the worker that is called, or that a file goes to; None for calls of templates and others.

    A template is no worker of a fixed definition: what its call fills in makes another worker each time.
    """
    if len(call.uses) != 1:
        return None
    payload, name = call.uses[0].payload, call.uses[0].name
    if name == _CALL and "template" not in payload:
        callee = payload.get("worker")
    elif name == _SHARE and len(call.attachments) == 1:
        callee = payload.get("target_worker")
    else:
        return None
    return callee if isinstance(callee, str) else None


def hands_over(call: AskedCall, folder: str | None) -> bool:
    """Return whether all files that a call hands over lie below the folder by their text; None: it hands over none."""
    if call.files:
        return False
    if folder is None:
        return not call.attachments
    places = [place_in(call.tree, attachment.path) for attachment in call.attachments]
    return all(place is not None and is_below(place.path, folder) for place in places)


def hands_over_really(call: AskedCall) -> bool:
    """Return whether no link leads elsewhere from the files that a call hands over, as far as they were looked at."""
    for attachment in call.attachments:
        place = place_in(call.tree, attachment.path)
        if place is None or attachment.place != join(place.mount.root, place.relative):
            return False
    return True

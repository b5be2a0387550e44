"""Limits of Slack's messages and forms, as its reference states them, and what no text of a stranger may do."""

from __future__ import annotations

import json
from typing import Any

MOST_BLOCKS, MOST_SECTION, MOST_VALUE, MOST_ACTIONS, MOST_BUTTON_TEXT = 50, 3_000, 2_000, 25, 75
MOST_TEXT, MOST_METADATA, MOST_PRIVATE = 40_000, 8_000, 3_000


def check_message(message: dict[str, Any]) -> str:
    """Return the error that Slack would give; empty for none."""
    if not message.get("text") or len(message["text"]) > MOST_TEXT:
        return "msg_too_long"
    metadata = message.get("metadata")
    if metadata is not None and (len(json.dumps(metadata)) > MOST_METADATA or not metadata["event_type"]):
        return "invalid_metadata_format"
    return _check_blocks(message["blocks"])


def check_form(form: dict[str, Any]) -> str:
    """Return the error that Slack would give for a modal; empty for none."""
    if form["type"] != "modal" or len(form["private_metadata"]) > MOST_PRIVATE or len(form["title"]["text"]) > 24:
        return "invalid_arguments"
    return _check_blocks(form["blocks"])


def _check_blocks(blocks: list[dict[str, Any]]) -> str:
    if not 0 < len(blocks) <= MOST_BLOCKS:
        return "invalid_blocks"
    return next((problem for block in blocks if (problem := _check_block(block))), "")


def _check_block(block: dict[str, Any]) -> str:
    elements = block.get("elements", [])
    match block["type"]:
        case "section":
            return "" if _is_text(block["text"], MOST_SECTION) else "invalid_blocks"
        case "context":
            is_fine = 0 < len(elements) <= 10 and all(_is_text(one, MOST_SECTION) for one in elements)
            return "" if is_fine else "invalid_blocks"
        case "actions":
            is_fine = 0 < len(elements) <= MOST_ACTIONS and all(map(_is_button, elements))
            return "" if is_fine else "invalid_blocks"
        case "input":
            return "" if _is_text(block["label"], 2_000) else "invalid_blocks"
        case _:
            return "invalid_blocks_format"


def _is_text(text: dict[str, Any], most: int) -> bool:
    return text["type"] in ("plain_text", "mrkdwn") and 0 < len(text["text"]) <= most


def _is_button(button: dict[str, Any]) -> bool:
    fits = _is_text(button["text"], MOST_BUTTON_TEXT) and len(button.get("value", "")) <= MOST_VALUE
    return button["type"] == "button" and fits and len(button.get("action_id", "")) <= 255

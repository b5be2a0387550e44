"""The types that authors annotate with, by the module name under which they look for them."""

from __future__ import annotations

from llm_do_temporal.tools import IdempotencyKey, ToolContext

__all__ = ["IdempotencyKey", "ToolContext"]

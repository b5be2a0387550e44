"""Workflow code: carries decisions of `policy` to effects in `activities`.

Owns the desk (`LlmDoRun`), the agent loop (`Invocation`) and the gate that every tool call passes.
Must be deterministic: it may name activities to schedule them, and never calls them itself.
"""

"""Workflow code without a server."""

from __future__ import annotations

from tests.support.workflow.fake_workflow import fake_workflow

__all__ = ["fake_workflow"]

"""Tests of experiments need the capability that runs them."""

from __future__ import annotations

from llm_do_temporal.extension import installed

collect_ignore = [] if "evaluations" in [one.name for one in installed()] else ["test_certified_experiments.py"]

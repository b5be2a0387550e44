"""LLM workers as small files, run as durable Temporal workflows with precise human approvals."""

__version__ = "0.1.0"

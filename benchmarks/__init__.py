"""Speed and memory, side by side with a bare Pydantic AI agent on Temporal and with one on DBOS."""

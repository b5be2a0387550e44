"""MCP door: exported workers as tools of agents, runs as tasks, questions as forms."""

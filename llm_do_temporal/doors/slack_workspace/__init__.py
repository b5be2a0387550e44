"""Workspace of Slack below the Slack door: its channel by the Web API, and the people behind its users."""

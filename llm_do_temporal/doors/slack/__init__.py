"""The Slack door: questions as messages with buttons, in Socket Mode."""

"""A Slack of the tests' own."""

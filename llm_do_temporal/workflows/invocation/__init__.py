"""Invocation of a worker: the agent loop, with its models, conversation, budget and questions."""

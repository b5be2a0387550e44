"""One invocation of one worker: the agent loop and all it knows."""

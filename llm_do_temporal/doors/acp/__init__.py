"""ACP door: a worker as the agent of an editor; a session is a run."""

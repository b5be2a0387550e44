"""Commands that try something: what if a run had gone another way, and what that changes."""

"""Virtual file tree of a worker: its paths, the access to them, and the files that may be attached."""

"""The virtual file tree: its paths, what may be done there, and which files may be handed on."""

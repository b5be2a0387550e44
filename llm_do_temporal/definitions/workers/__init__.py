"""Worker files: their keys, where they lie, their instructions and templates."""

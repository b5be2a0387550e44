"""Worker files and workshops: the formats, and the registry that finds and loads them.

Reads files, and for `output_schema_ref` runs the author's Python. Knows nothing of Temporal or of
models. Every mistake in a file is a DefinitionError with the file, relative to the workshop, and the line.
"""

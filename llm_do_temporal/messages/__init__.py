"""Values that cross Temporal: inputs, results, signals, updates, queries and their names.

This is a wire format. A field may be added with a default; changing or removing one, or a name below,
breaks runs that are open and histories that are kept, and needs `workflow.patched` or a migration.
"""

"""Reviews as the page shows them: rows of changed files, the tree of their folders, choices that forms carry."""

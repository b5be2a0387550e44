"""Reviews on the terminal: walking through changes, choosing and editing parts."""

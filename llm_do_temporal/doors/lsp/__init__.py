"""Door for editors that speak the Language Server Protocol: problems, completion and hover in files of definitions."""

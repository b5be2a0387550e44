"""An editor that speaks the Language Server Protocol."""

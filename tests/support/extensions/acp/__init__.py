"""An editor that speaks the Agent Client Protocol."""

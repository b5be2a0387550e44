"""Contents of pages and forms. Decides nothing."""

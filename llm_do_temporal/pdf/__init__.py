"""PDFs, parsed in another process."""

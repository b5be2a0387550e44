"""Contents of files as people read them: coloured sources, differences side by side, Markdown, tables, JSON."""

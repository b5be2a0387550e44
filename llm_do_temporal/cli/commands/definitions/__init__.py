"""Commands about files of definitions: their mistakes, and their schemas."""

"""Text and YAML files: read within bounds, each value with its line."""

"""Keys that worker files and `workshop.yaml` have in common, as people write them."""

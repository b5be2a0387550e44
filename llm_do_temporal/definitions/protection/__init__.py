"""Protection of the files that define a workshop, so that no worker may write them."""

"""Which files of a workshop define something, so that no worker may write them."""

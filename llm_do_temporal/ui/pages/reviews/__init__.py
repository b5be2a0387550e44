"""Pages about reviews: the changes, the choice among them, single files and what is in them."""

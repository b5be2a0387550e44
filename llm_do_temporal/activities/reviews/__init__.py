"""Activities of reviews: what changes come to, from the layer to the commit."""

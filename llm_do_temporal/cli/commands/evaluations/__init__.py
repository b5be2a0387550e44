"""`eval`: evaluations, and what came of them."""

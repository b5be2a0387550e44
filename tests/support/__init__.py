"""Parts that tests share, by subject. Nothing here may be imported by the product, and no test imports another."""

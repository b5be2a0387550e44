"""People who use the product: at a terminal, with a browser, with a real Chromium."""

"""The programs that are compared, and the model, tools and texts that all of them get."""

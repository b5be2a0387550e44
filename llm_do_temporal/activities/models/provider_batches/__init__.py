"""Model turns through the batch APIs of providers, which cost less and take up to a day."""

"""Rules learned from a month of made-up decisions, and held against the intentions behind these."""

"""Limits of runs and workers, and the ledger of spending against them."""

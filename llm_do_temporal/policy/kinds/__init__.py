"""Kinds of calls: which calls are alike, so that one decision of a person can stand for all of them."""

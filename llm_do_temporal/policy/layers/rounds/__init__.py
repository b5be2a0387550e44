"""Rounds of a review, as pure values: a layer over the files of now, what answers come to, words for the model."""

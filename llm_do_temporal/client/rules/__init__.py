"""Rules of a workshop, learned from past calls and tried on them."""

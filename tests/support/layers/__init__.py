"""Files of which some are in a layer only."""

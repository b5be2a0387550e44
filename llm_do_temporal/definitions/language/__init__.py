"""Files of definitions as an editor sees them: open and unsaved texts, what may stand where, and what it means."""

"""Pictures for a terminal, in lines: a question, and the facts around it. Pure but for the reading of these facts."""

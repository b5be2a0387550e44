"""An agent that speaks the Model Context Protocol."""

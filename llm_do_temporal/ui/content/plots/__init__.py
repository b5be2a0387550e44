"""Pictures of numbers: places of bars and points, which templates draw. Pure."""

"""Stand-ins for model providers: what they answer, and the protocol they speak."""

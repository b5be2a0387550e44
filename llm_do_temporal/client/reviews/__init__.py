"""Reviews of layers as people and programs see them: changes, contents, choices, decisions."""

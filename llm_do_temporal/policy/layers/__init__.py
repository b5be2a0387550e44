"""Layers: changes of files that nothing of has been made real, as pure values over the files they begin from."""

"""Pages of runs that try something beside another run."""

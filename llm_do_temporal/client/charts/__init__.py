"""Facts about the runs of the last weeks: counts of the server, and costs and waits from the ends of runs."""

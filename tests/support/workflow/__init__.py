"""Parts of workflows without a server: gates, desks, failures, points in time."""

"""Nexus door: workflows of other namespaces call workers, durably."""

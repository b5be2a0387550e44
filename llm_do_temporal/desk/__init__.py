"""The desk of a run, as pure steps: what is asked, who may decide, what is remembered."""

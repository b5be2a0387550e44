"""The desk of a run, as pure steps: open questions, the people who may decide, remembered decisions."""

"""Record of one run for people: its facts, its files, and the periods of its invocations."""

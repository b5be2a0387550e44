"""How far the cluster of processes carries on one machine: what docs/how-to/scale.md says of thousands of runs."""

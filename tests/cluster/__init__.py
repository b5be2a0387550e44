"""Cluster of processes on this machine: what docker-compose.yml says, without containers.

`python -m tests.cluster up` is `make cluster`; tests use `Cluster`, other programs `python -m tests.cluster run`. It is
for contributors: whoever runs the project for others takes docs/how-to/deploy.md.
"""

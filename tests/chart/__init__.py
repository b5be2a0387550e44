"""Kubernetes' own API server on this machine, for the Helm chart: `make chart-test`.

No machine belongs to it and no container ever runs: it takes or refuses objects, fills in what they leave open, and
keeps them.
"""

"""Crash proof: one run is recorded, then done again with something killed right after each event of its history.

`certifying` has the plan and the result, `staging` the processes, `rehearsing` one run, `evidence` what is compared.
"""

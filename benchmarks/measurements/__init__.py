"""One module a measurement: `python -m benchmarks --only NAME` takes one of them."""

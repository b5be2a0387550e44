"""First step of `make chart-test`, and what CI asks before it.

python -m tests.chart build
python -m tests.chart built
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tests.chart.programs import MODULES
from tests.cluster.binaries import build
from tests.cluster.errors import ClusterError


def main(arguments: Sequence[str]) -> int:
    """Do what is said; 2 where that cannot be."""
    parser = argparse.ArgumentParser(prog="python -m tests.chart", description="Programs that `make chart-test` needs.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, does, text in (
        ("build", _build, "build those that are missing"),
        ("built", _built, "say which are missing; exits 0 where none is"),
    ):
        commands.add_parser(name, help=text, description=text).set_defaults(does=does)
    try:
        parser.parse_args(arguments).does()
    except ClusterError as error:
        print(f"chart: {error}", file=sys.stderr)
        return 2
    return 0


def _build() -> None:
    for module in MODULES:
        build(module, print)


def _built() -> None:
    missing = [f"{one.name} {one.version}" for one in MODULES if not one.is_built()]
    if missing:
        raise ClusterError(f"not built: {', '.join(missing)}; `make chart-test` builds them")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""``make bench-tpch``: the 22 queries of TPC-H, maintained beside what one would do instead.

For each window of changes every contender brings its answer up to date, one query after the other,
on the same data and server.  A time counts after the stream table was found equal to PostgreSQL's
own answer.  Results go to a JSON file, from which ``benchmarks.report`` draws tables and plots.

A JVM is quick after some fifty refreshes, so warm-up windows are many and the stream tables' own:
the other contenders take part in the last of them only.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.engine_option import add_engine
from benchmarks.ratios import failures
from benchmarks.report.comparison import comparison_table
from benchmarks.results import describe_run, write_results
from benchmarks.tpch.comparison import FULL, Comparison
from benchmarks.tpch.database import add_options, open_database, shares_of


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison, print a table, write the results."""
    arguments = sys.argv[1:] if arguments is None else arguments
    options = _parser().parse_args(arguments)
    with open_database(options) as database, tempfile.TemporaryDirectory() as scratch:
        first = database.next_window()
        comparison = Comparison(database, options, Path(scratch))
        results = describe_run(
            "benchmarks.tpch",
            arguments,
            database.connection,
            scale=options.scale,
            rows=options.rows,
            engine=options.engine,
            first_window=first,
            runs=comparison.play(shares_of(options)),
        )
    for run in results["runs"]:
        print(f"\nscale {options.scale:g}, {run['share']:.4%} of the rows changed\n")
        print(comparison_table(run))
    if options.output:
        write_results(options.output, results)
    return 1 if failures(results) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks.tpch", description=__doc__)
    add_options(parser, (0.001,))
    parser.add_argument("--warm-up", type=int, default=2, help="windows that do not count")
    parser.add_argument("--rounds", type=int, default=5, help="windows that count")
    parser.add_argument(
        "--full-rounds", type=int, default=1, help=f"windows for {', '.join(sorted(FULL))}"
    )
    parser.add_argument("--without", action="append", default=[], help="leave a contender out")
    parser.add_argument("--mode", default="DIFFERENTIAL", help="refresh mode of the stream tables")
    add_engine(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())

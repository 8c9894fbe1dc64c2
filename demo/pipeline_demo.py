"""A tour of the data pipeline: files into three tables, a check that fails, drop and undrop, time travel.

Run it with `make demo`. It calls the `pennon` command as a user would.
"""

from __future__ import annotations

import csv
import json
import random
import shutil
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

from rich.console import Console

PROJECT = Path(__file__).resolve().parent.parent
OUTPUT = PROJECT / "demo-output"
ROOT = OUTPUT / "lake"
DATA = OUTPUT / "data"
PIPELINE = PROJECT / "demo" / "shop.yaml"
CHECK_FAILED = 9
COUNTRIES = ("DE", "FR", "IT", "PT")

console = Console(highlight=False, soft_wrap=True)


def main() -> int:
    """Build a lake in ./demo-output and explain each step."""
    shutil.rmtree(OUTPUT, ignore_errors=True)
    console.print("[bold]Pennon: from files to tables, checked and published all at once[/bold]")

    step("Make some data", "2,000 orders of 300 customers on day 1; more on day 2, with a mistake")
    make_day("day-1", orders=range(2_000))
    make_day("day-2", orders=range(1_500, 2_500), mistake=True)

    step("Let the catalog manage versions", "so that several tables can be published in one commit")
    pennon("create-namespace", "shop")
    pennon("manage-versions")

    step("See what the pipeline would do")
    run_pipeline("day-1", "--dry-run")

    step("Run it", "three tables are written, checked, and then published in one commit")
    run_pipeline("day-1")
    pennon("ls", "--long", "shop")

    step("Run it with day 2", "a check fails, and nothing is published")
    run_pipeline("day-2", expected=CHECK_FAILED)
    pennon("versions", "shop.orders")

    step("Correct the data and run it again")
    make_day("day-2", orders=range(1_500, 2_500))
    run_pipeline("day-2")

    step("Travel in time", "the first version still exists")
    pennon("count", "shop.orders")
    pennon("count", "shop.orders", "--version", "1")

    step("Drop a table", "and restore it: a drop hides a table, only a purge deletes it")
    pennon("drop", "shop.revenue", "--yes")
    pennon("ls", "shop")
    pennon("trash", "shop")
    pennon("undrop", "shop.revenue")
    pennon("head", "shop.revenue", "--limit", "5")

    print_next_steps()
    return 0


def make_day(day: str, *, orders: range, mistake: bool = False) -> None:
    """Write the files of one day, with the same content in every run."""
    chance = random.Random(day)  # noqa: S311 - made-up data
    directory = DATA / day
    directory.mkdir(parents=True, exist_ok=True)
    customers = [
        {"customer_id": number, "name": f"Customer {number}", "country": chance.choice(COUNTRIES)}
        for number in range(300)
    ]
    with (directory / "customers.json").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(customer) + "\n" for customer in customers)
    start = datetime(2026, 3, 1, tzinfo=timezone.utc)
    with (directory / "orders.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["order_id", "customer_id", "placed", "amount", "status"])
        for number in orders:
            status = "piad" if mistake and number == orders[-1] else chance.choice(("paid", "paid", "open", "returned"))
            placed = (start + timedelta(minutes=13 * number)).isoformat(sep=" ", timespec="seconds")
            writer.writerow([number, chance.randrange(300), placed, f"{chance.uniform(5, 500):.2f}", status])


def run_pipeline(day: str, *options: str, expected: int = 0) -> None:
    """Run the pipeline with the files of one day."""
    pennon(
        "run", relative(PIPELINE), "--var", f"data={relative(DATA)}", "--var", f"day={day}", *options, expected=expected
    )


def pennon(*arguments: str, expected: int = 0) -> None:
    """Print and run a command; an unexpected exit code ends the tour."""
    console.print(f"[bold cyan]$ pennon {' '.join(arguments)}[/bold cyan]")
    command = [sys.executable, "-m", "pennon.cli", "--root", str(ROOT), "--table", *arguments]
    code = subprocess.run(command, cwd=PROJECT, check=False).returncode  # noqa: S603 - our own command
    if code != expected:
        console.print(f"[red]exit code {code}, expected {expected}[/red]")
        raise SystemExit(1)
    if expected:
        console.print(f"(exit code {code})")


def step(title: str, remark: str = "") -> None:
    """Print the title of the next step."""
    console.print(f"\n[bold]{title}[/bold]{': ' + remark if remark else ''}")


def print_next_steps() -> None:
    """Print what to try next."""
    root = relative(ROOT)
    console.print("\n[bold]What to try next[/bold]")
    console.print(f"  export PENNON_ROOT={root}")
    console.print("  .venv/bin/pennon tree")
    console.print("  .venv/bin/pennon info shop.orders")
    console.print("  .venv/bin/pennon jobs compact 'shop.*' --dry-run")
    console.print("  .venv/bin/python                   # then:")
    console.print("    from pennon.spark import attach")
    console.print("    from pennon.spark.session import new_session")
    console.print(f"    lake = attach(new_session('try', master='local[2]'), root={root!r})")
    console.print("    lake.sql('SELECT country, sum(revenue) FROM shop.revenue GROUP BY country').show()")
    console.print(f"\nThe pipeline is {relative(PIPELINE)}; the guides are in docs/guides; the lake is in {root}.")


def relative(path: Path) -> str:
    """Return a path relative to the project."""
    return path.relative_to(PROJECT).as_posix()


if __name__ == "__main__":
    sys.exit(main())

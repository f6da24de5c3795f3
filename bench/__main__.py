"""python -m bench [SUITE …]"""

from __future__ import annotations

import asyncio
from pathlib import Path
from time import perf_counter

import click
import msgspec
from rich.console import Console

from bench.arena import FULL, QUICK, ROOT, Scale, arena
from bench.plot import draw
from bench.raw import RAW
from bench.report import Findings, Report, show_curves, show_goals, show_rows
from bench.suites import SUITES


async def measure(
    suites: tuple[str, ...],
    scale: Scale,
    stores: tuple[str, ...],
    console: Console,
    folder: Path,
    peers: str = "none",
) -> Report:
    """The suites have run, in their order, and each has shown its tables as soon as it had them."""
    findings = Findings([], [], [], [])
    took_s: dict[str, float] = {}
    async with arena(scale, stores, folder, peers) as place:
        for name in suites:
            shown, said, drawn = len(findings.rows), len(findings.notes), len(findings.curves)
            began = perf_counter()
            await SUITES[name](place, findings)
            took_s[name] = round(perf_counter() - began, 1)
            show_rows(console, findings.rows[shown:], findings.notes[said:])
            show_curves(console, findings.curves[drawn:])
        machine = place.machine() | {"took_s": took_s}
    show_goals(console, findings.goals)
    if machine["load"] > (machine["processors"] or 1) + 1:
        # Our own processes account for about one.
        console.print(f"The machine is busy (load {machine['load']}): ratios are rough, times mean nothing.")
    return Report(
        goals=findings.goals,
        rows=findings.rows,
        notes=findings.notes,
        curves=findings.curves,
        machine=machine,
    )


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("suites", nargs=-1, type=click.Choice(list(SUITES)))
@click.option("--quick", is_flag=True, help="Few rounds: shows that everything works; the figures are rough.")
@click.option("--rounds", type=click.IntRange(min=1), help="How often contestants take turns.")
@click.option("--jobs", type=click.IntRange(min=1), help="How many go through the queue.")
@click.option(
    "--peers", type=click.Choice(["none", "best", "all"]), default="none", help="Who else takes part."
)
@click.option("--store", "stores", multiple=True, type=click.Choice(list(RAW)), help="Only this store.")
@click.option(
    "--out", type=click.Path(path_type=Path), default=ROOT / "build" / "bench.json", show_default=False
)
@click.option(
    "--folder", type=click.Path(path_type=Path), default=ROOT / "build", help="Where the files lie."
)
def main(
    suites: tuple[str, ...],
    quick: bool,
    rounds: int | None,
    jobs: int | None,
    peers: str,
    stores: tuple[str, ...],
    out: Path,
    folder: Path,
) -> None:
    """Measure Holdfast beside the raw database and its peers, e.g. `python -m bench append --store sqlite`.

    Goals are ratios within the run. A missed goal is printed as missed and does not fail the command.
    """
    scale = QUICK if quick else FULL
    if rounds is not None:
        scale = msgspec.structs.replace(scale, rounds=rounds)
    if jobs is not None:
        scale = msgspec.structs.replace(scale, jobs=jobs)
    console = Console()
    report = asyncio.run(
        measure(suites or tuple(SUITES), scale, stores or tuple(RAW), console, folder, peers)
    )
    report.write(out)
    pictures = draw(report.rows, report.curves, out.parent)
    missed = [goal.name for goal in report.goals if not goal.met]
    met = f"{len(report.goals) - len(missed)} of {len(report.goals)} goals met"
    console.print(f"{met}; {out} and {len(pictures)} pictures beside it")
    if missed:
        console.print(f"not met: {', '.join(missed)}", style="bold red")


if __name__ == "__main__":
    main()

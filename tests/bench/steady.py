"""The speed of `passel train` while it is under way: after all workers have begun, before the end."""

import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from measure import events, first_steps

POLL_SECONDS = 0.1
PATIENCE = 300  # seconds for a run to show what is measured
STOPPED = 130  # exit code after an interrupt


@dataclass(frozen=True)
class Steady:
    tickets_a_second: float
    notes: list[str]  # what the program says of the GPU


def interval(found: list[dict], workers: int) -> tuple[int, float]:
    """Tickets, and the seconds they took. Those at the end of an epoch do not count: there all wait."""
    begun = first_steps(found)
    if len(begun) < workers:
        return 0, 0.0
    lines = [one for one in found if one["event"] == "train" and one["time"] >= max(begun.values())]
    pairs = [(one, next_one) for one, next_one in zip(lines, lines[1:]) if one["epoch"] == next_one["epoch"]]
    return (
        sum(later["ticket"] - sooner["ticket"] for sooner, later in pairs),
        sum(later["time"] - sooner["time"] for sooner, later in pairs),
    )


def ends(process: subprocess.Popen) -> bool:
    try:
        process.wait(timeout=POLL_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return True


def stop(process: subprocess.Popen) -> int:
    process.send_signal(signal.SIGINT)
    try:
        return process.wait(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def fail(what: str, log: Path) -> None:
    lines = log.read_text().splitlines()[-20:]
    sys.exit(f"{Path(sys.argv[0]).stem}: {what}. Its last lines:\n" + "\n".join(lines))


def measure_steady(command: list, workers: int, seconds: float) -> Steady:
    """Runs the command, a training of many epochs, until it has been seen for so long; then ends it."""
    with tempfile.TemporaryDirectory() as folder:
        run, log = Path(folder) / "run", Path(folder) / "log"
        with log.open("w") as output:
            process = subprocess.Popen([*map(str, command), "--out", str(run)], stdout=output, stderr=output)
        deadline = time.monotonic() + PATIENCE
        tickets, spent = 0, 0.0
        while time.monotonic() < deadline and (tickets == 0 or spent < seconds) and not ends(process):
            tickets, spent = interval(events(run), workers)
        code = stop(process)
        if code != STOPPED or tickets == 0:
            fail(f"{' '.join(map(str, command))} ended with {code} after {tickets} tickets at speed", log)
        notes = [line.strip() for line in log.read_text().splitlines()
                 if "computes on" in line or "without MPS" in line]  # fmt: skip
        return Steady(tickets / spent, notes)

"""What the benchmarks read from /proc and from runs, and how they write their results."""

import json
import os
import platform
import time
from pathlib import Path

# The folder of the data set; where the Debian package puts it, if nothing else is said.
DATA = Path(os.environ.get("PASSEL_DATA", "/usr/share/datasets/fashion-mnist"))


def process_age() -> float:
    """Seconds since this process was started, its interpreter's start included."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started


def anonymous_mb(pid: int) -> float:
    """Anonymous memory of a process in MB (10^6 bytes); 0 if it has ended."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    kib = next((line.split()[1] for line in text.splitlines() if line.startswith("Anonymous:")), 0)
    return int(kib) * 1024 / 1e6


def children_of(pid: int) -> list[int]:
    """Of all threads: a child belongs to the thread that started it."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [int(child) for child in task.read_text().split()]
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


def events(run: Path) -> list[dict]:
    """The whole lines of metrics.jsonl; the last one may be half written."""
    file = run / "metrics.jsonl"
    lines = file.read_text().splitlines(keepends=True) if file.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def first_steps(found: list[dict]) -> dict[int, float]:
    """Unix time of the first finished step of each worker, by its slot."""
    times: dict[int, float] = {}
    for event in found:
        if event["event"] == "worker" and event["state"] == "training":
            times.setdefault(event["slot"], event["time"])
    return times


def machine() -> str:
    model = platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return f"{model}, {len(os.sched_getaffinity(0))} CPUs"


def write_results(results: list[dict], file: Path) -> None:
    """Prints the table and writes it as JSON. ratio > 1: better than the peer.

    Columns whose names begin with "floor" are printed, too."""
    width = max(len(result["name"]) for result in results) + 2
    floors = [key for key in results[0] if key.startswith("floor")]
    headings = "".join(f"  {key.replace('_', ' ')}" for key in floors)
    print(f"{'name':<{width}}{'value':>12}{'peer':>12}  {'unit':<12}{'ratio':>7}{headings}")
    for result in results:
        print(
            f"{result['name']:<{width}}{result['value']:>12.4g}{result['peer_value']:>12.4g}"
            f"  {result['unit']:<12}{result['ratio']:>7.2f}"
            + "".join(f"  {result[key]:>{len(key)}.3g}" for key in floors)
        )
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(results, indent=2) + "\n")
    print(f"written to {file}")

#!/usr/bin/env python3
"""Draws the training steps of bench-kernels.json under the machine's roofline, as SVG.

usage: roofline.py [bench-kernels.json [roofline.svg]]
"""

import json
import math
import sys
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[2]
WIDTH, HEIGHT = 760, 460
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 40, 56
X_RANGE = (1, 1000)  # FLOP/byte
Y_RANGE = (1, 200)  # GFLOP/s
OURS, PEER, ROOF, GRID, TEXT = "#1b5e9e", "#c0502b", "#333333", "#dddddd", "#222222"


def x_of(intensity: float) -> float:
    low, high = map(math.log, X_RANGE)
    return LEFT + (math.log(intensity) - low) / (high - low) * (WIDTH - LEFT - RIGHT)


def y_of(gflops: float) -> float:
    low, high = map(math.log, Y_RANGE)
    return HEIGHT - BOTTOM - (math.log(gflops) - low) / (high - low) * (HEIGHT - TOP - BOTTOM)


def line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
        f'stroke="{colour}" stroke-width="{width}"/>'
    )


def text(x: float, y: float, words: str, anchor: str = "start", extra: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {extra}>{escape(words)}</text>'


def axes() -> list[str]:
    made = []
    for value in (1, 10, 100, 1000):
        made.append(line(x_of(value), TOP, x_of(value), HEIGHT - BOTTOM, GRID))
        made.append(text(x_of(value), HEIGHT - BOTTOM + 18, str(value), "middle"))
    for value in (1, 10, 100):
        made.append(line(LEFT, y_of(value), WIDTH - RIGHT, y_of(value), GRID))
        made.append(text(LEFT - 8, y_of(value) + 4, str(value), "end"))
    middle = HEIGHT / 2
    made.append(text(WIDTH / 2, HEIGHT - 14, "FLOP per byte that must move", "middle"))
    made.append(text(18, middle, "GFLOP/s", "middle", f'transform="rotate(-90 18 {middle:.0f})"'))
    return made


def roof(bandwidth: float, peak: float, name: str) -> list[str]:
    """The slope of a bandwidth up to the peak, from the left or lower edge of the plot."""
    start = max(X_RANGE[0], Y_RANGE[0] / bandwidth)
    ridge = peak / bandwidth
    if ridge <= start:
        return []
    middle = math.sqrt(start * ridge)
    return [
        line(x_of(start), y_of(start * bandwidth), x_of(ridge), y_of(peak), ROOF, 1.5),
        text(x_of(middle) + 8, y_of(middle * bandwidth) + 12, f"{name} {bandwidth:.0f} GB/s"),
    ]


def point(row: dict, key: str) -> tuple[float, float]:
    return x_of(row["flops_per_byte"]), y_of(row[key] * row["peak_gflops"])


def steps(rows: list[dict]) -> list[str]:
    """Passel's point and, below it, that of the composed path, for each sequence."""
    made = []
    for row in rows:
        (x, y), (_, peer_y) = point(row, "value"), point(row, "peer_value")
        made.append(line(x, y, x, peer_y, GRID))
        made.append(f'<circle cx="{x:.1f}" cy="{peer_y:.1f}" r="4" fill="none" stroke="{PEER}"/>')
        made.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{OURS}"><title>'
            f"{escape(row['name'])}: {row['value']:.0%} of the peak, peer {row['peer_value']:.0%}"
            f"</title></circle>"
        )
    return made


def names(rows: list[dict]) -> list[str]:
    """Below the peers' points, turned, and moved aside where one would cover another."""
    made, free = [], 0.0
    for row in sorted(rows, key=lambda row: row["flops_per_byte"]):
        x, y = point(row, "peer_value")
        x, y = max(x + 4, free), y + 10
        free = x + 11
        words = row["name"].removeprefix("lltm_").replace("_", " ").upper()
        turned = f'font-size="9" transform="rotate(-90 {x:.1f} {y:.1f})"'
        made.append(text(x, y, words, "end", turned))
    return made


def legend(peak: float) -> list[str]:
    x, y = LEFT + 8, 22
    return [
        f'<circle cx="{x}" cy="{y - 4}" r="4.5" fill="{OURS}"/>',
        text(x + 10, y, "Passel, forward and backward"),
        f'<circle cx="{x + 220}" cy="{y - 4}" r="4" fill="none" stroke="{PEER}"/>',
        text(x + 230, y, "the same in ATen operators"),
        text(WIDTH - RIGHT, y_of(peak) - 6, f"FMA peak {peak:.0f} GFLOP/s", "end"),
    ]


def svg(results: list[dict]) -> str:
    rows = [r for r in results if r["name"].startswith("lltm_t") and r["name"][-1].isdigit()
            and "_vs_" not in r["name"] and not r["name"].endswith("_avx2")]  # fmt: skip
    if not rows:
        sys.exit("roofline: expected rows named lltm_t..., found none")
    first = rows[0]
    peak, memory, cache = (first[key] for key in ("peak_gflops", "memory_gb_per_s", "l2_gb_per_s"))
    top = line(x_of(max(X_RANGE[0], peak / cache)), y_of(peak), WIDTH - RIGHT, y_of(peak), ROOF, 1.5)
    body = [*axes(), top, *roof(memory, peak, "memory"), *roof(cache, peak, "L2"), *steps(rows),
            *names(rows), *legend(peak)]  # fmt: skip
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="sans-serif" font-size="12" fill="{TEXT}">\n'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


def main() -> None:
    if len(sys.argv) > 3 or "--help" in sys.argv:
        sys.exit(__doc__)
    paths = [Path(argument) for argument in sys.argv[1:]]
    source = paths[0] if paths else ROOT / "build/bench/bench-kernels.json"
    target = paths[1] if len(paths) > 1 else ROOT / "docs/roofline.svg"
    if not source.exists():
        sys.exit(f"roofline: expected {source}. Run 'make bench-kernels'.")
    target.write_text(svg(json.loads(source.read_text())))
    print(f"written to {target}")


if __name__ == "__main__":
    main()

"""Draws rows of medians and ranges as an SVG, two panels side by side."""

import math
import statistics
from html import escape

ROW, TOP, LEFT, PANEL, GAP = 22, 56, 210, 300, 40
COLOURS = {"adam": "#1f6f8b", "sgd": "#b5541c"}


def ticks(low: float, high: float) -> list[float]:
    """Powers of ten, with more multiples of them the narrower the range is."""
    factors = range(1, 10) if high / low < 5 else (1, 2, 5) if high / low < 100 else (1,)
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    values = [factor * 10.0**exponent for exponent in exponents for factor in factors]
    return [value for value in values if low <= value <= high]


def panel(title: str, key: str, rows: list[dict], left: float) -> list[str]:
    values = [value for row in rows for value in row[key] if value > 0]
    low, high = min(values) / 1.1, max(values) * 1.1
    bottom = TOP + ROW * len(rows)

    def x(value: float) -> float:
        return left + PANEL * math.log(max(value, low) / low) / math.log(high / low)

    parts = [f'<text x="{left}" y="24" font-weight="bold">{escape(title)}</text>']
    for value in ticks(low, high):
        parts.append(f'<path d="M{x(value):.1f} {TOP - 8}V{bottom}" stroke="#ddd"/>')
        parts.append(f'<text x="{x(value):.1f}" y="{TOP - 12}" text-anchor="middle" '
                     f'fill="#666">{value:g}</text>')  # fmt: skip
    for number, row in enumerate(rows):
        if not row[key]:
            continue
        y, colour = TOP + ROW * (number + 0.5), COLOURS[row["family"]]
        parts.append(f'<path d="M{x(min(row[key])):.1f} {y}H{x(max(row[key])):.1f}" '
                     f'stroke="{colour}" stroke-width="3" stroke-linecap="round"/>')  # fmt: skip
        parts.append(f'<circle cx="{x(statistics.median(row[key])):.1f}" cy="{y}" r="5" '
                     f'fill="{colour}"/>')  # fmt: skip
    return parts


def draw(problem: str, rows: list[dict], seconds: float) -> str:
    """Dots are medians, lines ranges; the losses are on a logarithmic axis."""
    width, height = LEFT + 2 * PANEL + GAP + 20, TOP + ROW * len(rows) + 16
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
             'font-family="sans-serif" font-size="12">',
             '<rect width="100%" height="100%" fill="white"/>']  # fmt: skip
    for number, row in enumerate(rows):
        y = TOP + ROW * (number + 0.5) + 4
        parts.append(f'<text x="10" y="{y}">{escape(row["name"])}</text>')
    parts += panel(f"{problem}: loss at equal samples", "at_equal_samples", rows, LEFT)
    parts += panel(f"loss after {seconds:.1f} s", "at_equal_time", rows, LEFT + PANEL + GAP)
    return "\n".join([*parts, "</svg>\n"])

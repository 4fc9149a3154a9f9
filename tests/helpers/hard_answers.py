"""Labels, times and answers that constrained decoding must get right."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

DURATIONS = [
    0.04, 0.1, 0.5, 0.9, 0.99, 1.0, 1.01, 2.0, 6.4, 8.53, 256 / 30, 9.0, 9.99, 10.0, 10.05, 313 / 30, 11.0, 12.34,
    19.9, 20.0, 29.97, 59.97, 60.0, 90.09, 99.0, 99.99, 100.0, 100.01, 101.0, 110.0, 123.45, 200.0, 313.07,
]  # fmt: skip


def numbers(duration: float, digits: int) -> dict[str, bool]:
    """Every way to write a number without leading zeros up to beyond the duration: whether it is within it."""
    found = {}
    for decimals in range(digits + 1):
        for k in range(int((duration * 1.2 + 12) * 10**decimals)):
            value = Decimal(k).scaleb(-decimals)
            found[f"{value:.{decimals}f}"] = value <= Decimal(repr(duration))
    return found


HARD = [
    "picking “x” (the 2nd) from {a|b} [left]", "a.b*c+d?e^f$g\\h/i", "#1 – 50% & 'so' ~ on; \"quoted\"",
    "größe, 把手, ☃, 🤖", "inserting <peg> into <hole>", "a  b", "-", "e\u0301 combining", "pick\tplace",
]  # fmt: skip


def as_json(labels: list[str], spans: list[tuple[float, float]], **how: Any) -> str:
    events = [
        {"event": i, "label": label, "start": a, "end": b}
        for i, (label, (a, b)) in enumerate(zip(labels, spans, strict=True), 1)
    ]
    return json.dumps({"events": events}, ensure_ascii=False, **how)

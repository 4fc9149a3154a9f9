"""Good files made bad: by their bytes, by their words, or by the values that they hold."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Any

ESCAPE = "\x1b]0;taken\x07"
DEPTH = 100_000

Bytes = Callable[[bytes, random.Random], bytes]

# Values that no key expects, as JSON texts: what JSON cannot hold is written all the same.
VALUES = (
    "NaN", "Infinity", "-Infinity", "1e999", "1" + "0" * 400, "9" * 5000, "-1", "0", "-0.0", "1e308", "1e-320", "true",
    "false", "null", '""', '"x"', '" "', '"NaN"', "[]", "{}", "[[]]", '[null]', '{"": ""}', '"\\ud800"', '"a\\u2028b"',
    '"a\\u2029b"', '"a\\u0085b"', '"a\\u0000b"', '"a\\nb\\r\\nc"', json.dumps(ESCAPE), '"' + "x" * 300 + '"',
    '"' + "é" * 300 + '"', '"../../../../../../etc/passwd"', '"/etc/passwd"', '"/dev/zero"', '".."', '"a/../../b"',
    '"~"', '"C:\\\\x"', '"-"', '"{}{0}{clip}%s%n"', '"<1> <2>"', '"[bold]x[/nothing]"', "2147483648",
    "9223372036854775808", "18446744073709551616", "1.5", "-7", '"2026-13-45"', "[" * 2000 + "]" * 2000,
)  # fmt: skip


def cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def cut_end(data: bytes, rng: random.Random) -> bytes:
    return data[: -rng.randint(1, 12)]


def flip(data: bytes, rng: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice((1, 3, 20))):
        if out:
            out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def hole(data: bytes, rng: random.Random) -> bytes:
    at, long = rng.randrange(len(data) + 1), rng.choice((1, 16, 512))
    return data[:at] + b"\0" * min(long, len(data) - at) + data[at + long :]


def noise(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.randbytes(40) + data[at + 40 :]


def crossed(data: bytes, rng: random.Random) -> bytes:
    half = len(data) // 2
    return data[half:] + data[:half]


def deep(data: bytes, rng: random.Random) -> bytes:
    opened, closed = rng.choice(((b"[", b"]"), (b'{"a":', b"}"), (b"(", b"")))
    core = opened * DEPTH + (b"1" + closed * DEPTH if rng.random() < 0.5 else b"")
    return rng.choice((core, b'{"clip": ' + core + b"}\n", b"a = " + core + b"\n"))


def wide(data: bytes, rng: random.Random) -> bytes:
    word = rng.choice((b"x" * 2_000_000, b'{"a": "' + b"y" * 2_000_000 + b'"}', b"1," * 500_000, b'"' * 300_001))
    return rng.choice((word, data + word, word + b"\n" + data))


def empty(data: bytes, rng: random.Random) -> bytes:
    return rng.choice((b"", b"\n", b"\0", b" \n\n", b"{}", b"[]", b"null", b"0", b"\xef\xbb\xbf", b"{}\n{}\n", b"\r"))


def binary(data: bytes, rng: random.Random) -> bytes:
    magic = rng.choice((b"", b"\x89HDF\r\n\x1a\n", b"PAR1", b"\x80\x04", b"PK\x03\x04", b"\x1f\x8b", b"\xfd7zXZ\0"))
    return magic + rng.randbytes(rng.choice((3, 200, 5000)))


BINARY: tuple[Bytes, ...] = (cut, cut_end, flip, flip, hole, noise, crossed, empty, binary)


def encoded(data: bytes, rng: random.Random) -> bytes:
    text = data.decode("utf-8", "replace")
    return rng.choice((
        lambda: text.encode("utf-16"), lambda: text.encode("utf-16-le"), lambda: b"\xef\xbb\xbf" + data,
        lambda: data.replace(b"\n", b"\r\n"), lambda: data.replace(b"\n", b"\r"), lambda: data + b"\xff\xfe\xe9",
        lambda: data.replace(b"a", b"\xe9", 1), lambda: data.replace(b"a", b"\xed\xa0\x80", 1),
        lambda: text.encode("utf-32"), lambda: data.replace(b" ", b"\xc2\x85", 3), lambda: data.rstrip(b"\n"),
    ))()  # fmt: skip


def lines(data: bytes, rng: random.Random) -> bytes:
    """Lines left out, doubled, in another order."""
    rows = data.split(b"\n")
    i, j = rng.randrange(len(rows)), rng.randrange(len(rows))
    way = rng.randrange(6)
    if way == 0:
        del rows[i]
    elif way == 1:
        rows.insert(j, rows[i])
    elif way == 2:
        rows[i], rows[j] = rows[j], rows[i]
    elif way == 3:
        rows[i] = rows[i][: rng.randrange(len(rows[i]) + 1)]
    elif way == 4:
        return data + data
    else:
        rows.insert(i, rng.choice((b"", b"   ", b"#", b"null", b"{}", b"[]", b"\0\0\0", b'"x"', b"NaN", b",,,,,,,,")))
    return b"\n".join(rows)


_WORD = re.compile(rb'"(?:[^"\\\n]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|\b[a-z_]{3,}\b')


def words(data: bytes, rng: random.Random) -> bytes:
    """A number, a text or a name that becomes another, whatever the language of the file."""
    for _ in range(rng.choice((1, 1, 2))):
        found = list(_WORD.finditer(data[:20_000]))
        if found:
            hit = rng.choice(found)
            value = rng.choice(VALUES).encode()
            if hit.group()[:1] != b'"' and rng.random() < 0.5:
                value = value.strip(b'"')
            data = data[: hit.start()] + value + data[hit.end() :]
    return data


def separators(data: bytes, rng: random.Random) -> bytes:
    """Characters inside words that are lines to some readers."""
    signs = ("\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\r", "\t", "\0", ESCAPE, "\u202e", "\ufeff")
    sign = rng.choice(signs)
    found = list(re.finditer(rb"[a-z]{4,}", data))
    if not found:
        return data + sign.encode()
    hits = [rng.choice(found)] if rng.random() < 0.5 else found[: rng.randint(1, 40)]
    for hit in reversed(hits):
        data = data[: hit.start() + 2] + sign.encode() + data[hit.start() + 2 :]
    return data


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to all values within a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(p for key, one in inner for p in places(one, (*path, key)))]


_MARK = "@@HERE@@"


def values(data: bytes, rng: random.Random) -> bytes:
    """A value of a JSON or JSON Lines file that becomes another, is left out, doubled or renamed."""
    try:
        text = data.decode()
        rows = text.split("\n") if text.count("\n") > 1 and text.lstrip()[:1] == "{" and text[1:2] != "\n" else [text]
        at = rng.choice([i for i, row in enumerate(rows) if row.strip()])
        found = json.loads(rows[at])
    except (ValueError, IndexError):
        return words(data, rng)
    path = rng.choice(places(found)[:400])
    holder: Any = found
    for key in path[:-1]:
        holder = holder[key]
    way = rng.randrange(8)
    if not path:
        rows[at] = rng.choice(VALUES)
        return "\n".join(rows).encode("utf-8", "surrogatepass")
    if way == 0:
        del holder[path[-1]]
    elif way == 1 and isinstance(holder, dict):
        holder[rng.choice(("", "unknown", "x" * 300, "a\u2028b", "__class__", "clip"))] = holder.pop(path[-1])
    elif way == 2 and isinstance(holder, dict):
        holder["extra_" + str(path[-1])] = holder[path[-1]]
    elif way == 2:
        holder.append(holder[path[-1]])
    else:
        holder[path[-1]] = _MARK
    made = json.dumps(found).replace(f'"{_MARK}"', rng.choice(VALUES))
    rows[at] = made
    return "\n".join(rows).encode("utf-8", "surrogatepass")


TEXT: tuple[Bytes, ...] = (
    values, values, values, values, words, words, words, lines, lines, separators, encoded, encoded, cut, hole, flip,
    deep, wide, empty, binary,
)  # fmt: skip
_BINARY = re.compile(r"\.(hdf5|h5|parquet|arrow|safetensors|pkl|mp4|npz|xz|gz|jpg|png)$")


def spoil(name: str, data: bytes, rng: random.Random) -> tuple[bytes, str]:
    """(a bad version of a file, what was done to it)."""
    way = rng.choice(BINARY if _BINARY.search(name) else TEXT)
    return way(data, rng), way.__name__

"""A small picture and a small sound."""

from __future__ import annotations

import math
import struct
import zlib


def make_png(red: int = 120, width: int = 32, height: int = 24) -> bytes:
    """Return a picture with a gradient."""
    lines = (
        b"\0" + bytes(one for x in range(width) for one in (red % 256, (y * 9) % 256, (x * 7) % 256))
        for y in range(height)
    )
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = (_chunk(b"IHDR", header), _chunk(b"IDAT", zlib.compress(b"".join(lines))), _chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def make_wav(samples: int = 800) -> bytes:
    """Return a tone."""
    body = bytes(int(127 + 100 * math.sin(number / 5)) for number in range(samples))
    rate = struct.pack("<IHHIIHH", 16, 1, 1, 8000, 8000, 1, 8)
    return b"RIFF" + struct.pack("<I", 36 + samples) + b"WAVEfmt " + rate + b"data" + struct.pack("<I", samples) + body

"""
Was this signed by that key? Ed25519 as RFC 8032 defines it, in plain Python integers.

A signature is checked once per update and nothing here is secret, so that a library of compiled code (7 MB of
`cryptography`) would buy speed that nobody waits for: 9 ms. Tests hold it to the RFC's vectors and to that library.
Signing stands with the job that publishes. Points are (X, Y, Z, T) on the twisted Edwards curve, x = X/Z, y = Y/Z,
x y = T/Z.
"""

from __future__ import annotations

import hashlib
from typing import Final

Point = tuple[int, int, int, int]

P: Final = 2**255 - 19
ORDER: Final = 2**252 + 27742317777372353535851937790883648493
D: Final = -121665 * pow(121666, P - 2, P) % P
ROOT: Final = pow(2, (P - 1) // 4, P)
"""A square root of -1."""
NEUTRAL: Final[Point] = (0, 1, 1, 0)
SIZE: Final = 32


def is_signed(public: bytes, message: bytes, *, signature: bytes) -> bool:
    """
    Whether a signature of 64 bytes is that of the key over the message.

    Strict: the scalar lies below the group's order, points are encoded in their only way and are not of small order.
    """
    if len(public) != SIZE or len(signature) != 2 * SIZE:
        return False
    key, point = _decode(public), _decode(signature[:SIZE])
    scalar = int.from_bytes(signature[SIZE:], "little")
    if key is None or point is None or scalar >= ORDER or _same(times(8, key), NEUTRAL):
        return False
    challenge = hash_of(signature[:SIZE] + public + message)
    return _same(times(scalar, BASE), _sum(point, times(challenge, key)))


def hash_of(message: bytes) -> int:
    """SHA-512 below the group's order."""
    return int.from_bytes(hashlib.sha512(message).digest(), "little") % ORDER


def _sum(one: Point, other: Point) -> Point:
    a = (one[1] - one[0]) * (other[1] - other[0]) % P
    b = (one[1] + one[0]) * (other[1] + other[0]) % P
    c, d = 2 * one[3] * other[3] * D % P, 2 * one[2] * other[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def times(scalar: int, point: Point) -> Point:
    """So many times a point."""
    total = NEUTRAL
    while scalar:
        if scalar & 1:
            total = _sum(total, point)
        point, scalar = _sum(point, point), scalar >> 1
    return total


def _same(one: Point, other: Point) -> bool:
    return (one[0] * other[2] - other[0] * one[2]) % P == 0 and (one[1] * other[2] - other[1] * one[2]) % P == 0


def _x_of(y: int, sign: int) -> int | None:
    """The coordinate with that lowest bit; absent = no point of the curve has this y."""
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * ROOT % P
    if (x * x - square) % P or (x == 0 and sign):
        return None
    return P - x if x & 1 != sign else x


def _decode(text: bytes) -> Point | None:
    number = int.from_bytes(text, "little")
    y, sign = number & ((1 << 255) - 1), number >> 255
    x = _x_of(y, sign) if y < P else None
    return None if x is None else (x, y, 1, x * y % P)


_BASE_Y: Final = 4 * pow(5, P - 2, P) % P
_BASE_X: Final = _x_of(_BASE_Y, 0) or 0
BASE: Final[Point] = (_BASE_X, _BASE_Y, 1, _BASE_X * _BASE_Y % P)

"""Was this signed by that key? Ed25519 (RFC 8032), checked by libsodium."""

from __future__ import annotations

import importlib.util

from tonnage.errors import BadRequest


def is_signed(public: bytes, message: bytes, *, signature: bytes) -> bool:
    """
    Whether a signature of 64 bytes is that of the key over the message.

    Strict, as libsodium is: the scalar lies below the group's order, points are encoded in their only way and are not
    of small order.

    Raises
    ------
    BadRequest
        The library is not installed.
    """
    if importlib.util.find_spec("nacl") is None:
        raise BadRequest("checking who signed data needs the 'data' extra: pip install 'tonnage[data]'")
    from nacl.exceptions import CryptoError
    from nacl.signing import VerifyKey

    try:
        VerifyKey(public).verify(message, signature)
    except (CryptoError, ValueError):
        return False
    return True

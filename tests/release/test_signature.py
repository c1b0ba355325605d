"""Ed25519: the vectors of RFC 8032, and signatures that must not pass."""

import pytest
from tools.data_release import public_key, sign

from tonnage.data.archive import is_signed
from tonnage.errors import BadRequest

ORDER = 2**252 + 27742317777372353535851937790883648493
"""Of the group."""

# RFC 8032, section 7.1, tests 1 to 3: secret key, public key, message, signature.
VECTORS = [
    ("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
     "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
     "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"),
    ("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
     "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
     "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"),
    ("c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
     "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
     "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"),
]  # fmt: skip


@pytest.mark.parametrize(("seed", "public", "message", "signature"), VECTORS)
def test_the_vectors_of_the_standard(seed: str, public: str, message: str, signature: str) -> None:
    assert public_key(bytes.fromhex(seed)).hex() == public
    assert sign(bytes.fromhex(seed), bytes.fromhex(message)).hex() == signature
    assert is_signed(bytes.fromhex(public), bytes.fromhex(message), signature=bytes.fromhex(signature))


def test_what_must_not_pass() -> None:
    seed, message = bytes(range(32)), b"a manifest"
    public, signature = public_key(seed), sign(seed, message)
    scalar = int.from_bytes(signature[32:], "little")
    again = signature[:32] + (scalar + ORDER).to_bytes(32, "little")  # the same equation, another text
    flipped = signature[:40] + bytes([signature[40] ^ 1]) + signature[41:]
    neutral = (1).to_bytes(32, "little")  # a key of small order signs everything
    assert is_signed(public, message, signature=signature)
    assert not is_signed(public, message + b".", signature=signature)
    assert not is_signed(public_key(bytes(32)), message, signature=signature)
    assert not any(
        is_signed(public, message, signature=wrong) for wrong in (again, flipped, signature[:-1], b"", bytes(64))
    )
    assert not is_signed(neutral, message, signature=neutral + bytes(32))
    assert not is_signed(b"\xff" * 32, message, signature=signature)


def test_without_the_library_a_release_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(BadRequest, match=r"tonnage\[data\]"):
        is_signed(bytes(32), b"", signature=bytes(64))

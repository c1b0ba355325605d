"""Errors name the nearest thing that works."""

from tonnage.errors import LONGEST_ECHO, TonnageError, UnknownName, echo, echo_path, nearest

KNOWN = ("h100-sxm5-80gb", "h200-sxm-141gb", "a100-sxm4-80gb", "meta-llama/Meta-Llama-3-8B")


def test_suggests_across_punctuation_and_maker() -> None:
    assert nearest("H100_SXM", KNOWN)[0] == "h100-sxm5-80gb"
    assert nearest("llama-3-8b", KNOWN)[0] == "meta-llama/Meta-Llama-3-8B" or "Meta" in nearest("Llama-3-8b", KNOWN)[0]


def test_suggests_what_letters_and_a_number_between_them_stand_for() -> None:
    assert nearest("k8s", ("kserve", "kubernetes", "k3s"))[0] == "kubernetes"
    assert nearest("k9s", ("kubernetes", "vllm")) == ()


def test_message_is_one_short_sentence_for_hostile_names() -> None:
    error = UnknownName("accelerator", "x\n\x00" * 100_000, known=KNOWN)
    assert "\n" not in str(error)
    assert "\x00" not in str(error)
    assert len(str(error)) < 400


def test_a_long_path_keeps_its_end() -> None:
    assert echo_path("own.toml") == "own.toml"
    shown = echo_path("folder/" * 40 + "own.toml")
    assert shown.endswith("/own.toml") and len(shown) == LONGEST_ECHO


def test_echo_is_short_and_printable() -> None:
    assert len(echo("a" * 1000)) == LONGEST_ECHO + 1
    assert echo("ok") == "ok"


def test_a_message_has_two_kilobytes_at_most_in_any_script() -> None:
    assert all(len(str(TonnageError(letter * 3000)).encode()) <= 2000 for letter in "aé模\U0001f600")
    assert str(TonnageError("a" * 2000)) == "a" * 2000

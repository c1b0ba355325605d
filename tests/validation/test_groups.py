"""Labels of rows, and folds that leave whole groups out."""

from tests.validation.samples import point, sample, training

from tonnage_accuracy.grouping import UNKNOWN, group_by, labels_of, leave_out


def test_labels_say_what_a_row_is_about() -> None:
    found = labels_of(point())
    assert (found.engine, found.accelerator, found.precision, found.load) == (
        "vllm",
        "a100-sxm4-80gb",
        "fp16",
        "static_batch",
    )
    assert "llama" in found.family.lower()
    assert labels_of(sample()).load == "closed_loop"
    trained = labels_of(training())
    assert (trained.precision, trained.load) == ("fp8", "pretrain")


def test_what_is_not_stated_says_so() -> None:
    found = labels_of(point(engine=None, model_id=None, accelerator_id=None))
    assert (found.engine, found.model, found.accelerator) == (UNKNOWN, UNKNOWN, UNKNOWN)


def test_each_group_is_left_out_once_and_never_seen() -> None:
    words = ["apple", "avocado", "banana", "cherry", "blueberry"]
    folds = list(leave_out(words, lambda word: word[0]))
    assert [fold[0] for fold in folds] == ["a", "b", "c"]
    for letter, others, own in folds:
        assert all(word[0] == letter for word in own)
        assert sorted(others + own) == sorted(words)
        assert not set(others) & set(own)


def test_groups_keep_their_order() -> None:
    assert group_by([3, 1, 4, 1, 5], lambda number: number % 2) == {1: [3, 1, 1, 5], 0: [4]}

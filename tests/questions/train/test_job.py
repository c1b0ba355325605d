"""What a request comes to: steps, sequences, defaults that are said."""

import pytest

from tonnage import catalog
from tonnage.domain.train_plan import FineTune, Train
from tonnage.errors import BadRequest
from tonnage.questions.train.job import job_of

LLAMA = catalog.model("meta-llama/Llama-2-7b-hf")
BERT = catalog.model("google-bert/bert-base-uncased")


def test_tokens_over_batch_are_steps() -> None:
    job = job_of(Train(model="x", tokens=1e9, seq_len=4096, global_batch=256), LLAMA)
    assert job.steps_of(job.global_batch) == -(-1e9 // (256 * 4096)) and not job.assumed


def test_the_usual_batch_grows_with_the_model_as_published() -> None:
    gpt3 = catalog.model("openai/gpt-3-175b")
    job = job_of(Train(model="x", tokens=300e9, seq_len=2048), gpt3)
    assert job.global_batch in {1024, 2048}  # 3.2 M tokens in arXiv 2005.14165
    small = job_of(Train(model="x", tokens=300e9, seq_len=512), BERT)
    assert small.global_batch * 512 == pytest.approx(0.5e6, rel=0.1)
    assert "global batch not given" in small.assumed[0]


def test_a_short_context_shortens_the_default_sequence() -> None:
    gpt2 = catalog.model("openai-community/gpt2")
    job = job_of(Train(model="x", tokens=1e9), gpt2)
    assert job.seq_len == 1024 and "sequence length not given" in job.assumed[0]


def test_packed_examples_share_sequences() -> None:
    job = job_of(FineTune(model="x", examples=50000, tokens_per_example=800, epochs=3), LLAMA)
    assert job.sequences == pytest.approx(50000 * 800 * 3 / 2048) and job.seq_len == 2048


def test_unpacked_examples_have_a_sequence_each() -> None:
    job = job_of(FineTune(model="x", examples=1000, tokens_per_example=100, epochs=2, packed=False), BERT)
    assert job.sequences == 2000 and job.seq_len == 128


def test_packing_never_goes_beyond_the_model() -> None:
    job = job_of(FineTune(model="x", examples=1000, tokens_per_example=100), BERT)
    assert job.seq_len == 512


def test_images_are_samples_of_their_own() -> None:
    resnet = catalog.model("resnet-50")
    job = job_of(FineTune(model="x", method="full", examples=1000, epochs=2), resnet)
    assert job.sequences == 2000 and job.seq_len == 1


@pytest.mark.parametrize(
    ("request_", "told"),
    [
        (FineTune(model="x", examples=10), "tokens_per_example is missing"),
        (FineTune(model="x", tokens_per_example=10), "examples is missing"),
        (FineTune(model="x", examples=10, tokens_per_example=1e6), "beyond the"),
        (FineTune(model="x", tokens=1e6, packed=False), "packed"),
    ],
)
def test_data_that_is_not_measured_is_asked_for(request_: FineTune, told: str) -> None:
    with pytest.raises(BadRequest, match=told):
        job_of(request_, LLAMA)


def test_a_network_takes_no_tokens() -> None:
    with pytest.raises(BadRequest, match="takes no tokens"):
        job_of(Train(model="x", tokens=1e9), catalog.model("resnet-50"))

"""Step tables agree with the work lists they abbreviate, and overheads act where they say."""

import pytest

from tonnage import catalog
from tonnage.catalog.efficiency import ladder
from tonnage.domain.engine_spec import Overheads, captured_batch
from tonnage.domain.layout import Layout
from tonnage.domain.model import Attention, LatentAttention, LayerGroup, Mlp, Model, Moe
from tonnage.domain.precision import Precision
from tonnage.physics.transformer import Tokens
from tonnage.simulation.closed_loop import Load, burst, static_batch
from tonnage.simulation.step_parts import Placement, encoded_work, parts_of, placed_work, seconds
from tonnage.simulation.steps import MixedStep, step_grid, step_table

ONE, DENSE = Layout(), Mlp(intermediate_size=14336)
MIXER = Attention(num_attention_heads=32, num_key_value_heads=8, head_dim=128)
LATENT = LatentAttention(
    num_attention_heads=32, kv_lora_rank=512, qk_rope_head_dim=64, qk_nope_head_dim=128, v_head_dim=128
)


def placement(*, layout=ONE, mixer=MIXER, feed_forward=DENSE, **changes) -> Placement:
    layer = LayerGroup(count=32, mixer=mixer, feed_forward=feed_forward)
    model = Model(id="m", family="m", kind="llm", hidden_size=4096, vocab_size=128256, layers=(layer,))
    part = catalog.accelerator("h100-sxm5-80gb")
    given = {"model": model, "accelerator": part, "precision": Precision(), "layout": layout, "ladder": ladder(part)}
    return Placement(**(given | changes))


NOTHING = Overheads()


def grid(at: Placement, batch=64.0):
    return step_grid(at, batch=batch, context=4096.0, chunk=8192.0, prompt=2048.0)


@pytest.mark.parametrize(("batch", "context"), [(1, 1024), (16, 3000), (64, 4096)])
def test_a_table_gives_what_the_work_list_gives(batch, context) -> None:
    at = placement()
    work = placed_work(at, Tokens(decodes=batch, context=context, emitted=batch))
    exact = seconds(parts_of(work, at), NOTHING, sequences=batch)
    assert step_table(grid(at), NOTHING).decode_s(batch, context) == pytest.approx(exact, rel=0.06)


def test_beams_decode_as_sequences_and_bring_one_prompt() -> None:
    alone, four = (
        step_table(grid(placement(beams=beams), batch), NOTHING) for beams, batch in ((1.0, 64.0), (4.0, 16.0))
    )
    assert four.decode_s(16, 2000) == pytest.approx(alone.decode_s(64, 2000), rel=1e-6)
    step = {"prompt_tokens": 1024, "prompts": 1, "context": 2000}
    assert four.mixed_step_s(MixedStep(sequences=16, **step)) == pytest.approx(
        alone.mixed_step_s(MixedStep(sequences=64, **step)), rel=0.02
    )
    assert four.mixed_step_s(MixedStep(sequences=0, **step)) == pytest.approx(
        alone.mixed_step_s(MixedStep(sequences=0, **step)), rel=0.02
    )


def test_a_mixed_step_costs_less_than_its_two_halves() -> None:
    found = step_table(grid(placement()), NOTHING)
    together = found.mixed_step_s(MixedStep(prompt_tokens=1024, prompts=1, sequences=32, context=2000))
    alone = found.mixed_step_s(MixedStep(prompt_tokens=1024, prompts=1, sequences=0, context=0))
    assert max(alone, found.decode_s(32, 2000)) < together < alone + found.decode_s(32, 2000)


def test_a_single_stream_of_8b_reads_its_weights_near_the_measured_share_of_bandwidth() -> None:
    # Published runs (LLM-Inference-Bench): H100, fp16, 7-14B reaches 0.56 (vLLM) to 0.62 (TensorRT-LLM) of its
    # 3.35 TB/s at batch 1.
    decode = step_table(grid(placement()), NOTHING).decode_s(1, 512)
    share = 2 * (8.03e9 - 128256 * 4096) / decode / 3.35e12
    assert 0.56 < share < 0.85


def test_host_time_is_hidden_behind_a_longer_step_only() -> None:
    at = placement()
    parts = parts_of(placed_work(at, Tokens(decodes=1, context=100, emitted=1)), at)
    busy = seconds(parts, NOTHING, sequences=1)
    assert seconds(parts, Overheads(hidden_s=busy / 2), sequences=1) == busy
    assert seconds(parts, Overheads(hidden_s=2 * busy), sequences=1) == 2 * busy
    assert seconds(parts, Overheads(step_s=1e-3, sequence_s=1e-4), sequences=10) == pytest.approx(busy + 2e-3)


def test_graph_sizes_pad_a_batch() -> None:
    assert [captured_batch(n) for n in (1, 3, 9, 64, 65, 600)] == [1, 4, 16, 64, 72, 600]


def test_a_pipeline_halves_what_a_stage_carries_and_pays_for_bubbles() -> None:
    two = grid(placement(layout=Layout(pp=2)))
    plain, bubbling = step_table(two, NOTHING), step_table(two, Overheads(bubble=0.1))
    assert bubbling.decode_s(64, 2000) == pytest.approx(1.1 * plain.decode_s(64, 2000))
    assert plain.decode_s(64, 2000) < step_table(grid(placement()), NOTHING).decode_s(64, 2000)


def test_one_prompt_lands_on_one_data_parallel_rank() -> None:
    experts = Moe(num_experts=32, num_experts_per_tok=4, moe_intermediate_size=2048)
    found = step_table(grid(placement(layout=Layout(dp=4, ep=4), feed_forward=experts)), NOTHING)
    one = found.mixed_step_s(MixedStep(prompt_tokens=1024, prompts=1, sequences=64, context=1000))
    four = found.mixed_step_s(MixedStep(prompt_tokens=4096, prompts=4, sequences=64, context=1000))
    assert four < 2.5 * one


def test_a_static_batch_is_prefill_then_steps() -> None:
    found = step_table(grid(placement()), NOTHING)
    answer = static_batch(found, Load(prompt_tokens=1024, output_tokens=129, budget=16384, slots=8), batch=8)
    assert answer.e2e_s == pytest.approx(answer.ttft_s + 128 * answer.tpot_s)
    assert answer.requests_per_s == pytest.approx(8 / answer.e2e_s)


def test_a_burst_beyond_the_slots_takes_more_waves() -> None:
    found = step_table(grid(placement()), NOTHING)
    load = Load(prompt_tokens=512.0, output_tokens=128.0, budget=8192.0, slots=32.0)
    fits, waits = (burst(found, load, requests=requests) for requests in (32, 128))
    assert waits.saturated
    assert waits.e2e_s > 2 * fits.e2e_s
    assert waits.requests_per_s == pytest.approx(fits.requests_per_s, rel=0.15)


def test_an_encoder_pass_of_twice_the_batch_takes_up_to_twice_as_long() -> None:
    at = placement()
    one, two = (
        seconds(parts_of(encoded_work(at, sequences=b, length=512), at), NOTHING, sequences=b) for b in (16, 32)
    )
    assert one < two <= 2.01 * one


def test_a_step_with_prompts_is_no_shorter_than_its_launches() -> None:
    # 32 layers of a few kernels each at 0.1 ms, and 2 ms for each whose mixer is more than one call.
    mixers = (MIXER, LATENT)
    plain, latent = (grid(placement(mixer=mixer)) for mixer in mixers)
    slow = Overheads(prefill_launch_s=1e-4, prefill_mixer_s=2e-3)
    short = {"prompt_tokens": 64, "prompts": 1, "sequences": 0, "context": 0}
    launched = 1e-4 * (plain.mixed[-1].kernels + plain.head[-1].kernels + plain.prefill[-1].kernels)
    assert launched < step_table(plain, slow).mixed_step_s(MixedStep(**short)) < launched + 2e-3
    assert step_table(latent, slow).mixed_step_s(MixedStep(**short)) > launched + 32 * 2e-3
    long = short | {"prompt_tokens": 8192}
    assert step_table(plain, slow).mixed_step_s(MixedStep(**long)) == step_table(plain, NOTHING).mixed_step_s(
        MixedStep(**long)
    )
    assert step_table(plain, slow).decode_s(8, 1000) == step_table(plain, NOTHING).decode_s(8, 1000)


def test_prompts_dealt_from_a_queue_fill_every_rank_alike() -> None:
    found = step_table(grid(placement(layout=Layout(dp=4))), NOTHING)
    four = {"prompt_tokens": 8192, "prompts": 4, "sequences": 0, "context": 0}
    one = found.mixed_step_s(MixedStep(prompt_tokens=2048, prompts=1, sequences=0, context=0))
    assert found.mixed_step_s(MixedStep(**four, dealt=True)) == pytest.approx(one, rel=0.05)
    assert found.mixed_step_s(MixedStep(**four)) > 1.5 * one

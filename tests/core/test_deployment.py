"""One deployment whoever asks: plans and cases see the same engine, kernels, bandwidth and overheads."""

import pytest

from tonnage import catalog
from tonnage.catalog.hub.resolve import resolve
from tonnage.core.deployment import Deployment, with_reachable_bandwidth
from tonnage.core.deployment import resolve as deployment_of
from tonnage.core.kept_replicas import build_replica
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.case import ServeCase, Traffic
from tonnage.domain.engine_spec import Overheads, with_async_scheduling
from tonnage.domain.layout import Engine, Layout
from tonnage.domain.plan import Configuration
from tonnage.domain.precision import Precision
from tonnage.domain.requests.common import Lengths
from tonnage.physics.memory import checkpoint_precision
from tonnage.physics.transformer import Tokens, step_work
from tonnage.questions.predict.predict import predict

MODEL = "meta-llama/Llama-3.1-8B-Instruct"


def planned(part: Accelerator, *, engine: str = "vllm", layout: Layout | None = None) -> Deployment:
    """The deployment of a plan's candidate."""
    model = resolve(MODEL)
    configuration = Configuration(
        accelerator=part.id,
        layout=layout or Layout(),
        precision=checkpoint_precision(model),
        engine=Engine(name=engine),
    )
    lengths = Lengths(prompt_tokens=128, output_tokens=128)
    return build_replica(model=model, accelerator=part, configuration=configuration, lengths=lengths)


def stated(accelerator: str, *, engine: str = "vllm") -> Deployment:
    """The deployment of a case."""
    return deployment_of(
        ServeCase(model=MODEL, accelerator=accelerator, traffic=Traffic(concurrency=4), isl=128, osl=128, engine=engine)
    )


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm", "llamacpp", "hf", "tensorrt"])
@pytest.mark.parametrize("name", ["H100", "H20", "B200", "MI300X", "RTX 4090", "Gaudi 3", "Jetson AGX Orin 64GB"])
def test_plans_and_cases_deploy_alike(engine: str, name: str) -> None:
    part = catalog.accelerator(name)
    mine, theirs = planned(part, engine=engine), stated(part.id, engine=engine)
    assert mine.engine == theirs.engine
    assert mine.overheads == theirs.overheads
    assert mine.pool == theirs.pool
    assert mine.placement.accelerator == theirs.placement.accelerator
    assert mine.placement.ladder.family == theirs.placement.ladder.family
    assert mine.placement.domain == theirs.placement.domain
    assert mine.notes == theirs.notes


def test_layers_spread_over_devices_run_at_the_speed_of_one() -> None:
    part = catalog.accelerator("RTX 4090")

    def layout(engine: str) -> Layout:
        return planned(part, engine=engine, layout=Layout(pp=2)).placement.layout

    assert layout("llamacpp") == Layout() and layout("vllm") == Layout(pp=2)


def test_few_multiprocessors_cannot_ask_for_all_of_a_fast_memory() -> None:
    part = catalog.accelerator("H20")
    assert with_reachable_bandwidth(part, 78, reach=0.0).memory_bytes_per_s == pytest.approx(78 * 36.4e9)
    assert with_reachable_bandwidth(part, 78, reach=0.0).memory_bytes_per_s < 0.75 * part.memory_bytes_per_s
    other = catalog.accelerator("L40S")
    assert with_reachable_bandwidth(other, 142, reach=0.0) is other
    assert with_reachable_bandwidth(other, None, reach=1e9) is other
    assert with_reachable_bandwidth(other, 142, reach=3e9).memory_bytes_per_s < 0.5 * other.memory_bytes_per_s
    assert with_reachable_bandwidth(other, 142, reach=20e9).memory_bytes_per_s > 0.98 * other.memory_bytes_per_s


def test_a_processor_takes_no_factor_of_its_makers_accelerators() -> None:
    def memory(name: str) -> float:
        return planned(catalog.accelerator(name), engine="llamacpp", layout=Layout()).overheads.memory

    assert memory("cpu-epyc-9654") == memory("cpu-xeon-8480") == memory("RX 7900 XTX") == 1.0


@pytest.mark.parametrize(("part", "least", "most"), [("RX 7900 XTX", 85, 127), ("RTX 4090", 100, 180)])
def test_llamacpp_reads_weights_at_the_rate_that_its_kernels_keep_in_flight(part: str, least: int, most: int) -> None:
    """Some 5 GB of weights a token: 105.8 a second measured on 96 compute units (llama.cpp pull 26284)."""
    case = ServeCase(
        model=MODEL,
        accelerator=part,
        traffic=Traffic(batch=1, static=True),
        isl=128,
        osl=128,
        engine="llamacpp",
        precision=Precision(weights="gguf-q4_k_m", kv="fp16", activations="fp16"),
    )
    found = predict(case).tpot_s
    assert least < 1 / found.mean < most


@pytest.mark.parametrize("part", ["T4", "V100 SXM2 16 GB", "RTX 2080 Ti"])
def test_parts_without_bf16_multiply_in_fp16(part: str) -> None:
    """Neither an unstated format, FP16 nor 4-bit weights run at the rate of 32 bits there."""
    accelerator = catalog.accelerator(part)
    assert "bf16" not in accelerator.peaks

    def activations(precision: Precision | None) -> str:
        case = ServeCase(
            model=MODEL, accelerator=part, traffic=Traffic(concurrency=1.0), isl=8.0, osl=8.0, precision=precision
        )
        return deployment_of(case).placement.precision.activations

    assert {activations(p) for p in (None, Precision(weights="fp16"), Precision(weights="gptq"))} == {"fp16"}
    assert activations(Precision(weights="bf16")) == "bf16"
    assert activations(Precision(weights="bf16", experts="int4")) == "fp16"


def test_scheduling_ahead_hides_the_host_and_never_slows() -> None:
    def step_s(ahead: bool) -> float:
        case = ServeCase(
            model=MODEL,
            accelerator="H100",
            traffic=Traffic(concurrency=64),
            isl=512,
            osl=64,
            engine="vllm",
            engine_options={"async_scheduling": ahead},
        )
        found = predict(case)
        return found.tpot_s.mean

    assert step_s(True) < step_s(False)
    known = Overheads(step_s=2e-3, sequence_s=1e-5, rank_s=5e-4)
    assert with_async_scheduling(known, None) == with_async_scheduling(known, False)
    waited = with_async_scheduling(known, False, ranks=8)
    assert waited.step_s == pytest.approx(3.5e-3)
    assert with_async_scheduling(waited, False, ranks=8) == waited, "once settled it stays"
    hidden = with_async_scheduling(known, True, ranks=8)
    assert (hidden.step_s, hidden.hidden_s, hidden.rank_s) == (0.0, pytest.approx(2e-3), 0.0)
    assert hidden.sequence_s == known.sequence_s, "what a sequence costs stays"
    assert with_async_scheduling(hidden, True, ranks=8) == hidden, "once settled it stays"


def test_weights_are_those_of_the_checkpoint_that_is_published_in_that_format() -> None:
    def weights(given: Precision | None, model: str = "deepseek-ai/DeepSeek-R1") -> Deployment:
        case = ServeCase(
            model=model,
            accelerator="b200-sxm-180gb",
            traffic=Traffic(concurrency=8.0),
            isl=512.0,
            osl=512.0,
            layout=Layout(dp=8, ep=8),
            precision=given,
            engine="trtllm",
        )
        return deployment_of(case)

    asked = Precision(weights="nvfp4", activations="nvfp4", kv="fp8")
    found = weights(asked)
    assert (found.placement.precision.weights, found.placement.precision.attention) == ("nvfp4", "bf16")
    assert any("DeepSeek-R1-FP4-v2" in note for note in found.notes)
    # The first release leaves the output of attention wide as well, and shared experts are taken to be.
    first = weights(None, "nvidia/DeepSeek-R1-FP4")
    assert (first.placement.precision.weights, first.placement.precision.experts) == ("bf16", "nvfp4")
    stated = weights(Precision(weights="nvfp4", experts="nvfp4", activations="nvfp4", kv="fp8"))
    narrow, published, wide = (each.pool.memory.value - each.pool.bytes for each in (stated, found, first))
    assert narrow < published < wide
    # Queries and latents of 61 layers: 7168 x 1536 + 1536 x 24576 + 7168 x 576 and keys and values, 11.5 bits each.
    values = 61 * (7168 * 1536 + 1536 * 24576 + 7168 * 576 + 512 * 32768)
    # A tenth of what is free stays free.
    assert published - narrow == pytest.approx(0.9 * values * (16 - 4.5) / 8, rel=0.01)
    assert not any("FP4" in note for note in weights(Precision(weights="fp8_block", activations="fp8_block")).notes)


def test_a_factor_of_links_of_their_own_is_not_for_pcie() -> None:
    """MI300X over Infinity Fabric takes 0.71 of the formula's collectives under vLLM; Radeons have PCIe alone."""
    linked, carded = (planned(catalog.accelerator(name), layout=Layout(tp=4)) for name in ("mi300x", "rx-7900-xtx"))
    assert linked.overheads.collective < 0.75
    assert carded.overheads.collective == 1.0


@pytest.mark.parametrize(("part", "sixteen"), [("t4", "fp16"), ("rtx-6000-turing", "fp16"), ("a100-sxm4-80gb", "bf16")])
def test_what_int8_does_not_multiply_is_fp16_where_units_know_no_bf16(part: str, sixteen: str) -> None:
    """Attention beside INT8 products ran in BF16 of ordinary lanes on Turing, eight times slower than its own FP16."""
    case = ServeCase(
        model="meta-llama/Llama-3.2-1B",
        accelerator=part,
        traffic=Traffic(concurrency=1.0),
        isl=512.0,
        osl=64.0,
        layout=Layout(tp=1),
        precision=Precision(weights="int8"),
        engine="vllm",
    )
    placement = deployment_of(case).placement
    work = step_work(
        placement.model,
        Tokens(prompts=1.0, chunk=512.0),
        precision=placement.precision,
        layout=placement.layout,
        domain=placement.domain,
    )
    assert {op.compute for op in work if op.kind == "attention_prefill"} == {sixteen}
    assert {op.compute for op in work if op.name == "feed-forward up"} == {"int8"}

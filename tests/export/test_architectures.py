"""Every architecture of the catalogue x every training target: written as the model is described, or refused."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.export.train_plans import train_plan
from tests.sweeps import FULL

from tonnage import export
from tonnage.adopt import read_running
from tonnage.catalog.models import models
from tonnage.domain.model import Attention, LayerGroup, Mlp, Model, Moe
from tonnage.errors import BadRequest
from tonnage.questions import launchable as launching
from tonnage.questions.launchable import launchable_option

TARGETS = sorted(name for name, target in export.known_targets().items() if {"train", "finetune"} & set(target.kinds))
LLAMA = "meta-llama/Meta-Llama-3.1-8B"
SAMPLE = 60


@cache
def catalogue() -> tuple[str, ...]:
    every = sorted(models())
    return tuple(every) if FULL else tuple(sorted({LLAMA, *random.Random(26).sample(every, SAMPLE)}))


def on_its_part(target: str) -> dict[str, Any]:
    """An accelerator that the target's framework runs on."""
    vendors = export.known_targets()[target].vendors
    if "nvidia" in vendors:
        return {}
    if "aws" in vendors:
        return {"accelerator": "trainium1", "vendor": "aws", "sharding": "none"}
    return {"accelerator": "tpu-v5p", "vendor": "google", "sharding": "fsdp"}


def exported(name: str, target: str) -> dict[str, str] | str:
    """The files, or why there are none."""
    kinds = export.known_targets()[target].kinds
    plan = train_plan(name, method="pretrain" if "train" in kinds else "full", shape={}, **on_its_part(target))
    try:
        made, option = launchable_option(plan)
        return export.export(made, option, to=target)
    except BadRequest as refused:
        return str(refused)


def test_megatron_flags_read_back_are_the_description() -> None:
    counts: Counter[str] = Counter()
    for name in catalogue():
        found = exported(name, "megatron")
        if isinstance(found, str):
            counts["refused"] += 1
            continue
        counts["written"] += 1
        _same(models()[name], read_running(found["pretrain.sh"], name="pretrain.sh").values(), found["pretrain.sh"])
    print(dict(counts))
    assert counts["written"] and counts["refused"]


def _same(model: Model, flags: dict[str, Any], text: str) -> None:
    group = model.layers[-1]
    assert isinstance(group.mixer, Attention)
    assert flags["num_layers"] == sum(other.count for other in model.layers), model.id
    assert flags["hidden_size"] == model.hidden_size
    assert flags["num_attention_heads"] == group.mixer.num_attention_heads
    assert flags.get("num_query_groups", flags["num_attention_heads"]) == group.mixer.num_key_value_heads
    assert flags["kv_channels"] == group.mixer.head_dim
    assert flags.get("untie_embeddings_and_output_weights", False) is not model.tie_word_embeddings
    assert flags.get("qk_layernorm", False) is group.mixer.qk_norm
    assert ("--add-qkv-bias" in text) is (group.mixer.bias and not group.mixer.output_bias)
    assert flags["swiglu"] and "--normalization RMSNorm" in " ".join(text.split())
    feed = group.feed_forward
    if isinstance(feed, Moe):
        assert (flags["num_experts"], flags["moe_router_topk"]) == (feed.num_experts, feed.num_experts_per_tok)
        assert flags["moe_ffn_hidden_size"] == feed.moe_intermediate_size
    else:
        assert isinstance(feed, Mlp) and flags["ffn_hidden_size"] == feed.intermediate_size
    assert "$ROTARY" in text and "model_flags.py" in text


@pytest.mark.parametrize("target", [name for name in TARGETS if name != "megatron"])
def test_others_name_the_model_or_refuse(target: str) -> None:
    counts: Counter[str] = Counter()
    for name in catalogue():
        found = exported(name, target)
        counts["refused" if isinstance(found, str) else "written"] += 1
        if isinstance(found, dict):
            text = "\n".join(found.values())
            assert name in text or name.rsplit("/", 1)[-1].lower().replace("-", "").replace(
                "meta", ""
            ) in text.lower().replace("_", "").replace("-", "")
    print(target, dict(counts))
    assert counts["written"]


def _bare(text: str) -> str:
    return (
        text.rsplit("/", 1)[-1].lower().translate(str.maketrans("", "", "-_."))
        if "\n" not in text
        else text.lower().translate(str.maketrans("", "", "-_."))
    )


CHANGES: dict[type, dict[str, Any]] = {
    Attention: {"v_head_dim": 64, "window": 4096, "causal": False, "gated": True, "sinks": True, "kv_shared": True,
                "segment_recurrence": True, "key_is_value": True, "index_heads": 1, "index_head_dim": 8,
                "index_topk": 4, "qk_norm_all_heads": True},
    LayerGroup: {"cross_attention": Attention(num_attention_heads=1, num_key_value_heads=1, head_dim=8), "norms": 4,
                 "norm_bias": True, "extra_parameters": 5.0},
    Model: {"encoder": (LayerGroup(count=1),), "towers": (), "embedding_size": 8, "learned_positions": 8,
            "head_bias": True, "head_columns": 4, "has_head": False, "final_norms": 0,
            "norm_bias": True, "extra_parameters": 3.0},
    Moe: {"shared_gate": True, "dense_intermediate_size": 8, "latent_size": 8, "bias": True, "router_bias": True,
          "gated": False},
    Mlp: {"gated": False, "bias": True},
}  # fmt: skip


def _built(changed: type, field: str, value: Any) -> Model:
    """A plain decoder with one field of its description changed."""
    feed: Any = (
        Mlp(intermediate_size=64)
        if changed is not Moe
        else Moe(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=8)
    )
    mixer, more = Attention(num_attention_heads=4, num_key_value_heads=2, head_dim=8), {field: value}
    if changed is Attention:
        mixer = msgspec.structs.replace(mixer, **more)
    if changed in (Moe, Mlp):
        feed = msgspec.structs.replace(feed, **more)
    group = LayerGroup(count=2, mixer=mixer, feed_forward=feed)
    group = msgspec.structs.replace(group, **more) if changed is LayerGroup else group
    model = Model(id="a/b", family="Llama3", kind="llm", hidden_size=32, vocab_size=100, layers=(group,))
    return msgspec.structs.replace(model, **more) if changed is Model else model


@pytest.mark.parametrize("kind", list(CHANGES))
def test_every_field_of_the_description_is_a_flag_or_a_refusal(kind: type) -> None:
    assert launching._shape(
        _built(kind, "count" if kind is LayerGroup else "id", 2 if kind is LayerGroup else "a/b")
        if kind in (LayerGroup, Model)
        else _built(Model, "id", "a/b")
    )
    for field, value in CHANGES[kind].items():
        if value == getattr(kind, field, None) or value == ():
            continue
        assert not launching._shape(_built(kind, field, value)), f"{kind.__name__}.{field} is lost"
    handled = {*CHANGES[kind], *launching.WRITTEN, *launching.BESIDE, "network", "profile", "towers"}
    if kind in (Attention, LayerGroup, Model):
        assert set(kind.__struct_fields__) <= handled, "a new field: give it a flag, or a change that is refused"


def _flags(folder: Path, config: dict[str, Any], *widths: str) -> subprocess.CompletedProcess[str]:
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model_flags.py").write_text(files("tonnage.export").joinpath("data/model_flags.py.txt").read_text())
    argv = [sys.executable, str(folder / "model_flags.py"), str(folder), *widths]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


CONFIG = {
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "rope_theta": 500000.0,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
}
SCALED = {"rope_type": "llama3", "factor": 8.0}


@pytest.mark.parametrize(
    ("changes", "widths", "told"),
    [
        ({}, ("num_hidden_layers=32", "head_dim=128"), "--rotary-base 500000 --norm-epsilon 1e-05"),
        ({"rope_scaling": SCALED}, (), "--use-rope-scaling --rope-scaling-factor 8 --norm-epsilon"),
        ({"rope_theta": None, "rope_parameters": {"rope_theta": 1e6}}, (), "--rotary-base 1000000"),
        ({}, ("num_hidden_layers=31",), "config.json says num_hidden_layers 32, the plan 31"),
        ({"hidden_act": "gelu"}, (), "hidden_act gelu"),
        ({"rope_theta": None}, (), "Megatron-LM would take 10,000"),
        ({"rope_scaling": {"type": "yarn"}}, (), "scales positions by 'yarn'"),
    ],
)  # fmt: skip
def test_what_the_plan_does_not_hold_is_read_from_the_model_itself(
    changes: dict[str, Any], widths: tuple[str, ...], told: str, tmp_path: Path
) -> None:
    done = _flags(tmp_path, {**CONFIG, **changes}, *widths)
    assert told in done.stdout + done.stderr
    assert (done.returncode == 0) is told.startswith("--")


@pytest.mark.parametrize("target", TARGETS)
def test_no_files_for_accelerators_that_the_framework_does_not_run_on(target: str) -> None:
    kinds = export.known_targets()[target].kinds
    other = "h100-sxm5-80gb" if on_its_part(target) else "tpu-v5p"
    plan = train_plan(LLAMA, method="pretrain" if "train" in kinds else "full", accelerator=other, shape={})
    made, option = launchable_option(plan)
    with pytest.raises(BadRequest, match=f"does not run on {other}"):
        export.export(made, option, to=target)


def test_attention_follows_the_accelerator() -> None:
    for part, told in (
        ("t4", "sdpa"),
        ("h100-sxm5-80gb", "flash_attention_2"),
        ("a100-sxm4-80gb", "flash_attention_2"),
    ):
        made, option = launchable_option(train_plan(LLAMA, accelerator=part, shape={}))
        for target, name in (("axolotl", "axolotl.yaml"), ("trl", "sft.yaml")):
            assert f"attn_implementation: {told}" in export.export(made, option, to=target)[name]

"""
Train on AWS Trainium with optimum-neuron as plan.json says; written by Tonnage.

The network is the model's own, loaded (or started anew for pre-training) under the planned split, and the widths that
were planned are held against it. DATA is a data set: an id of the Hub or a folder; for pre-training one that holds
token ids of the planned length (`datasets.save_to_disk`, column input_ids). OUTPUT is a shared folder for checkpoints.
"""

import json
import os
from pathlib import Path

import torch
from datasets import load_dataset, load_from_disk
from optimum.neuron import NeuronSFTConfig, NeuronSFTTrainer, NeuronTrainer, NeuronTrainingArguments
from optimum.neuron.models.training import NeuronModelForCausalLM
from peft import LoraConfig
from transformers import AutoConfig, AutoTokenizer, default_data_collator

PLAN = json.loads(Path(__file__).with_name("plan.json").read_text(encoding="utf-8"))


def checked() -> AutoConfig:
    """The model's own configuration, if it has the planned widths."""
    config = AutoConfig.from_pretrained(PLAN["model"])
    for name, planned in PLAN["widths"].items():
        if getattr(config, name, None) != planned:
            raise SystemExit(f"{PLAN['model']} has {name} {getattr(config, name, None)}, the plan {planned}: plan again")
    return config


def main() -> None:
    config, pretrains = checked(), PLAN["method"] == "pretrain"
    kind = NeuronTrainingArguments if pretrains else NeuronSFTConfig
    own = {} if pretrains else {"max_length": PLAN["seq_length"], "packing": PLAN["packed"]}
    rate = float(os.environ.get("LEARNING_RATE", PLAN["learning_rate"]))
    settings = kind(output_dir=os.environ["OUTPUT"], learning_rate=rate, **PLAN["arguments"], **own)
    if pretrains:
        config.dtype = torch.bfloat16
        model = NeuronModelForCausalLM.from_config(config, settings.trn_config)
        rows = load_from_disk(os.environ["DATA"]).map(lambda row: {"labels": row["input_ids"]})
        if len(rows[0]["input_ids"]) != PLAN["seq_length"]:
            raise SystemExit(f"rows of DATA hold {len(rows[0]['input_ids'])} tokens, the plan {PLAN['seq_length']}")
        trainer = NeuronTrainer(model, settings, train_dataset=rows, data_collator=default_data_collator)
    else:
        model = NeuronModelForCausalLM.from_pretrained(PLAN["model"], settings.trn_config, torch_dtype=torch.bfloat16)
        adapters = LoraConfig(task_type="CAUSAL_LM", **PLAN["adapters"]) if PLAN["adapters"] else None
        trainer = NeuronSFTTrainer(
            model, settings, train_dataset=load_dataset(os.environ["DATA"], split="train"), peft_config=adapters,
            processing_class=AutoTokenizer.from_pretrained(PLAN["model"]),
        )  # fmt: skip
    trainer.train()


if __name__ == "__main__":
    main()

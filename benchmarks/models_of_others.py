"""Models that others wrote: which are traced, what can go from them, and are they still exact?

`python benchmarks/models_of_others.py` builds models of `transformers` small, with weights drawn at
random, and says of each what it found; names of some restrict it to these. Every traced model is
masked at random and made smaller a few times, and compared in double precision with the masked
model itself, on other examples of another number and, where it may be, another length. `--keep`
writes what was found to `results/models.json`, and from there into docs/networks.md.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import transformers as hf
from torch import Tensor, nn

from sparsemble.errors import InputError
from sparsemble.members import compact, masked
from sparsemble.results.tables import Table, put_into
from sparsemble.runs.provenance import provenance
from sparsemble.store import write_json
from sparsemble.tracing import Traced, describe
from sparsemble.tracing.checking import difference, random_masks

ROOT = Path(__file__).parent.parent

Inputs = Callable[[int, int], dict[str, Tensor]]
"""Named inputs of so many examples; of the variant 1 they are longer or shorter than of 0."""


@dataclass(frozen=True)
class Model:
    """A model of others: how it is made, and what it is called with."""

    make: Callable[[], nn.Module]
    inputs: Inputs


def text(batch: int, variant: int) -> dict[str, Tensor]:
    """Numbers of words."""
    return {"input_ids": torch.randint(3, 40, (batch, 7 - 2 * variant))}


def masked_text(batch: int, variant: int) -> dict[str, Tensor]:
    """Words, of which the first of every example count."""
    (words,) = text(batch, variant).values()
    steps = torch.arange(words.shape[1])
    lengths = torch.randint(2, words.shape[1] + 1, (batch, 1))
    return {"input_ids": words, "attention_mask": (steps < lengths).long()}


def picture(size: int, *, larger: int = 0) -> Inputs:
    """Pictures of three channels; `larger` if the model reads other sizes, too."""

    def make(batch: int, variant: int) -> dict[str, Tensor]:
        length = size + larger * variant
        return {"pixel_values": torch.randn(batch, 3, length, length).double()}

    return make


def sound(batch: int, variant: int) -> dict[str, Tensor]:
    """Waves."""
    return {"input_values": torch.randn(batch, 400 + 80 * variant).double()}


SMALL: dict[str, Any] = {
    "vocab_size": 40,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "max_position_embeddings": 32,
    "num_labels": 3,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
DECODER: dict[str, Any] = SMALL | {"num_key_value_heads": 2, "use_cache": False}


def model(kind: str, config: str, **settings: Any) -> Callable[[], nn.Module]:
    """Makes a model from its configuration."""
    return lambda: getattr(hf, kind)(getattr(hf, config)(**settings))


MODELS: dict[str, Model] = {
    "BERT classifier": Model(
        model("BertForSequenceClassification", "BertConfig", **SMALL), masked_text
    ),
    "BERT masked LM": Model(model("BertForMaskedLM", "BertConfig", **SMALL), text),
    "DistilBERT": Model(
        model(
            "DistilBertForSequenceClassification",
            "DistilBertConfig",
            vocab_size=40,
            dim=16,
            n_layers=2,
            n_heads=4,
            hidden_dim=24,
            max_position_embeddings=32,
        ),
        masked_text,
    ),
    "RoBERTa": Model(
        model("RobertaForSequenceClassification", "RobertaConfig", **SMALL), masked_text
    ),
    "ALBERT": Model(
        model("AlbertForSequenceClassification", "AlbertConfig", **SMALL, embedding_size=8),
        masked_text,
    ),
    "ELECTRA": Model(
        model("ElectraForSequenceClassification", "ElectraConfig", **SMALL, embedding_size=8),
        masked_text,
    ),
    "DeBERTa-v2": Model(
        model(
            "DebertaV2ForSequenceClassification",
            "DebertaV2Config",
            **SMALL,
            relative_attention=True,
            pos_att_type=["c2p", "p2c"],
        ),
        text,
    ),
    "MPNet": Model(model("MPNetForSequenceClassification", "MPNetConfig", **SMALL), text),
    "ModernBERT": Model(
        model(
            "ModernBertForSequenceClassification",
            "ModernBertConfig",
            **SMALL,
            cls_token_id=1,
            sep_token_id=2,
            local_attention=4,
        ),
        masked_text,
    ),
    "FNet": Model(model("FNetForSequenceClassification", "FNetConfig", **SMALL), text),
    "Funnel": Model(
        model(
            "FunnelForSequenceClassification",
            "FunnelConfig",
            vocab_size=40,
            d_model=16,
            n_head=4,
            d_head=4,
            d_inner=24,
            block_sizes=[1, 1],
            num_decoder_layers=1,
        ),
        text,
    ),
    "GPT-2": Model(
        model(
            "GPT2LMHeadModel",
            "GPT2Config",
            vocab_size=40,
            n_embd=16,
            n_layer=2,
            n_head=4,
            n_positions=32,
            n_inner=24,
            use_cache=False,
        ),
        text,
    ),
    "OPT": Model(
        model(
            "OPTForCausalLM",
            "OPTConfig",
            **SMALL,
            ffn_dim=24,
            word_embed_proj_dim=16,
            use_cache=False,
        ),
        text,
    ),
    "BLOOM": Model(
        model(
            "BloomForCausalLM",
            "BloomConfig",
            vocab_size=40,
            hidden_size=16,
            n_layer=2,
            n_head=4,
            use_cache=False,
        ),
        text,
    ),
    "GPT-NeoX": Model(model("GPTNeoXForCausalLM", "GPTNeoXConfig", **DECODER), text),
    "GPT-J": Model(
        model(
            "GPTJForCausalLM",
            "GPTJConfig",
            vocab_size=40,
            n_embd=16,
            n_layer=2,
            n_head=4,
            n_positions=32,
            rotary_dim=4,
            n_inner=24,
            use_cache=False,
        ),
        text,
    ),
    "Llama": Model(model("LlamaForCausalLM", "LlamaConfig", **DECODER), text),
    "Qwen2": Model(model("Qwen2ForCausalLM", "Qwen2Config", **DECODER), text),
    "Qwen3": Model(model("Qwen3ForCausalLM", "Qwen3Config", **DECODER, head_dim=4), text),
    "Mistral": Model(
        model("MistralForCausalLM", "MistralConfig", **DECODER, sliding_window=4), text
    ),
    "Gemma": Model(model("GemmaForCausalLM", "GemmaConfig", **DECODER, head_dim=4), text),
    "Gemma 2": Model(
        model("Gemma2ForCausalLM", "Gemma2Config", **DECODER, head_dim=4, sliding_window=4), text
    ),
    "Phi": Model(model("PhiForCausalLM", "PhiConfig", **DECODER), text),
    "Phi-3": Model(model("Phi3ForCausalLM", "Phi3Config", **DECODER), text),
    "StarCoder2": Model(model("Starcoder2ForCausalLM", "Starcoder2Config", **DECODER), text),
    "OLMo 2": Model(model("Olmo2ForCausalLM", "Olmo2Config", **DECODER), text),
    "Cohere": Model(model("CohereForCausalLM", "CohereConfig", **DECODER), text),
    "Falcon": Model(
        model("FalconForCausalLM", "FalconConfig", **DECODER, ffn_hidden_size=24), text
    ),
    "Mixtral": Model(
        model("MixtralForCausalLM", "MixtralConfig", **DECODER, num_local_experts=3), text
    ),
    "Llama, with its cache": Model(
        model("LlamaForCausalLM", "LlamaConfig", **DECODER | {"use_cache": True}), text
    ),
    "Mamba": Model(
        model(
            "MambaForCausalLM",
            "MambaConfig",
            vocab_size=40,
            hidden_size=16,
            state_size=4,
            num_hidden_layers=2,
            time_step_rank=3,
            use_cache=False,
        ),
        text,
    ),
    "RWKV": Model(
        model(
            "RwkvForCausalLM",
            "RwkvConfig",
            vocab_size=40,
            hidden_size=16,
            attention_hidden_size=16,
            num_hidden_layers=2,
            intermediate_size=24,
            use_cache=False,
        ),
        text,
    ),
    "T5 encoder": Model(
        model(
            "T5EncoderModel",
            "T5Config",
            vocab_size=40,
            d_model=16,
            d_kv=4,
            d_ff=24,
            num_layers=2,
            num_heads=4,
        ),
        text,
    ),
    "T5": Model(
        model(
            "T5ForConditionalGeneration",
            "T5Config",
            vocab_size=40,
            d_model=16,
            d_kv=4,
            d_ff=24,
            num_layers=2,
            num_heads=4,
            use_cache=False,
        ),
        lambda b, v: text(b, v) | {"decoder_input_ids": text(b, 1 - v)["input_ids"]},
    ),
    "BART": Model(
        model(
            "BartForConditionalGeneration",
            "BartConfig",
            vocab_size=40,
            d_model=16,
            encoder_layers=2,
            decoder_layers=2,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=24,
            decoder_ffn_dim=24,
            max_position_embeddings=32,
            use_cache=False,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=2,
        ),
        lambda b, v: text(b, v) | {"decoder_input_ids": text(b, 1 - v)["input_ids"]},
    ),
    "ViT": Model(
        model("ViTForImageClassification", "ViTConfig", **SMALL, image_size=16, patch_size=4),
        picture(16),
    ),
    "DeiT": Model(
        model("DeiTForImageClassification", "DeiTConfig", **SMALL, image_size=16, patch_size=4),
        picture(16),
    ),
    "DINOv2": Model(
        model("Dinov2ForImageClassification", "Dinov2Config", **SMALL, image_size=16, patch_size=4),
        picture(16),
    ),
    "BEiT": Model(
        model(
            "BeitForImageClassification",
            "BeitConfig",
            **SMALL,
            image_size=16,
            patch_size=4,
            use_relative_position_bias=True,
        ),
        picture(16),
    ),
    "Swin": Model(
        model(
            "SwinForImageClassification",
            "SwinConfig",
            image_size=16,
            patch_size=2,
            embed_dim=8,
            depths=[2, 1],
            num_heads=[2, 4],
            window_size=4,
            num_labels=3,
        ),
        picture(16),
    ),
    "ConvNeXt": Model(
        model(
            "ConvNextForImageClassification",
            "ConvNextConfig",
            hidden_sizes=[8, 12],
            depths=[1, 1],
            num_stages=2,
            num_labels=3,
        ),
        picture(32, larger=8),
    ),
    "ConvNeXt V2": Model(
        model(
            "ConvNextV2ForImageClassification",
            "ConvNextV2Config",
            hidden_sizes=[8, 12],
            depths=[1, 1],
            num_stages=2,
            num_labels=3,
        ),
        picture(32, larger=8),
    ),
    "ResNet": Model(
        model(
            "ResNetForImageClassification",
            "ResNetConfig",
            embedding_size=8,
            hidden_sizes=[16, 24],
            depths=[1, 2],
            num_labels=3,
        ),
        picture(32, larger=8),
    ),
    "RegNet": Model(
        model(
            "RegNetForImageClassification",
            "RegNetConfig",
            embedding_size=8,
            hidden_sizes=[8, 16],
            depths=[1, 1],
            groups_width=4,
            num_labels=3,
        ),
        picture(32, larger=8),
    ),
    "MobileNetV1": Model(
        model(
            "MobileNetV1ForImageClassification",
            "MobileNetV1Config",
            depth_multiplier=0.25,
            image_size=32,
            num_labels=3,
        ),
        picture(32, larger=32),
    ),
    "MobileNetV2": Model(
        model(
            "MobileNetV2ForImageClassification",
            "MobileNetV2Config",
            depth_multiplier=0.25,
            image_size=32,
            num_labels=3,
        ),
        picture(32, larger=32),
    ),
    "EfficientNet": Model(
        model(
            "EfficientNetForImageClassification",
            "EfficientNetConfig",
            width_coefficient=0.25,
            depth_coefficient=0.2,
            image_size=32,
            hidden_dim=320,
            num_labels=3,
        ),
        picture(32),
    ),
    "PoolFormer": Model(
        model(
            "PoolFormerForImageClassification",
            "PoolFormerConfig",
            depths=[1, 1],
            hidden_sizes=[8, 12],
            num_encoder_blocks=2,
            patch_sizes=[7, 3],
            strides=[4, 2],
            padding=[2, 1],
            num_labels=3,
        ),
        picture(32, larger=8),
    ),
    "SegFormer": Model(
        model(
            "SegformerForSemanticSegmentation",
            "SegformerConfig",
            num_encoder_blocks=2,
            depths=[1, 1],
            sr_ratios=[2, 1],
            hidden_sizes=[8, 16],
            patch_sizes=[7, 3],
            strides=[4, 2],
            num_attention_heads=[2, 4],
            mlp_ratios=[2, 2],
            decoder_hidden_size=12,
            num_labels=3,
        ),
        picture(32, larger=16),
    ),
    "CvT": Model(
        model(
            "CvtForImageClassification",
            "CvtConfig",
            embed_dim=[8, 16],
            depth=[1, 2],
            num_heads=[2, 4],
            num_stages=2,
            patch_sizes=[7, 3],
            patch_stride=[4, 2],
            patch_padding=[2, 1],
            mlp_ratio=[2.0, 2.0],
            cls_token=[False, True],
            attention_drop_rate=[0.0, 0.0],
            drop_rate=[0.0, 0.0],
            drop_path_rate=[0.0, 0.1],
            qkv_bias=[True, True],
            qkv_projection_method=["dw_bn", "dw_bn"],
            kernel_qkv=[3, 3],
            padding_kv=[1, 1],
            stride_kv=[2, 2],
            padding_q=[1, 1],
            stride_q=[1, 1],
            num_labels=3,
        ),
        picture(32),
    ),
    "wav2vec 2.0": Model(
        model(
            "Wav2Vec2ForSequenceClassification",
            "Wav2Vec2Config",
            **SMALL,
            conv_dim=[8, 8],
            conv_stride=[5, 2],
            conv_kernel=[10, 3],
            num_conv_pos_embeddings=4,
            num_conv_pos_embedding_groups=2,
            classifier_proj_size=12,
            mask_time_prob=0.0,
            layerdrop=0.0,
        ),
        sound,
    ),
    "AST": Model(
        model(
            "ASTForAudioClassification",
            "ASTConfig",
            **SMALL,
            max_length=32,
            num_mel_bins=16,
            patch_size=8,
            frequency_stride=8,
            time_stride=8,
        ),
        lambda b, v: {"input_values": torch.randn(b, 32, 16).double()},
    ),
    "Whisper classifier": Model(
        model(
            "WhisperForAudioClassification",
            "WhisperConfig",
            vocab_size=40,
            d_model=16,
            encoder_layers=2,
            encoder_attention_heads=4,
            encoder_ffn_dim=24,
            num_mel_bins=8,
            max_source_positions=20,
            classifier_proj_size=12,
            num_labels=3,
            decoder_layers=1,
            decoder_attention_heads=4,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=2,
        ),
        lambda b, v: {"input_features": torch.randn(b, 8, 40).double()},
    ),
    "CLIP vision": Model(
        model("CLIPVisionModel", "CLIPVisionConfig", **SMALL, image_size=16, patch_size=4),
        picture(16),
    ),
    "BERT decoder": Model(
        model("BertLMHeadModel", "BertConfig", **SMALL, is_decoder=True, use_cache=False), text
    ),
    "PatchTST": Model(
        model(
            "PatchTSTForClassification",
            "PatchTSTConfig",
            num_input_channels=3,
            context_length=16,
            patch_length=4,
            patch_stride=4,
            d_model=16,
            ffn_dim=24,
            num_attention_heads=4,
            num_hidden_layers=2,
            num_targets=3,
        ),
        lambda b, v: {"past_values": torch.randn(b, 16, 3).double()},
    ),
}


def traced(own: Model, *, seed: int = 0) -> tuple[nn.Module, Traced]:
    """A model in double precision, and what tracing says of it."""
    torch.manual_seed(seed)
    network = own.make().double().eval()
    with torch.no_grad():  # biases and scales that are not all alike
        for parameter in network.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return network, describe(network, **own.inputs(3, 0))


def worst_difference(
    own: Model, network: nn.Module, described: Traced, *, maskings: int = 6, variants: int = 2
) -> tuple[float, set[int]]:
    """Of masked models and their compact programs, relative to the largest output.

    Beside it the variants of inputs that were compared: a model, or its program, may refuse some.
    """
    generator = torch.Generator().manual_seed(1)
    tensors = dict(network.named_parameters()) | dict(network.named_buffers())
    worst, compared = 0.0, set()
    for number in range(maskings):
        masks = random_masks(described.layout, tensors, generator)
        member = compact(described.program.eval(), described.layout, masks)
        whole = masked(network, masks).eval()
        for variant in range(variants):
            inputs = own.inputs(2 + number % 3, variant)
            try:
                expected = whole(**inputs)
            except (RuntimeError, ValueError, IndexError):
                continue  # of another length than the model itself allows
            with torch.no_grad():
                try:
                    found = member.network(**inputs)
                except InputError:
                    assert variant, "the length it was traced with"
                    continue
                worst = max(worst, difference(expected, found))
                compared.add(variant)
    return worst, compared


def removable(described: Traced) -> str:
    """How many units may go, by kind."""
    counts: dict[str, int] = {}
    for space in described.layout.spaces:
        if space.kind.may_go:
            noun = "inputs" if space.kind.value == "input" else space.noun
            counts[noun] = counts.get(noun, 0) + space.size
    return ", ".join(f"{count} {noun}" for noun, count in sorted(counts.items())) or "none"


@dataclass(frozen=True)
class Finding:
    """What tracing found in a model."""

    model: str
    seconds: float
    refused: str = ""
    """Why it was, if it was."""
    units: str = ""
    """That may go."""
    difference: float = 0.0
    """At worst, of compact programs and masked models, relative to the largest output."""
    other_length: bool = False
    """Were inputs of another length compared as well?"""

    def __str__(self) -> str:
        """For the terminal."""
        found = f"refused: {self.refused}" if self.refused else f"{self.units} may go"
        return f"{self.model}: {found} ({self.seconds:.0f} s)"


def find(name: str, own: Model) -> Finding:
    """Trace a model, and compare it with what is left of it."""
    start = time.perf_counter()
    try:
        network, described = traced(own)
    except InputError as error:
        why, _, _ = str(error).partition("; at ")
        return Finding(name, time.perf_counter() - start, refused=why)
    seconds = time.perf_counter() - start
    worst, compared = worst_difference(own, network, described)
    shapes = [{k: x.shape for k, x in own.inputs(2, variant).items()} for variant in compared]
    return Finding(
        name,
        seconds,
        units=removable(described),
        difference=worst,
        other_length=any(shape != shapes[0] for shape in shapes),
    )


def table(findings: list[Finding]) -> Table:
    """For the documentation."""
    traced = sum(not own.refused for own in findings)
    rows = [
        (own.model, f"refused: {own.refused}", "–", "–")
        if own.refused
        else (
            own.model,
            own.units,
            f"{own.difference:.0e}" if own.difference else "0",
            "yes" if own.other_length else "no",
        )
        for own in findings
    ]
    title = f"{traced} of {len(findings)} models of transformers {hf.__version__} were traced:"
    header = ("Model, built small", "Units that may go", "Largest difference", "Any length")
    return Table(title, header, tuple(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of models; all if none is given")
    parser.add_argument("--keep", action="store_true", help="write them into results and docs")
    chosen = parser.parse_args()
    findings = []
    for name in chosen.names or MODELS:
        findings.append(find(name, MODELS[name]))
        print(findings[-1], flush=True)
    if chosen.keep:
        origin = provenance() | {"transformers": hf.__version__}
        kept = {"models": list(map(asdict, findings)), "provenance": origin}
        write_json(ROOT / "results" / "models.json", kept)
        put_into(ROOT / "docs" / "networks.md", "models", [table(findings)])


if __name__ == "__main__":
    main()

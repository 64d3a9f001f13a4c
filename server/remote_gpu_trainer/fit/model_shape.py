"""The shape of a transformer, and how many weights follow from it."""

from __future__ import annotations

from dataclasses import dataclass

from .weight_formulas import Weights


@dataclass(frozen=True)
class Model:
    """The shape of a transformer.

    `gated`: layers multiply two products, as SwiGLU does. `norm` is "rms", "gemma" (RMS in fp32) or
    "layer", and `norms` is how many a layer has. `head_norms`: queries and keys are normalized too.
    `kept_by_act` is how many tensors of the layer's width the activation keeps, `powers_by_act` how
    many of them autocast leaves in fp32 because the activation takes a power. `chosen` of
    `experts` work on each token (0: no experts). `tied`: the head is the table of embeddings.
    `positions` is the number of learned positions. `longest` is the most tokens that a sample can
    have, and `made_for` up to which its positions reach: each 0 where nothing says it. `dropout`
    and `attention_dropout` say whether there is any. `encoder` is the number of layers of an
    encoder beside the `layers` of a decoder.
    `head`: the model predicts words, and `loss_in_fp32`: it widens them first. `capped_scores`
    and `capped_words`: a tanh bounds attention's scores, and the logits. `layer_scales`: learned
    factors scale what both parts of a layer give. `weights` is the number of weights that the user
    gave, 0 to count them. `counted` are the weights as transformers counts them, None where its
    shapes aren't known and the fields above give them; `guessed` is then the reason. `own_code` is
    the type of a model that brings its code, whose layers are known all the same. `kind`: the
    model_type of its config, "" where it has none. `linear_experts`: each matrix of an expert is
    an nn.Linear, as in transformers 4. `unknown`
    names the parts that aren't counted, `on_top` those of them by which the estimate is too low.
    `tokens` is how many an image makes, 0 where a text has any number. `encoder_tokens` is how many
    the encoder gets of each sample, 0 for as many as the decoder. `tower` is a second model beside
    this one that sees each sample's image, as CLIP has it.
    """

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    gated: bool = True
    norm: str = "rms"
    norms: int = 2
    head_norms: bool = False
    kept_by_act: int = 1
    powers_by_act: int = 0
    relu: bool = False
    experts: int = 0
    chosen: int = 0
    tied: bool = False
    positions: int = 0
    longest: int = 0
    made_for: int = 0
    dropout: bool = False
    attention_dropout: bool = False
    encoder: int = 0
    head: bool = True
    loss_in_fp32: bool = True
    capped_scores: bool = False
    capped_words: bool = False
    layer_scales: bool = False
    weights: int = 0
    counted: Weights | None = None
    guessed: str = ""
    own_code: str = ""
    kind: str = ""
    linear_experts: bool = False
    tokens: int = 0
    encoder_tokens: int = 0
    tower: Model | None = None
    unknown: tuple[str, ...] = ()
    on_top: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        """Return the width of all heads together."""
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Return the width of all key or value heads together."""
        return self.kv_heads * self.head_dim

    @property
    def products(self) -> int:
        """Return how many matrices a layer has beside those of its attention, for one expert."""
        return 3 if self.gated else 2

    def attention_weights(self) -> int:
        """Return the number of weights in one attention."""
        return self.hidden * (2 * self.width + 2 * self.kv_width)

    def layer_weights(self) -> int:
        """Return the number of weights in one layer's matrices."""
        if self.counted:
            return self.linear() // max(1, self.depth())
        products = self.products * self.hidden * self.intermediate
        router = self.hidden * self.experts
        return self.attention_weights() + products * max(self.experts, 1) + router

    def linear(self) -> int:
        """Return the number of weights in the matrices of all layers."""
        if self.counted:
            return self.counted.matrices + self.counted.experts
        cross = self.layers * self.attention_weights() if self.encoder else 0
        return self.depth() * self.layer_weights() + cross

    def expert_weights(self) -> int:
        """Return the number of weights in the matrices of all experts."""
        if self.counted:
            return self.counted.experts
        return self.layers * self.products * self.hidden * self.intermediate * self.experts

    def layers_with_experts(self) -> int:
        """Return the number of layers that have experts, of a model that has any."""
        return self.layers - (self.counted.without_experts if self.counted else 0)

    def quantizable(self) -> int:
        """Return the number of weights that bitsandbytes quantizes: what is an `nn.Linear`.

        Experts aren't in transformers 5, which has them as parameters of three sides in every known
        type.
        """
        return self.linear() - (0 if self.linear_experts else self.expert_weights())

    def adapted_sides(self) -> int:
        """Return what LoRA's rank multiplies where peft adapts all linear layers."""
        assert self.counted
        if not self.linear_experts:
            return self.counted.sides
        layers, size = self.layers_with_experts(), self.hidden + self.intermediate
        routers = 0 if self.counted.experts_adapted else self.hidden + self.experts
        own = layers * (self.experts * self.products * size + routers)
        return self.counted.sides - self.counted.expert_sides + own

    def table(self) -> int:
        """Return the number of weights in the table of words, which is also the size of a head."""
        return self.vocab * self.hidden

    def tables(self) -> int:
        """Return the number of weights in the embeddings and the head."""
        if self.counted:
            return self.counted.tables + self.counted.head
        words = self.table() * (1 if self.tied or not self.head else 2)
        return words + self.positions * self.hidden

    def total(self) -> int:
        """Return the number of weights: the given one if there is one."""
        if self.counted:
            return self.weights or self.counted.total
        norms = self.depth() * self.hidden * self.norms
        return self.weights or self.linear() + self.tables() + norms

    def depth(self) -> int:
        """Return the number of layers, those of an encoder too."""
        return self.layers + self.encoder

"""GPT-2 and Llama from their formulas, with torch.nn.functional and autograd, over weights in a dictionary under Hugging
Face's names: what our stages are compared with."""
import torch
import torch.nn.functional as F


class Transformer:
    def __init__(self, kind, layers, width, heads, kv_heads, hidden, context, vocabulary, tied, base=1e4, epsilon=1e-5):
        self.kind, self.layers, self.width, self.heads, self.kv_heads = kind, layers, width, heads, kv_heads
        self.hidden, self.context, self.vocabulary, self.tied = hidden, context, vocabulary, tied
        self.base, self.epsilon = base, epsilon

    def shapes(self):
        """Names in Hugging Face's order, and shapes."""
        w, f, k = self.width, self.hidden, self.width // self.heads * self.kv_heads
        if self.kind == "gpt2":
            shapes = {"wte.weight": (self.vocabulary, w), "wpe.weight": (self.context, w)}
            for layer in range(self.layers):
                for part, inputs, outputs in [("ln_1", 0, w), ("attn.c_attn", w, 3 * w), ("attn.c_proj", w, w),
                                              ("ln_2", 0, w), ("mlp.c_fc", w, f), ("mlp.c_proj", f, w)]:
                    shapes[f"h.{layer}.{part}.weight"] = (inputs, outputs) if inputs else (outputs,)
                    shapes[f"h.{layer}.{part}.bias"] = (outputs,)
            return shapes | {"ln_f.weight": (w,), "ln_f.bias": (w,)}
        shapes = {"model.embed_tokens.weight": (self.vocabulary, w)}
        for layer in range(self.layers):
            h = f"model.layers.{layer}."
            shapes |= {f"{h}self_attn.{p}_proj.weight": s for p, s in zip("qkvo", [(w, w), (k, w), (k, w), (w, w)])}
            shapes |= {f"{h}mlp.gate_proj.weight": (f, w), f"{h}mlp.up_proj.weight": (f, w),
                       f"{h}mlp.down_proj.weight": (w, f)}
            shapes |= {f"{h}{p}_layernorm.weight": (w,) for p in ("input", "post_attention")}
        return shapes | {"model.norm.weight": (w,)} | ({} if self.tied else {"lm_head.weight": (self.vocabulary, w)})

    def logits(self, w, tokens):
        """tokens [sequences][context] to [sequences][context][vocabulary]."""
        return self._gpt2(w, tokens) if self.kind == "gpt2" else self._llama(w, tokens)

    def _attention(self, q, k, v):
        size, (sequences, context, _) = self.width // self.heads, q.shape
        q, k, v = (y.view(sequences, context, -1, size).transpose(1, 2) for y in (q, k, v))
        if self.kind == "llama":
            q, k = self._turn(q), self._turn(k)
        k, v = (y.repeat_interleave(self.heads // self.kv_heads, dim=1) for y in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).reshape(sequences, context, self.width)

    def _turn(self, x):
        """Rotary positions as transformers' apply_rotary_pos_emb: x cos + rotate_half(x) sin."""
        size = x.shape[-1]
        frequency = self.base ** -(torch.arange(0, size, 2).double() / size)
        angle = torch.outer(torch.arange(x.shape[-2]).double(), frequency).repeat(1, 2)
        half = torch.cat((-x[..., size // 2:], x[..., :size // 2]), dim=-1)
        return x * angle.cos() + half * angle.sin()

    def _gpt2(self, w, tokens):
        norm = lambda x, name: F.layer_norm(x, (self.width,), w[name + ".weight"], w[name + ".bias"], 1e-5)
        linear = lambda x, name: x @ w[name + ".weight"] + w[name + ".bias"]
        x = w["wte.weight"][tokens] + w["wpe.weight"]
        for layer in range(self.layers):
            h = f"h.{layer}."
            qkv = linear(norm(x, h + "ln_1"), h + "attn.c_attn").split(self.width, dim=2)
            x = x + linear(self._attention(*qkv), h + "attn.c_proj")
            x = x + linear(F.gelu(linear(norm(x, h + "ln_2"), h + "mlp.c_fc"), approximate="tanh"), h + "mlp.c_proj")
        return norm(x, "ln_f") @ w["wte.weight"].T

    def _llama(self, w, tokens):
        norm = lambda x, name: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + self.epsilon) * w[name + ".weight"]
        linear = lambda x, name: F.linear(x, w[name + ".weight"])
        x = w["model.embed_tokens.weight"][tokens]
        for layer in range(self.layers):
            h = f"model.layers.{layer}."
            y = norm(x, h + "input_layernorm")
            y = self._attention(*(linear(y, f"{h}self_attn.{p}_proj") for p in "qkv"))
            x = x + linear(y, h + "self_attn.o_proj")
            y = norm(x, h + "post_attention_layernorm")
            x = x + linear(F.silu(linear(y, h + "mlp.gate_proj")) * linear(y, h + "mlp.up_proj"), h + "mlp.down_proj")
        return linear(norm(x, "model.norm"), "model.embed_tokens" if self.tied else "lm_head")

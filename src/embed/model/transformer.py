#!/usr/bin/env python3
"""Works out, in double precision, what a small made-up BERT gives: the right values of the tests in ../transformer.rs.

  pip install numpy
  transformer.py            the made-up model of the test
  transformer.py DIR        all-MiniLM-L6-v2 from DIR (also: pip install safetensors tokenizers): three cosines
"""
import json, math, sys
import numpy as np

SHAPE = {"hidden": 12, "heads": 3, "layers": 2, "wide": 20, "positions": 16, "eps": 1e-12}
TEXTS = [[2, 4, 5, 3], [2, 5, 4, 3], [2, 4, 6, 7, 8, 3], [2] + [4, 5, 6, 7, 8, 9] * 2 + [4, 5] + [3]]


def made_up():
    h, w = SHAPE["hidden"], SHAPE["wide"]
    shapes = {"embeddings.word_embeddings.weight": (10, h), "embeddings.position_embeddings.weight": (SHAPE["positions"], h),
              "embeddings.token_type_embeddings.weight": (2, h), "embeddings.LayerNorm.weight": (h,), "embeddings.LayerNorm.bias": (h,)}
    for i in range(SHAPE["layers"]):
        p = f"encoder.layer.{i}."
        for name, o, n in [("attention.self.query", h, h), ("attention.self.key", h, h), ("attention.self.value", h, h),
                           ("attention.output.dense", h, h), ("intermediate.dense", w, h), ("output.dense", h, w)]:
            shapes[p + name + ".weight"], shapes[p + name + ".bias"] = (o, n), (o,)
        for name in ["attention.output.LayerNorm", "output.LayerNorm"]:
            shapes[p + name + ".weight"], shapes[p + name + ".bias"] = (h,), (h,)
    arrays = {}
    for k, name in enumerate(sorted(shapes)):
        n = math.prod(shapes[name])
        a = np.sin(k * 1.3 + np.arange(n) * 0.7) * 0.5 + (1.0 if name.endswith("LayerNorm.weight") else 0.0)
        arrays[name] = a.astype(np.float32).astype(np.float64).reshape(shapes[name])
    return arrays


def forward(a, ids, heads, layers, eps):
    def norm(x, name):
        m, v = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - m) / np.sqrt(v + eps) * a[name + ".weight"] + a[name + ".bias"]

    def linear(x, name):
        return x @ a[name + ".weight"].T + a[name + ".bias"]

    e = "embeddings."
    x = a[e + "word_embeddings.weight"][ids] + a[e + "position_embeddings.weight"][:len(ids)] + a[e + "token_type_embeddings.weight"][0]
    x = norm(x, e + "LayerNorm")
    n, h = x.shape
    erf = np.vectorize(math.erf)
    for i in range(layers):
        p = f"encoder.layer.{i}."
        q, k, v = (linear(x, p + "attention.self." + s).reshape(n, heads, -1).transpose(1, 0, 2) for s in ("query", "key", "value"))
        s = q @ k.transpose(0, 2, 1) / math.sqrt(h // heads)
        s = np.exp(s - s.max(-1, keepdims=True))
        s /= s.sum(-1, keepdims=True)
        x = norm(x + linear((s @ v).transpose(1, 0, 2).reshape(n, h), p + "attention.output.dense"), p + "attention.output.LayerNorm")
        y = linear(x, p + "intermediate.dense")
        y = y / 2 * (1 + erf(y / math.sqrt(2)))
        x = norm(x + linear(y, p + "output.dense"), p + "output.LayerNorm")
    m = x.mean(0)
    return m / np.linalg.norm(m)


def main():
    if len(sys.argv) == 1:
        a = made_up()
        for ids in TEXTS:
            print(ids, [round(float(x), 6) for x in forward(a, ids, SHAPE["heads"], SHAPE["layers"], SHAPE["eps"])])
        return
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer
    a = {k: v.astype(np.float64) for k, v in load_file(sys.argv[1] + "/model.safetensors").items() if v.dtype == np.float32}
    t = Tokenizer.from_file(sys.argv[1] + "/tokenizer.json")
    t.no_padding()
    v = [forward(a, t.encode(s).ids, 12, 6, 1e-12) for s in ("hello world", "a cat sat on the mat", "the feline rested on the rug")]
    print([round(float(x), 6) for x in v[0][:6]], v[0] @ v[1], v[0] @ v[2], v[1] @ v[2])


if __name__ == "__main__":
    main()

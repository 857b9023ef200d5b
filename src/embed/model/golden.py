#!/usr/bin/env python3
"""Works out golden.json, the right values of the tests, with other programs than ours.

  pip install numpy safetensors tokenizers
  golden.py > golden.json

Pieces are those of Hugging Face's tokenizers; vectors are computed in double precision by the rule in
../static_model.rs: pieces of other scripts and the unknown are left out, and a text with more of them than of words,
or without a word, has no vector.
"""
import json, os
import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

HERE = os.path.dirname(os.path.abspath(__file__))
TEXTS = [
    "", " \t\n", "a", "how does the user travel to work",
    "Rides a bicycle to the office every morning.", "The bike commute takes twenty minutes.",
    "Quarterly budget review with the finance team", "def parse_http_request(self, url): return url.split('://')[1]",
    "snake_case kebab-case CamelCase HTTPServer v0.4.2 3.14 1,000", "don't stop the U.S. e-mail: x@y.org",
    "Café naïve Zürich SMØRREBRØD Łódź straße", "e\u0301cole co\u00f6perate \ufb01ne \u212bngstr\u00f6m",
    "\u0130stanbul \u0131\u015f\u0131k", "zero\u200bwidth soft\u00adhyphen non\u00a0breaking \ufeffbom", "tab\tnew\nline\rreturn\x0bvt\x0cff\x85nel\u2028ls",
    "null\x00replacement\ufffdprivate\ue000use", "\u4f7f\u7528JWT\u4ee4\u724c", "\u6211\u559c\u6b22\u7528Rust\u5199\u4ee3\u7801 hello\u4e16\u754c",
    "\u6771\u4eac\u90fd\u5e81\u306e\u4f1a\u8b70", "\ud68c\uc758\ub85d\uc744 \uacf5\uc720", "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440", "\u03a3\u039f\u03a6\u039f\u03a3 \u03c3\u03bf\u03c6\u03cc\u03c2", "\u0905\u0928\u0941\u0935\u093e\u0926 \u0643\u062a\u0627\u0628",
    "\U0001f6b2", "\U0001f6b2 bike", "\U0001f469\u200d\U0001f4bb writes code", "\uff21\uff22\uff23\uff11\uff12\uff13 ABC123",
    "!!! ??? ...", "1 2 3", "x" * 100, "x" * 101, "[CLS] [SEP] [UNK] [MASK] ##ing ## #tag",
    "`code` **bold** [[Wiki Link|alias]] <tag> $x^2$ a|b ~n \\ \"q\"", "\u201cquoted\u201d \u2014 dash\u2026 \u00bfqu\u00e9? \u00a1s\u00ed! \u3002\u3001",
    "\u00bd \u00b2 \u00b5m \u2122 \u20ac5 \u00a310", "\ufa0e\uf900 \u3400 \U00020000 \U0002b820 \U0002b920", "\u1e9e \u01c5 \ufb03", "a\u0300\u0301\u0302 \u0345 \u0488",
    "the " * 400,
]
PAIRS = [(3, 4), (3, 5), (3, 6), (4, 5), (7, 8)]


def main():
    tokenizer = Tokenizer.from_file(f"{HERE}/tokenizer.json")
    tokenizer.no_padding()
    tokenizer.no_truncation()
    # Names of marks in a text are text here, not marks.
    file = json.loads(tokenizer.to_str())
    file["added_tokens"] = []
    file["post_processor"] = None
    tokenizer = Tokenizer.from_str(json.dumps(file))
    tensors = load_file(f"{HERE}/remd-static-256.safetensors")
    table = tensors["embedding"].astype(np.float64) * tensors["scale"].astype(np.float64)[:, None]
    pieces = {i: p.removeprefix("##") if len(p) > 2 else p for p, i in tokenizer.get_vocab().items()}
    unknown = tokenizer.token_to_id("[UNK]")

    def kind(i):
        letters = [c for c in pieces[i] if c.isalnum()]
        if i == unknown:
            return "foreign"
        return "mark" if not letters else "foreign" if any(c >= "\u0250" for c in letters) else "word"

    rows, vectors = [], []
    for text in TEXTS:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        kinds = [kind(i) for i in ids]
        words, foreign = kinds.count("word"), kinds.count("foreign")
        vector = None
        if words and words >= foreign:
            vector = sum(table[i] for i, k in zip(ids, kinds) if k != "foreign")
            vector = vector / np.linalg.norm(vector)
        vectors.append(vector)
        rows.append({"text": text, "ids": ids, "vector": None if vector is None else [round(float(x), 6) for x in vector[:6]]})
    cosines = [{"a": a, "b": b, "cosine": round(float(vectors[a] @ vectors[b]), 6)} for a, b in PAIRS]
    print('{"texts": [')
    print(",\n".join(json.dumps(it) for it in rows))
    print('],\n"cosines": ' + json.dumps(cosines) + "}")


if __name__ == "__main__":
    main()

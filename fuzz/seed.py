#!/usr/bin/env python3
"""Writes the vectors as seed corpus for every fuzz target: fuzz/corpus/TARGET/NUMBER."""
import json
import pathlib

here = pathlib.Path(__file__).parent
seeds = []
for path in sorted((here.parent / "vectors").glob("*.json")):
    for vector in json.loads(path.read_text()).get("vectors", []):
        for key in ("bytes", "request", "reply", "frame", "payload", "data"):
            if isinstance(vector.get(key), str):
                seeds.append(bytes.fromhex(vector[key]))
        if "line" in vector:
            seeds.append(vector["line"].encode() + b"\r\n")
for path in sorted((here.parent / "vectors" / "tlog").glob("*.hex")):
    lines = path.read_text().splitlines()
    seeds.append(bytes.fromhex(" ".join(line.split("#")[0] for line in lines)))
for target in sorted((here / "fuzz_targets").glob("*.rs")):
    corpus = here / "corpus" / target.stem
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds):
        (corpus / f"seed{number:03}").write_bytes(seed)
print(f"{len(seeds)} seeds for each target")

"""The loop of a competitor: one command a line on standard input, words separated by tabs, one line of JSON per answer."""
import json
import sys

import numpy as np


def checksums(result):
    """What the driver compares: the sum of a result, and how large its numbers are."""
    result = np.real(result).astype(np.float64)
    return {"checksum": float(result.sum()), "magnitude": float(np.abs(result).sum())}


def serve(peer):
    """Calls the method of `peer` that each line names, with the line's other words."""
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        command, *words = line.rstrip("\n").split("\t")
        try:
            answer = getattr(peer, command)(*words)
        except Exception as e:  # the driver reports it and goes on
            answer = {"error": f"{type(e).__name__}: {e}"[:500]}
        print(json.dumps(answer), flush=True)

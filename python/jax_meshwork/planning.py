"""Placements that a search finds, as `PartitionSpec`s."""

import json


class Found(dict):
    """What a search found, as data: candidates with their annotations and reasons, the gap, a bound on any plan.

    `in_specs` and `out_specs` are `PartitionSpec`s of the arguments and results that are annotated, by number; `None` leaves
    one to propagation. `mesh` is the mesh as pairs of names and sizes.
    """

    def __init__(self, data, text, arguments, results):
        super().__init__(data)
        self._text, self._counts = text, {"argument": arguments, "result": results}

    @property
    def best(self):
        return self["candidates"][0]

    @property
    def mesh(self):
        return [tuple(axis) for axis in self.best["mesh"]]

    @property
    def in_specs(self):
        return self._specs("argument")

    @property
    def out_specs(self):
        return self._specs("result")

    def in_tree(self, lowered):
        """The specs of the arguments in the tree that `lowered` was lowered with: `args, kwargs`."""
        import jax

        structure, specs = lowered.in_tree, self.in_specs
        kept = getattr(lowered, "_lowering", None)
        kept = sorted(kept.compile_args["kept_var_idx"]) if kept is not None else range(len(specs))
        leaves = [None] * structure.num_leaves
        for place, spec in zip(kept, specs, strict=True):
            leaves[place] = spec
        whole = jax.sharding.PartitionSpec()
        return jax.tree.unflatten(structure, [whole if spec is None else spec for spec in leaves])

    def _specs(self, kind):
        from jax.sharding import PartitionSpec

        specs = [None] * self._counts[kind]
        for placed in self.best["annotations"]:
            if placed["on"] == kind:
                entry = lambda axes: None if not axes else axes[0] if len(axes) == 1 else tuple(axes)  # noqa: E731
                specs[placed["number"]] = PartitionSpec(*map(entry, placed["axes"]))
        return specs

    def __str__(self):
        return self._text

    __repr__ = __str__


def search(ask, options):
    """Asks the tool `search`."""
    answer = json.loads(ask("search", **options))
    return Found(answer["found"], answer["text"], answer["arguments"], answer["results"])

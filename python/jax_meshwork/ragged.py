"""`jax.lax.ragged_all_to_all` on the platform "meshwork": every device gathers what its group holds, and takes its own rows."""

import functools
import itertools


def _exchange(operand, output, input_offsets, send_sizes, output_offsets, _, *, axis_name, axis_index_groups):
    import jax.numpy as jnp
    import numpy as np
    from jax import lax

    gather = functools.partial(lax.all_gather, axis_name=axis_name, axis_index_groups=axis_index_groups)
    me = lax.axis_index(axis_name)
    if axis_index_groups is not None:
        # Which member of its group each device is.
        members = np.zeros(sum(map(len, axis_index_groups)), np.int32)
        for group in axis_index_groups:
            members[np.asarray(group)] = np.arange(len(group))
        me = jnp.asarray(members)[me]
    rows, starts, sizes, places = (gather(x) for x in (operand, input_offsets, send_sizes, output_offsets))
    index = jnp.arange(output.shape[0])
    shape = (-1,) + (1,) * (output.ndim - 1)
    # Each member may have several pieces for another, one after the other in the lists.
    pieces = input_offsets.shape[0] // rows.shape[0]
    for member, piece in itertools.product(range(rows.shape[0]), range(pieces)):
        start, size, place = (x[member, me * pieces + piece] for x in (starts, sizes, places))
        taken = jnp.take(rows[member], jnp.clip(index - place + start, 0, operand.shape[0] - 1), axis=0)
        is_here = (index >= place) & (index < place + size)
        output = jnp.where(is_here.reshape(shape), taken, output)
    return output


def register(platform):
    from jax._src import core
    from jax._src.interpreters import mlir
    from jax._src.lax import parallel

    def rule(ctx, *operands, **how):
        mesh = getattr(ctx.module_context.axis_context, "mesh", None)
        axes = [] if mesh is None else [(name, mesh.shape[name]) for name in mesh.axis_names]
        with core.extend_axis_env_nd(axes):
            return mlir.lower_fun(functools.partial(_exchange, **how), multiple_results=False)(ctx, *operands)

    mlir.register_lowering(parallel.ragged_all_to_all_p, rule, platform=platform)

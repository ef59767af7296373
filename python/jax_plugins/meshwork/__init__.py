"""Makes `meshwork` a platform of JAX. JAX finds this module by itself and calls `initialize`."""


def initialize():
    from jax_meshwork import backend

    backend.register()

"""Arithmetic on complex numbers."""
import jax
import jax.numpy as jnp
import numpy as np

from . import problem, uniform

F = "complex"
repeat = lambda n, f, x: jax.lax.fori_loop(0, n, lambda _, x: f(x), x)


def numbers(*shape):
    return lambda r: (r.standard_normal(shape) + 1j * r.standard_normal(shape)).astype(np.complex64)


@problem(F, "julia set", uniform(256, 256))
def julia(x):
    z = (jnp.linspace(-1.5, 1.5, 256)[None] + x * 1e-3) + 1j * jnp.linspace(-1, 1, 256)[:, None]

    def step(state):
        z, n = state
        inside = z.real ** 2 + z.imag ** 2 < 4
        return jnp.where(inside, z * z + (-0.4 + 0.6j), z), n + inside
    return repeat(40, step, (z, jnp.zeros((256, 256), jnp.int32)))[1]


@problem(F, "newton fractal", uniform(256, 256))
def newton(x):
    z = (jnp.linspace(-2, 2, 256)[None] + x * 1e-3) + 1j * jnp.linspace(-2, 2, 256)[:, None]
    return jnp.abs(repeat(8, lambda z: z - (z ** 3 - 1) / (3 * z ** 2), z))


problem(F, "normalize", numbers(1024, 1024))(lambda z: z / jnp.abs(z))
problem(F, "conjugate products", numbers(1024, 512), numbers(1024, 512), split=(0, 0))(
    lambda a, b: jnp.sum(a * b.conj(), -1))
problem(F, "waves", (1024, 256), (256,), split=(0,))(lambda x, k: jnp.sum(jnp.exp(1j * x * k), -1))
problem(F, "reciprocals", numbers(512, 512))(lambda z: 1 / (1 + z * z))
problem(F, "roots and logarithms", numbers(512, 512))(lambda z: jnp.sqrt(z) + jnp.log(z))
problem(F, "filter between transforms", (512, 1024))(
    lambda x: jnp.fft.ifft(jnp.fft.fft(x) * jnp.exp(-1j * jnp.arange(1024) * 0.1)).real)


@problem(F, "diagonal state space", (2048, 64), numbers(64, 16), split=(1, 0))
def diagonal(u, a):
    a = jnp.exp(-jnp.abs(a.real) + 1j * a.imag)

    def step(h, u):
        h = a * h + u[:, None]
        return h, h.real.sum(-1)
    return jax.lax.scan(step, jnp.zeros((64, 16), jnp.complex64), u)[1]


@problem(F, "split-step wave function", numbers(512), split=(None,))
def wave(psi):
    x, k = jnp.linspace(-5, 5, 512), jnp.fft.fftfreq(512, 10 / 512) * 2 * jnp.pi
    v, t = jnp.exp(-0.005j * x * x), jnp.exp(-0.005j * k * k)
    return repeat(200, lambda psi: jnp.fft.ifft(jnp.fft.fft(psi * v) * t), psi)


@problem(F, "quantum gates", numbers(4096), (64,), split=(None,))
def gates(psi, angles):
    def gate(psi, angle):
        a, b = psi.reshape(2, -1)
        c, s = jnp.cos(angle), 1j * jnp.sin(angle)
        psi = jnp.stack([c * a - s * b, c * b - s * a])
        return psi.T.reshape(-1), None
    return jax.lax.scan(gate, psi, jnp.tile(angles, 4))[0]


@problem(F, "gates as products", numbers(1 << 14), numbers(14, 2, 2), split=(None,))
def products_of_gates(psi, gates):
    for i in range(14):
        psi = jnp.einsum("ij,ajb->aib", gates[i], psi.reshape(1 << i, 2, -1)).reshape(-1)
    return psi


@problem(F, "oscillators", numbers(1024), split=(0,))
def oscillators(z):
    return repeat(1000, lambda z: z + 0.001 * (1j * z - jnp.abs(z) ** 2 * z), z)

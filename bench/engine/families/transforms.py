"""Fourier transforms and what is made of them."""
import jax
import jax.numpy as jnp

from . import problem, uniform

F = "transforms"
rows = lambda n, m: uniform(n, m)

problem(F, "rfft rows", rows(4096, 1000))(jnp.fft.rfft)
problem(F, "irfft rows", rows(4096, 501))(lambda x: jnp.fft.irfft(x + 1j * x, 1000))
problem(F, "fft rows", rows(4096, 1024))(lambda x: jnp.fft.fft(x + 0j))
problem(F, "fft rows of 1009", rows(4096, 1009))(lambda x: jnp.fft.fft(x + 0j))
problem(F, "rfft rows of 360", rows(8192, 360))(jnp.fft.rfft)
problem(F, "irfft rows of 375", rows(4096, 188))(lambda x: jnp.fft.irfft(x + 1j * x, 375))
problem(F, "rfft f64 rows of 512", uniform(2048, 512, dtype="f8"))(jnp.fft.rfft)
problem(F, "ifft rows of 500", rows(4096, 500))(lambda x: jnp.fft.ifft(x + 1j))
problem(F, "fft columns of 640", rows(640, 2048), split=(1,))(lambda x: jnp.fft.fft(x + 0j, axis=0))
problem(F, "rfftn of 96 cubed", uniform(96, 96, 96))(jnp.fft.rfftn)
problem(F, "fft2", rows(2048, 2048))(lambda x: jnp.fft.fft2(x + 0j))
problem(F, "fft of 128 cubed", uniform(128, 128, 128))(lambda x: jnp.fft.fftn(x + 0j))
problem(F, "fft f64 columns", uniform(1024, 512, dtype="f8"), split=(1,))(lambda x: jnp.fft.fft(x + 0j, axis=0))


@problem(F, "convolution by rfft2", uniform(64, 256, 256), (256, 256))
def convolution(x, k):
    return jnp.fft.irfft2(jnp.fft.rfft2(x) * jnp.fft.rfft2(k))


@problem(F, "spectral heat, 20 steps", uniform(512, 512))
def spectral(x):
    k = jnp.fft.fftfreq(512) ** 2
    decay = jnp.exp(-(k[:, None] + k[None, :]))
    return jax.lax.fori_loop(0, 20, lambda _, x: jnp.fft.ifft2(jnp.fft.fft2(x) * decay).real, x)


@problem(F, "spectrogram", uniform(32, 65536))
def spectrogram(x):
    frames = x.reshape(32, 256, 256) * jnp.hanning(256)
    return jnp.log1p(jnp.abs(jnp.fft.rfft(frames)) ** 2)

"""Signals and images: filters, transforms of blocks, features, labels."""
import jax
import jax.numpy as jnp
import numpy as np

from . import ints, problem, repeat, uniform

F = "signals"
IMAGE = uniform(512, 512)
BYTES = ints(256, 1024, 1024, dtype=np.uint8)

problem(F, "fir filter", (65536,), (129,), split=(None,))(lambda x, h: jnp.convolve(x, h, mode="same"))
problem(F, "fir filters of rows", (256, 4096), (33,))(lambda x, h: jax.vmap(lambda x: jnp.convolve(x, h))(x))
problem(F, "autocorrelation by fft", (256, 2048))(
    lambda x: jnp.fft.irfft(jnp.abs(jnp.fft.rfft(x, 4096)) ** 2, 4096)[:, :2048])
problem(F, "hilbert envelope", (128, 4096))(lambda x: jnp.abs(jnp.fft.ifft(
    jnp.fft.fft(x) * jnp.where(jnp.arange(4096) < 2048, 2.0, 0.0))))


@problem(F, "biquad filters", (8192, 64), split=(1,))
def biquad(x):
    def step(state, x):
        a, b = state
        y = 0.2 * x + a
        return (0.4 * x + 1.1 * y + b, 0.2 * x - 0.5 * y), y
    return jax.lax.scan(step, (jnp.zeros(64), jnp.zeros(64)), x)[1]


@problem(F, "mel cepstrum", (16, 16000), uniform(129, 40), split=(0,))
def mel(x, bank):
    starts = jnp.arange(124) * 128
    frames = x[:, starts[:, None] + jnp.arange(256)] * jnp.hanning(256)
    power = jnp.abs(jnp.fft.rfft(frames)) ** 2
    return jax.scipy.fft.dct(jnp.log(power @ bank + 1e-6))[..., :13]


@problem(F, "haar wavelets", uniform(1024, 1024))
def haar(x):
    out = []
    for _ in range(5):
        a = (x[0::2] + x[1::2]) / 2, (x[0::2] - x[1::2]) / 2
        (x, b), (c, d) = (((y[:, 0::2] + y[:, 1::2]) / 2, (y[:, 0::2] - y[:, 1::2]) / 2) for y in a)
        out += [b.sum(), c.sum(), jnp.abs(d).max()]
    return x, jnp.stack(out)


@problem(F, "daubechies wavelets", (64, 16384))
def daubechies(x):
    h = [0.4829629, 0.8365163, 0.22414387, -0.12940952]
    details = []
    for _ in range(6):
        p = jnp.concatenate([x, x[:, :2]], 1)
        taps = [p[:, i:i + x.shape[1]:2] for i in range(4)]
        x = sum(a * t for a, t in zip(h, taps))
        details.append(h[3] * taps[0] - h[2] * taps[1] + h[1] * taps[2] - h[0] * taps[3])
    return jnp.concatenate([x] + details[::-1], 1)


@problem(F, "gaussian blur", uniform(8, 512, 512))
def gaussian(x):
    w = jnp.exp(-0.5 * (jnp.arange(-5, 6) / 2.0) ** 2)
    w = w / w.sum()
    x = x[:, None]
    x = jax.lax.conv_general_dilated(x, w.reshape(1, 1, -1, 1), (1, 1), "SAME")
    return jax.lax.conv_general_dilated(x, w.reshape(1, 1, 1, -1), (1, 1), "SAME")[:, 0]


@problem(F, "bilateral filter", uniform(256, 256))
def bilateral(x):
    p = jnp.pad(x, 2, mode="edge")
    top = bottom = 0.0
    for i in range(5):
        for j in range(5):
            y = p[i:i + 256, j:j + 256]
            w = jnp.exp(-((i - 2) ** 2 + (j - 2) ** 2) / 8 - (x - y) ** 2 / 0.02)
            top, bottom = top + w * y, bottom + w
    return top / bottom


@problem(F, "histogram equalization", BYTES)
def equalize(x):
    counts = jnp.bincount(x.reshape(-1), length=256)
    table = (jnp.cumsum(counts) * 255 // x.size).astype(jnp.uint8)
    return table[x]


@problem(F, "thin edges", IMAGE)
def thin(x):
    p = jnp.pad(x, 1, mode="edge")
    gx = p[2:, 1:-1] - p[:-2, 1:-1]
    gy = p[1:-1, 2:] - p[1:-1, :-2]
    m = jnp.sqrt(gx * gx + gy * gy)
    q = jnp.pad(m, 1)
    across = jnp.abs(gx) > jnp.abs(gy)
    a = jnp.where(across, q[2:, 1:-1], q[1:-1, 2:])
    b = jnp.where(across, q[:-2, 1:-1], q[1:-1, :-2])
    return jnp.where((m >= a) & (m >= b), m, 0)


@problem(F, "hough transform", ints(512, 4096, 2))
def hough(points):
    angle = jnp.linspace(0, jnp.pi, 180)
    r = points[:, :1] * jnp.cos(angle) + points[:, 1:] * jnp.sin(angle)
    bin_ = jnp.clip((r / 2 + 400).astype(jnp.int32), 0, 799)
    return jnp.zeros((800, 180), jnp.int32).at[bin_, jnp.arange(180)].add(1)


problem(F, "opening by 7x7", IMAGE)(lambda x: jax.lax.reduce_window(
    jax.lax.reduce_window(x, jnp.inf, jax.lax.min, (7, 7), (1, 1), "SAME"), -jnp.inf, jax.lax.max, (7, 7), (1, 1), "SAME"))


@problem(F, "integral image", uniform(1024, 1024))
def integral(x):
    s = jnp.pad(jnp.cumsum(jnp.cumsum(x, 0), 1), ((1, 0), (1, 0)))
    return s[16:, 16:] - s[:-16, 16:] - s[16:, :-16] + s[:-16, :-16]


@problem(F, "hue of bytes", ints(256, 1024, 1024, 3, dtype=np.uint8))
def hue(x):
    r, g, b = (x[..., i].astype(jnp.float32) / 255 for i in range(3))
    high, low = jnp.maximum(r, jnp.maximum(g, b)), jnp.minimum(r, jnp.minimum(g, b))
    d = jnp.where(high > low, high - low, 1)
    h = jnp.where(high == r, (g - b) / d % 6, jnp.where(high == g, (b - r) / d + 2, (r - g) / d + 4))
    return jnp.stack([h / 6, jnp.where(high > 0, (high - low) / jnp.maximum(high, 1e-6), 0), high], -1)


problem(F, "gray of bytes", ints(256, 1024, 1024, 3, dtype=np.uint8))(
    lambda x: ((x.astype(jnp.uint32) * jnp.array([77, 150, 29], jnp.uint32)).sum(-1) >> 8).astype(jnp.uint8))


@problem(F, "cosines of 8x8 blocks", uniform(1024, 1024))
def cosines(x):
    k = np.cos(np.pi * np.arange(8)[:, None] * (2 * np.arange(8) + 1) / 16).astype(np.float32)
    b = x.reshape(128, 8, 128, 8)
    f = jnp.einsum("ui,aibj,vj->aubv", k, b, k)
    q = jnp.round(f / 0.1) * 0.1
    return jnp.einsum("ui,aubv,vj->aibj", k, q, k).reshape(1024, 1024)


@problem(F, "spatial transformer", uniform(8, 128, 128, 16), (8, 2, 3), split=(0, 0))
def transformer(x, theta):
    i, j = jnp.meshgrid(jnp.linspace(-1, 1, 128), jnp.linspace(-1, 1, 128), indexing="ij")
    grid = jnp.einsum("bij,jhw->bihw", jnp.eye(2, 3) + 0.1 * theta, jnp.stack([i, j, jnp.ones_like(i)]))
    at = (grid + 1) * 63.5
    low = jnp.clip(jnp.floor(at), 0, 126).astype(jnp.int32)
    part = jnp.clip(at - low, 0, 1)

    def one(x, low, part):
        a, b = low
        s, t = part[..., None]
        return ((1 - s) * (1 - t) * x[a, b] + s * (1 - t) * x[a + 1, b] + (1 - s) * t * x[a, b + 1] + s * t * x[a + 1, b + 1])
    return jax.vmap(one)(x, low, part)


@problem(F, "dithering", uniform(128, 128), split=(None,))
def dithering(x):
    def row(errors, line):
        def cell(carry, xs):
            right, below, corner = carry
            value, error = xs
            value = value + error + right
            bit = (value > 0.5).astype(jnp.float32)
            e = value - bit
            return (e * 7 / 16, e * 5 / 16 + corner, e / 16), (bit, below + e * 3 / 16)
        (_, below, _), (bits, down) = jax.lax.scan(cell, (0.0, 0.0, 0.0), (line, errors))
        return jnp.append(down[1:], below), bits
    return jax.lax.scan(row, jnp.zeros(128), x)[1]


@problem(F, "labels of components", uniform(128, 128))
def components(x):
    on = x < 0.55
    start = jnp.where(on, jnp.arange(1, 128 * 128 + 1).reshape(128, 128), 0)

    def step(state):
        label, _ = state
        p = jnp.pad(label, 1)
        new = jnp.maximum(jnp.maximum(p[2:, 1:-1], p[:-2, 1:-1]), jnp.maximum(p[1:-1, 2:], p[1:-1, :-2]))
        new = jnp.where(on, jnp.maximum(new, label), 0)
        return new, (new != label).any()
    return jax.lax.while_loop(lambda s: s[1], step, (start, jnp.array(True)))[0]


@problem(F, "distance by jump flooding", uniform(256, 256), split=(None,))
def flooding(x):
    i, j = jnp.mgrid[0:256, 0:256].astype(jnp.float32)
    seed = x < 0.01
    si, sj = jnp.where(seed, i, 1e4), jnp.where(seed, j, 1e4)
    step = 128
    while step:
        for a in (-step, 0, step):
            for b in (-step, 0, step):
                ti, tj = jnp.roll(si, (a, b), (0, 1)), jnp.roll(sj, (a, b), (0, 1))
                nearer = (ti - i) ** 2 + (tj - j) ** 2 < (si - i) ** 2 + (sj - j) ** 2
                si, sj = jnp.where(nearer, ti, si), jnp.where(nearer, tj, sj)
        step //= 2
    return jnp.sqrt((si - i) ** 2 + (sj - j) ** 2)


@problem(F, "optical flow", IMAGE, IMAGE, split=(0, 0))
def flow(x, y):
    gx, gy = jnp.gradient(x)
    t = y - x
    box = lambda a: jax.lax.reduce_window(a, 0.0, jax.lax.add, (7, 7), (1, 1), "SAME")
    a, b, c = box(gx * gx) + 0.01, box(gx * gy), box(gy * gy) + 0.01
    p, q = box(gx * t), box(gy * t)
    d = a * c - b * b
    return jnp.stack([(b * q - c * p) / d, (b * p - a * q) / d], -1)


@problem(F, "structural similarity", uniform(8, 256, 192), uniform(8, 256, 192), split=(0, 0))
def ssim(x, y):
    box = lambda a: jax.lax.reduce_window(a, 0.0, jax.lax.add, (1, 11, 11), (1, 1, 1), "VALID") / 121
    m, n = box(x), box(y)
    v, w, c = box(x * x) - m * m, box(y * y) - n * n, box(x * y) - m * n
    return jnp.mean((2 * m * n + 1e-4) * (2 * c + 1e-3) / ((m * m + n * n + 1e-4) * (v + w + 1e-3)), (1, 2))


@problem(F, "total variation, dual steps", uniform(256, 256))
def variation(x):
    def div(p):
        return p[0] - jnp.pad(p[0], ((1, 0), (0, 0)))[:-1] + p[1] - jnp.pad(p[1], ((0, 0), (1, 0)))[:, :-1]

    def step(p):
        u = div(p) - x / 0.1
        g = jnp.stack([jnp.pad(u[1:] - u[:-1], ((0, 1), (0, 0))), jnp.pad(u[:, 1:] - u[:, :-1], ((0, 0), (0, 1)))])
        return (p + 0.25 * g) / (1 + 0.25 * jnp.sqrt((g * g).sum(0)))
    return x - 0.1 * div(repeat(50, step, jnp.zeros((2, 256, 256))))


@problem(F, "upsampling by polyphase", (64, 8192), (4, 16))
def polyphase(x, h):
    out = jax.lax.conv_general_dilated(x[:, None], h[:, None], (1,), "SAME")
    return out.transpose(0, 2, 1).reshape(64, -1)


@problem(F, "linear prediction", (512, 1024))
def prediction(x):
    r = jnp.stack([jnp.sum(x[:, i:] * x[:, :1024 - i], 1) for i in range(13)], 1)

    def one(r):
        a, e = jnp.zeros(13).at[0].set(1.0), r[0]
        for i in range(1, 13):
            k = -jnp.dot(a[:i], r[i:0:-1]) / e
            a = a.at[1:i + 1].add(k * a[:i][::-1])
            e = e * (1 - k * k)
        return a
    return jax.vmap(one)(r)


@problem(F, "suppression of boxes", uniform(512, 4), split=(None,))
def suppression(x):
    a, b = x[:, :2], x[:, :2] + 0.2 * x[:, 2:]
    low, high = jnp.maximum(a[:, None], a[None]), jnp.minimum(b[:, None], b[None])
    inter = jnp.prod(jnp.maximum(high - low, 0), -1)
    area = jnp.prod(b - a, -1)
    over = inter / (area[:, None] + area[None] - inter) > 0.5

    def step(i, keep):
        return jnp.where(keep[i], keep & ~(over[i] & (jnp.arange(512) > i)), keep)
    return jax.lax.fori_loop(0, 512, step, jnp.ones(512, bool))


@problem(F, "median of 5x5", uniform(256, 256))
def median(x):
    p = jnp.pad(x, 2, mode="reflect")
    return jnp.sort(jnp.stack([p[i:i + 256, j:j + 256] for i in range(5) for j in range(5)], -1), -1)[..., 12]


@problem(F, "corners", IMAGE)
def corners(x):
    gx, gy = jnp.gradient(x)
    box = lambda a: jax.lax.reduce_window(a, 0.0, jax.lax.add, (5, 5), (1, 1), "SAME")
    a, b, c = box(gx * gx), box(gx * gy), box(gy * gy)
    r = a * c - b * b - 0.05 * (a + c) ** 2
    return jnp.where(r == jax.lax.reduce_window(r, -jnp.inf, jax.lax.max, (3, 3), (1, 1), "SAME"), r, 0)


@problem(F, "cheapest seam", uniform(512, 512), split=(None,))
def seam(x):
    def row(above, line):
        p = jnp.pad(above, 1, constant_values=jnp.inf)
        new = line + jnp.minimum(above, jnp.minimum(p[:-2], p[2:]))
        return new, new
    cost = jax.lax.scan(row, x[0], x[1:])[1]

    def back(j, line):
        near = jax.lax.dynamic_slice(jnp.pad(line, 1, constant_values=jnp.inf), (j,), (3,))
        j = jnp.clip(j + jnp.argmin(near) - 1, 0, 511)
        return j, j
    return jax.lax.scan(back, jnp.argmin(cost[-1]), cost, reverse=True)[1]


@problem(F, "patches of an image", uniform(8, 224, 224, 3), (768, 192))
def patches(x, w):
    p = x.reshape(8, 14, 16, 14, 16, 3).transpose(0, 1, 3, 2, 4, 5).reshape(8, 196, 768)
    return p @ w


@problem(F, "resampling, cubic", (64, 4096))
def cubic(x):
    t = jnp.linspace(1, 4093, 6000)
    i = t.astype(jnp.int32)
    f = t - i
    a, b, c, d = (x[:, i + k] for k in (-1, 0, 1, 2))
    return b + 0.5 * f * (c - a + f * (2 * a - 5 * b + 4 * c - d + f * (3 * (b - c) + d - a)))


@problem(F, "radon transform", uniform(128, 128), split=(None,))
def radon(x):
    i, j = jnp.meshgrid(jnp.linspace(-1, 1, 128), jnp.linspace(-1, 1, 128), indexing="ij")

    def one(angle):
        c, s = jnp.cos(angle), jnp.sin(angle)
        at = jnp.stack([(c * i - s * j + 1) * 63.5, (s * i + c * j + 1) * 63.5])
        return jax.scipy.ndimage.map_coordinates(x, at, 1).sum(0)
    return jax.lax.map(one, jnp.linspace(0, jnp.pi, 60))


@problem(F, "bilinear samples", uniform(256, 256), uniform(1 << 17, 2), split=(None, 0))
def bilinear(x, at):
    at = at * 254.9
    i = jnp.floor(at).astype(jnp.int32)
    (s, t), (a, b) = (at - i).T, i.T
    return ((1 - s) * (1 - t) * x[a, b] + (1 - s) * t * x[a, b + 1] + s * (1 - t) * x[a + 1, b] + s * t * x[a + 1, b + 1])


problem(F, "trilinear samples", uniform(64, 64, 64), uniform(1 << 16, 3), split=(None, 0))(
    lambda x, at: jax.scipy.ndimage.map_coordinates(x, list((at * 63).T), 1))


@problem(F, "means of similar places", uniform(96, 96))
def similar(x):
    """Non-local means: each pixel of a neighborhood counts as much as its patch looks like the one in the middle."""
    patches = jax.lax.conv_general_dilated_patches(jnp.pad(x, 3, mode="reflect")[None, :, :, None], (3, 3), (1, 1), "VALID",
                                                   dimension_numbers=("NHWC", "HWIO", "NHWC"))[0]
    padded = jnp.pad(x, 2, mode="edge")
    weights, total = 0.0, 0.0
    for i in range(5):
        for j in range(5):
            difference = ((patches[i:i + 96, j:j + 96] - patches[2:98, 2:98]) ** 2).sum(-1)
            weight = jnp.exp(-difference / 0.1)
            weights, total = weights + weight, total + weight * padded[i:i + 96, j:j + 96]
    return total / weights


@problem(F, "channels by polyphase", (64, 16384), uniform(8, 64))
def channels(x, taps):
    blocks = x.reshape(64, -1, 64)
    frames = blocks[:, np.arange(249)[:, None] + np.arange(8)]
    return jnp.abs(jnp.fft.fft(jnp.einsum("btpm,pm->btm", frames, taps))) ** 2


@problem(F, "enlarged by splines", uniform(8, 128, 128))
def enlarged(x):
    a = np.sqrt(3.0) - 2

    def coefficients(x):
        f = jax.lax.scan(lambda c, v: (v + a * c,) * 2, x[0] / (1 - a), x)[1]
        return 6 * jax.lax.scan(lambda c, v: (a * (c - v),) * 2, a / (a - 1) * f[-1], f, reverse=True)[1]
    c = coefficients(x.transpose(1, 0, 2)).transpose(1, 0, 2)
    c = coefficients(c.transpose(2, 0, 1)).transpose(1, 2, 0)
    t = np.linspace(2, 125, 200)
    i, f = np.floor(t).astype(int), (t - np.floor(t)).astype(np.float32)
    b = np.stack([(1 - f) ** 3, 3 * f ** 3 - 6 * f ** 2 + 4, -3 * f ** 3 + 3 * f ** 2 + 3 * f + 1, f ** 3]) / 6
    rows = sum(b[k][:, None] * c[:, i - 1 + k] for k in range(4))
    return sum(b[k] * rows[:, :, i - 1 + k] for k in range(4))


problem(F, "gamma of bytes", ints(256, 512, 512, 3, dtype=np.uint8))(
    lambda x: jnp.clip(255 * (x / 255.0) ** (1 / 2.2), 0, 255).astype(jnp.uint8))
problem(F, "crops, mirrored", uniform(32, 96, 96, 3), ints(32, 32, 2), split=(0, 0))(
    lambda x, at: jax.vmap(lambda x, at: jax.lax.dynamic_slice(x, (at[0], at[1], 0), (64, 64, 3))[:, ::-1])(x, at))

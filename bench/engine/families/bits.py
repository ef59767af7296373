"""Integers, bits, bytes and text."""
import jax
import jax.numpy as jnp
import numpy as np

from . import ints, problem, repeat, uniform

F = "bits"
WORDS = lambda *shape: ints(1 << 32, *shape, dtype=np.uint32)
TEXT = lambda *shape: ints(128, *shape, dtype=np.uint8)
BYTES = lambda *shape: ints(256, *shape, dtype=np.uint8)


@problem(F, "hamming distances", WORDS(1024, 8), WORDS(1024, 8), split=(0,))
def hamming(a, b):
    return jnp.sum(jax.lax.population_count(a[:, None] ^ b[None]), -1)


@problem(F, "cyclic redundancy, a batch", TEXT(1024, 256), split=(1,))
def redundancy(x):
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ 0xEDB88320, table >> 1).astype(np.uint32)
    table = jnp.array(table)
    step = lambda c, b: ((c >> 8) ^ table[(c ^ b) & 255], None)
    return jax.lax.scan(step, jnp.full(256, 0xFFFFFFFF, jnp.uint32), x.astype(jnp.uint32))[0]


@problem(F, "cyclic redundancy, one text", TEXT(16384), split=(None,))
def one_text(x):
    def step(c, b):
        c = c ^ b
        for _ in range(8):
            c = jnp.where(c & 1, (c >> 1) ^ jnp.uint32(0xEDB88320), c >> 1)
        return c, None
    return jax.lax.scan(step, jnp.uint32(0xFFFFFFFF), x.astype(jnp.uint32))[0]


@problem(F, "rounds of a hash", WORDS(65536, 4))
def rounds(x):
    a, b, c, d = (x[:, i] for i in range(4))
    rotate = lambda x, n: (x << n) | (x >> (32 - n))
    for i in range(20):
        a, d = a + b, rotate(d ^ (a + b), 16)
        c, b = c + d, rotate(b ^ (c + d), 12)
        a, d = a + b, rotate(d ^ (a + b), 8)
        c, b = c + d, rotate(b ^ (c + d), 7)
    return a ^ b ^ c ^ d


@problem(F, "rounds of a hash, loop", WORDS(4096, 4))
def rounds_loop(x):
    rotate = lambda x, n: (x << n) | (x >> (32 - n))

    def step(s):
        a, b, c, d = s
        a, d = a + b, rotate(d ^ (a + b), 16)
        c, b = c + d, rotate(b ^ (c + d), 12)
        return a, b, c, d
    return repeat(1000, step, tuple(x[:, i] for i in range(4)))[0]


@problem(F, "congruential numbers", WORDS(4096))
def congruential(x):
    return repeat(2000, lambda x: (x * jnp.uint32(1664525) + jnp.uint32(1013904223)) ^ (x >> 13), x)


@problem(F, "congruential numbers, f64 words", ints(1 << 62, 2048, dtype=np.uint64))
def wide(x):
    return repeat(1000, lambda x: (x * jnp.uint64(6364136223846793005) + jnp.uint64(1442695040888963407)) ^ (x >> 29), x)


problem(F, "unpacked and packed bits", TEXT(1 << 18))(lambda x: jnp.packbits(jnp.unpackbits(x).reshape(-1, 8)[:, ::-1], axis=1))


@problem(F, "base64", TEXT(1 << 18, 3))
def base64(x):
    table = jnp.array(np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8))
    a, b, c = (x[:, i].astype(jnp.uint32) for i in range(3))
    n = (a << 16) | (b << 8) | c
    return table[jnp.stack([n >> 18, (n >> 12) & 63, (n >> 6) & 63, n & 63], 1)]


@problem(F, "interleaved bits", WORDS(1 << 18), WORDS(1 << 18), split=(0, 0))
def interleaved(x, y):
    def wide(v):
        v = v & 0xFFFF
        v = (v | (v << 8)) & 0x00FF00FF
        v = (v | (v << 4)) & 0x0F0F0F0F
        v = (v | (v << 2)) & 0x33333333
        return (v | (v << 1)) & 0x55555555
    return wide(x) | (wide(y) << 1)


@problem(F, "search in a text", TEXT(1 << 18), TEXT(8), split=(0,))
def search(text, word):
    here = jnp.ones((1 << 18) - 7, bool)
    for i in range(8):
        here = here & (text[i:i + (1 << 18) - 7] // 16 == word[i] // 16)
    return here.sum(), jnp.argmax(here)


@problem(F, "upper case and words", TEXT(1 << 20))
def upper(x):
    letter = (x >= 97) & (x <= 122)
    start = letter & ~jnp.concatenate([jnp.zeros(1, bool), letter[:-1]])
    return jnp.where(letter, x - 32, x), jnp.cumsum(start.astype(jnp.int32))


@problem(F, "runs of bytes", ints(3, 1 << 16, dtype=np.uint8), split=(None,))
def runs(x):
    change = jnp.concatenate([jnp.ones(1, bool), x[1:] != x[:-1]])
    at = jnp.nonzero(change, size=1 << 16, fill_value=1 << 16)[0]
    return jnp.diff(at), x[jnp.minimum(at, (1 << 16) - 1)]


@problem(F, "pairs of letters counted", TEXT(1 << 18))
def pairs(x):
    x = x.astype(jnp.int32)
    return jnp.zeros((128, 128), jnp.int32).at[x[:-1], x[1:]].add(1)


@problem(F, "hashed features", ints(1 << 30, 8192, 32), (8192, 32), split=(0, 0))
def hashed(token, value):
    h = (token.astype(jnp.uint32) * jnp.uint32(2654435761)) >> 20
    sign = jnp.where(h & 1, 1.0, -1.0)
    return jnp.zeros((8192, 256)).at[jnp.arange(8192)[:, None], (h % 256).astype(jnp.int32)].add(sign * value)


@problem(F, "merge of byte pairs", ints(16, 4096), split=(None,))
def merges(x):
    def step(x, new):
        n = x.shape[0]
        after = jnp.concatenate([x[1:], jnp.full(1, -1)])
        code = jnp.where((x >= 0) & (after >= 0), x * 64 + after, 4096)
        best = jnp.argmax(jnp.bincount(code, length=4096))
        hit = code == best
        hit = hit & ~jnp.concatenate([jnp.zeros(1, bool), hit[:-1]])
        gone = jnp.concatenate([jnp.zeros(1, bool), hit[:-1]])
        x = jnp.where(hit, new, x)
        keep = ~gone & (x >= 0)
        place = jnp.where(keep, jnp.cumsum(keep) - 1, n)
        return jnp.full(n + 1, -1).at[place].set(x)[:n], best
    return jax.lax.scan(step, x, jnp.arange(16, 48))[1]


@problem(F, "greatest divisors", ints(1 << 30, 16384, low=1), ints(1 << 30, 16384, low=1), split=(0, 0))
def divisors(a, b):
    one = lambda a, b: jax.lax.while_loop(lambda s: s[1] != 0, lambda s: (s[1], s[0] % s[1]), (a, b))[0]
    return jax.vmap(one)(a, b)


problem(F, "greatest divisors, jnp", ints(1 << 30, 16384, low=1), ints(1 << 30, 16384, low=1), split=(0, 0))(jnp.gcd)


@problem(F, "powers by a modulus", WORDS(16384))
def powers(x):
    def step(i, s):
        base, out = s
        out = jnp.where((1000003 >> i) & 1, out * base % 65521, out)
        return base * base % 65521, out
    return jax.lax.fori_loop(0, 20, step, (x % 65521, jnp.ones_like(x)))[1]


@problem(F, "companding to bytes", (1 << 20,))
def companding(x):
    x = jnp.clip(x, -1, 1)
    y = jnp.sign(x) * jnp.log1p(255 * jnp.abs(x)) / np.log(256).astype(np.float32)
    q = ((y + 1) * 127.5).astype(jnp.uint8)
    z = q.astype(jnp.float32) / 127.5 - 1
    return jnp.sign(z) * (jnp.exp(jnp.abs(z) * np.log(256).astype(np.float32)) - 1) / 255


@problem(F, "bloom filter", WORDS(65536), WORDS(65536), split=(0, 0))
def bloom(keys, asked):
    spots = lambda x: jnp.stack([(x * jnp.uint32(k)) >> 12 for k in (2654435761, 2246822519, 3266489917)])
    bits = jnp.zeros(1 << 20, bool).at[spots(keys)].set(True)
    return bits[spots(asked)].all(0)


@problem(F, "life of bits", WORDS(1024, 32))
def life(x):
    def step(x):
        left = (x << 1) | (jnp.roll(x, -1, 1) >> 31)
        right = (x >> 1) | (jnp.roll(x, 1, 1) << 31)
        two, one = (left & right) | ((left ^ right) & x), left ^ right ^ x
        a, b = jnp.roll(one, 1, 0), jnp.roll(one, -1, 0)
        c, d = jnp.roll(two, 1, 0), jnp.roll(two, -1, 0)
        side, carry = left ^ right, left & right
        s = a ^ b ^ side
        k = (a & b) | ((a ^ b) & side)
        e = c ^ d ^ carry ^ k
        many = (c & d) | (c & carry) | (c & k) | (d & carry) | (d & k) | (carry & k)
        return e & ~many & (s | x)
    return repeat(100, step, x)


@problem(F, "dates of days", ints(1 << 20, 1 << 19))
def dates(day):
    z = day + 719468
    era = z // 146097
    doe = z - era * 146097
    yoe = (doe - doe // 1460 + doe // 36524 - doe // 146096) // 365
    doy = doe - (365 * yoe + yoe // 4 - yoe // 100)
    m = (5 * doy + 2) // 153
    return (yoe + era * 400) * 10000 + (m + 3) * 100 + doy - (153 * m + 2) // 5 + 1


problem(F, "saturated bytes", ints(256, 1 << 22, dtype=np.uint8), ints(256, 1 << 22, dtype=np.uint8), split=(0, 0))(
    lambda a, b: jnp.minimum(a.astype(jnp.uint16) + b, 255).astype(jnp.uint8))
problem(F, "halves of words", ints(30000, 1 << 21, dtype=np.int16), ints(30000, 1 << 21, dtype=np.int16), split=(0, 0))(
    lambda a, b: ((a.astype(jnp.int32) * b) >> 15).astype(jnp.int16))


@problem(F, "inverse roots by bits", uniform(1 << 20))
def inverse(x):
    i = jax.lax.bitcast_convert_type(x + 0.1, jnp.int32)
    y = jax.lax.bitcast_convert_type(0x5F3759DF - (i >> 1), jnp.float32)
    return y * (1.5 - 0.5 * (x + 0.1) * y * y)


problem(F, "mantissas and exponents", (1 << 19,))(lambda x: (lambda m, e: jnp.ldexp(m, e // 2))(*jnp.frexp(x)))
problem(F, "next numbers", (1 << 19,), (1 << 19,), split=(0, 0))(jnp.nextafter)
problem(F, "members of a set", ints(1 << 20, 1 << 17), ints(1 << 20, 1000))(lambda x, s: jnp.isin(x, s))
problem(F, "digits", ints(1 << 30, 1 << 18))(lambda x: sum((x // 10 ** k) % 10 for k in range(9)))
problem(F, "remainders", ints(1 << 30, 1 << 19))(lambda x: x % 7 + (x // 3) % 5)
problem(F, "remainders of bytes", BYTES(1 << 21))(lambda x: x % 10 + x // 26)
problem(F, "remainders int64 f64", ints(1 << 40, 1 << 18, dtype=np.int64))(lambda x: x % 1000 + x // 7)
problem(F, "times of day", ints(1 << 30, 1 << 18))(lambda x: jnp.stack([x // 3600 % 24, x // 60 % 60, x % 60], -1))
problem(F, "unpacked bits", BYTES(1 << 18))(jnp.unpackbits)
problem(F, "bytes to words", BYTES(1 << 20))(
    lambda x: (lambda y: y[:, 0].astype(jnp.uint16) | (y[:, 1].astype(jnp.uint16) << 8))(x.reshape(-1, 2)))
problem(F, "words to bytes", WORDS(1 << 18))(
    lambda x: ((x[:, None] >> (8 * jnp.arange(4, dtype=jnp.uint32))) & 255).astype(jnp.uint8))
problem(F, "hexadecimal digits", BYTES(1 << 19))(
    lambda x: (lambda n: jnp.where(n < 10, n + 48, n + 87))(jnp.stack([x >> 4, x & 15], -1)).reshape(-1))
problem(F, "bytes repeated", BYTES(1 << 18))(lambda x: jnp.repeat(x, 8) + 1)
problem(F, "colors in the other order", BYTES(1 << 19, 4))(lambda x: x[:, ::-1])
problem(F, "any of eight", ints(2, 1 << 18, 8, dtype=np.uint8))(lambda x: (x > 0).any(1))
problem(F, "two channels to one", ints(30000, 1 << 20, 2, dtype=np.int16))(
    lambda x: (x.astype(jnp.int32).sum(1) >> 1).astype(jnp.int16))
problem(F, "first that holds", (1 << 20,), split=(None,))(lambda x: jnp.argmax(x > 5))
problem(F, "leading zeros and trailing ones", WORDS(1 << 20))(
    lambda x: jax.lax.clz(x) + jax.lax.population_count(x & ~(x + 1)))

# Bytes in groups, tables of them, and loops of single integers.

CHARACTERS = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)
PLACES = np.zeros(128, np.uint8)
PLACES[CHARACTERS] = np.arange(64)


@problem(F, "base64", BYTES(1 << 16, 3))
def base64(x):
    a, b, c = x[:, 0], x[:, 1], x[:, 2]
    y = jnp.stack([a >> 2, (a & 3) << 4 | b >> 4, (b & 15) << 2 | c >> 6, c & 63], -1)
    return jnp.asarray(CHARACTERS)[y].reshape(-1)


@problem(F, "base64, read", ints(64, 1 << 18, dtype=np.uint8))
def base64_read(x):
    v = jnp.asarray(PLACES)[jnp.asarray(CHARACTERS)[x]].reshape(-1, 4)
    a, b, c, d = (v[:, i] for i in range(4))
    return jnp.stack([a << 2 | b >> 4, b << 4 | c >> 2, c << 6 | d], -1).reshape(-1)


problem(F, "hexadecimal, read", ints(16, 1 << 19, 2, dtype=np.uint8))(
    lambda x: (lambda n: n[:, 0] << 4 | n[:, 1])(jnp.where(x < 10, x + 3, x + 9) & 15))
problem(F, "packed bits of a threshold", BYTES(512, 2048))(lambda x: jnp.packbits(x > 127, axis=1))
problem(F, "table of colors", BYTES(1 << 18), BYTES(256, 3), split=(0, None))(lambda x, t: t[x])
problem(F, "histograms of rows of bytes", BYTES(512, 1024))(lambda x: jax.vmap(lambda r: jnp.bincount(r, length=256))(x))
problem(F, "first of many bytes", ints(255, 1 << 21, dtype=np.uint8), split=(None,))(lambda x: jnp.argmax(x == 255))


@problem(F, "luma and chroma", BYTES(1 << 18, 3))
def luma(x):
    r, g, b = (x[:, i].astype(jnp.int32) for i in range(3))
    y = ((66 * r + 129 * g + 25 * b + 128) >> 8) + 16
    u = ((-38 * r - 74 * g + 112 * b + 128) >> 8) + 128
    v = ((112 * r - 94 * g - 18 * b + 128) >> 8) + 128
    return jnp.stack([y, u, v]).astype(jnp.uint8)


@problem(F, "one picture over another", BYTES(1 << 18, 4), BYTES(1 << 18, 4), split=(0, 0))
def over(a, b):
    w = a[:, 3:].astype(jnp.uint16)
    return ((a.astype(jnp.uint16) * w + b.astype(jnp.uint16) * (255 - w) + 127) // 255).astype(jnp.uint8)


def modular_power(b, e):
    m = jnp.uint32(65521)

    def step(s):
        r, b, e = s
        return jnp.where(e & 1 == 1, r * b % m, r), b * b % m, e >> 1
    return jax.lax.while_loop(lambda s: s[2] > 0, step, (jnp.uint32(1), b % m, e))[0]


def whole_root(n):
    step = lambda s: (s[1], (s[1] + n // s[1]) // 2)
    return jax.lax.while_loop(lambda s: s[1] < s[0], step, (n, (n + 1) // 2))[0]


def ones(x):
    return jax.lax.while_loop(lambda s: s[0] != 0, lambda s: (s[0] & (s[0] - 1), s[1] + 1), (x, 0))[1]


problem(F, "powers modulo a prime", WORDS(1 << 14), WORDS(1 << 14), split=(0, 0))(jax.vmap(modular_power))
problem(F, "powers modulo a prime, one by one", WORDS(1000), WORDS(1000), split=(None,))(
    lambda b, e: jax.lax.map(lambda x: modular_power(*x), (b, e)))
problem(F, "whole roots", ints(1 << 30, 1 << 14, low=2))(jax.vmap(whole_root))
problem(F, "whole roots, one by one", ints(1 << 30, 1000, low=2), split=(None,))(lambda x: jax.lax.map(whole_root, x))
problem(F, "ones counted by a loop", WORDS(1 << 15))(jax.vmap(ones))


@problem(F, "queens by bits", ints(8, 8), split=(None,))
def queens(x):
    """A search with a stack: a loop whose end depends on data."""
    n = 7
    full = (1 << n) - 1

    def step(s):
        depth, stack, count = s
        cols, left, right, free = (stack[depth, k] for k in range(4))
        empty = free == 0
        bit = free & -free
        c, l, r = cols | bit, (left | bit) << 1, (right | bit) >> 1
        new = jnp.stack([c, l, r, full & ~(c | l | r)])
        done = ~empty & (c == full)
        stack = stack.at[depth, 3].set(free & ~bit)
        pushed = stack.at[depth + 1].set(new)
        stack = jnp.where(empty | done, stack, pushed)
        return jnp.where(empty, depth - 1, jnp.where(done, depth, depth + 1)), stack, count + done
    stack = jnp.zeros((9, 4), jnp.int32).at[0, 3].set(full) + 0 * x[0]
    return jax.lax.while_loop(lambda s: s[0] >= 0, step, (0, stack, 0))[2]


@problem(F, "transform of numbers by a prime, f64 words", ints(998244353, 64, 256, dtype=np.uint32))
def transform_of_numbers(x):
    prime = 998244353
    root = pow(3, (prime - 1) // 256, prime)
    x, n = x.astype(jnp.uint64), 256
    while n > 1:
        x = x.reshape(64, -1, n)
        a, b = x[..., :n // 2], x[..., n // 2:]
        powers = np.array([pow(root, k * (256 // n), prime) for k in range(n // 2)], np.uint64)
        x = jnp.concatenate([(a + b) % prime, (a + prime - b) % prime * powers % prime], -1)
        n //= 2
    return x.reshape(64, 256)


problem(F, "bits packed along rows", ints(2, 1024, 1024, dtype=np.uint8))(lambda x: jnp.packbits(x, axis=1))
problem(F, "substitution and order of bytes", BYTES(4096, 16), BYTES(256), split=(0,))(
    lambda x, table: repeat(4, lambda x: table[x.astype(jnp.int32)][:, np.arange(16) * 5 % 16] ^ jnp.uint8(27), x))
problem(F, "numbers of six digits, read", ints(10, 1 << 16, 6, dtype=np.uint8))(
    lambda d: sum(d[:, i].astype(jnp.int32) * 10 ** (5 - i) for i in range(6)))
problem(F, "next halves", (1 << 18,))(lambda x: jnp.nextafter(x.astype(jnp.float16), jnp.float16(9)).astype(jnp.float32))

"""Rows of the families in numpy or scipy, and in PyTorch, where these have a function for it: by family and name."""
import numpy as np


def numpy_functions():
    import scipy.fft
    import scipy.linalg
    import scipy.ndimage
    import scipy.special
    fft = dict(workers=-1)
    interval = np.linspace(0, 1, 4096)
    return {
        ("transforms", "rfft rows"): lambda x: scipy.fft.rfft(x, **fft),
        ("transforms", "fft rows"): lambda x: scipy.fft.fft(x.astype(np.complex64), **fft),
        ("transforms", "fft rows of 1009"): lambda x: scipy.fft.fft(x.astype(np.complex64), **fft),
        ("transforms", "fft2"): lambda x: scipy.fft.fft2(x.astype(np.complex64), **fft),
        ("transforms", "fft of 128 cubed"): lambda x: scipy.fft.fftn(x.astype(np.complex64), **fft),
        ("algebra", "cholesky 1024"): lambda a: np.linalg.cholesky(a),
        ("algebra", "lu solve 1024"): lambda a: np.linalg.solve(a, a[:, :64]),
        ("algebra", "qr 1024x512"): lambda a: np.linalg.qr(a[:, :512])[0],
        ("algebra", "svd 256"): lambda a: np.linalg.svd(a)[1],
        ("algebra", "eigh 256"): lambda a: np.linalg.eigh(a)[0],
        ("algebra", "inverse 512"): np.linalg.inv,
        ("algebra", "exponential 128"): scipy.linalg.expm,
        ("algebra", "cholesky 64 x 128"): np.linalg.cholesky,
        ("algebra", "inverse 8192 x 4"): np.linalg.inv,
        ("algebra", "determinant 4096 x 8"): np.linalg.det,
        ("algebra", "triangular solve 1024"): lambda a: scipy.linalg.solve_triangular(a, a[:, :256], lower=True),
        ("indexed", "cumsum of rows"): lambda x: np.cumsum(x, 1),
        ("indexed", "cumsum of columns"): lambda x: np.cumsum(x, 0),
        ("indexed", "cumsum of a million"): np.cumsum,
        ("indexed", "cummax of rows"): lambda x: np.maximum.accumulate(x, 1),
        ("indexed", "argsort of rows"): lambda x: np.argsort(x, 1, kind="stable"),
        ("indexed", "sort a million"): np.sort,
        ("indexed", "sort int32 columns"): lambda x: np.sort(x, 0),
        ("indexed", "median of rows"): lambda x: np.median(x, 1),
        ("indexed", "argmax of rows"): lambda x: np.argmax(x, 1),
        ("indexed", "argmin of columns"): lambda x: np.argmin(x, 0),
        ("indexed", "bincount"): lambda i: np.bincount(i, minlength=256),
        ("indexed", "histogram"): lambda x: np.histogram(x, 64)[0],
        ("indexed", "embedding rows"): lambda t, i: t[i],
        ("indexed", "searchsorted"): lambda x, _: np.searchsorted(interval, x),
        ("products", "f32 1024"): np.matmul,
        ("products", "f64 512"): np.matmul,
        ("products", "4096 x 32"): np.matmul,
        ("sweeps", "gamma function"): scipy.special.gammaln,
        ("sweeps", "box blur"): lambda x: scipy.ndimage.uniform_filter(x, 9, mode="constant"),
    }


def torch_functions():
    import torch
    import torch.nn.functional as F
    nchw = lambda x: x.permute(0, 3, 1, 2)
    oihw = lambda w: w.permute(3, 2, 0, 1)
    nhwc = lambda x: x.permute(0, 2, 3, 1)
    heads = lambda x: x.transpose(1, 2)

    def conv(x, w, **options):
        return nhwc(F.conv2d(nchw(x), oihw(w), **options))

    def bf16(a, b):
        return a.bfloat16() @ b.bfloat16()

    return {
        ("layers", "conv 3x3"): lambda x, w: conv(x, w, padding=1),
        ("layers", "conv 3x3 NCHW"): lambda x, w: F.conv2d(x, w, padding=1),
        ("layers", "conv 1x1"): conv,
        ("layers", "conv dilated 2"): lambda x, w: conv(x, w, padding=2, dilation=2),
        ("layers", "conv groups 8"): lambda x, w: conv(x, w, padding=1, groups=8),
        ("layers", "conv depthwise"): lambda x, w: conv(x, w, padding=1, groups=128),
        ("layers", "attention 2048"): lambda q, k, v: heads(F.scaled_dot_product_attention(heads(q), heads(k), heads(v))),
        ("layers", "attention causal"): lambda q, k, v: heads(
            F.scaled_dot_product_attention(heads(q), heads(k), heads(v), is_causal=True)),
        ("products", "f32 1024"): torch.matmul,
        ("products", "f64 512"): torch.matmul,
        ("products", "bf16 1024"): bf16,
        ("products", "4096 x 32"): torch.matmul,
        ("products", "65536 x 4"): torch.matmul,
        ("indexed", "sort a million"): lambda x: torch.sort(x).values,
        ("indexed", "top_k of rows"): lambda x: torch.topk(x, 16).values,
        ("indexed", "segment_sum"): lambda x, i: torch.zeros(1000, 16).index_add_(0, i, x),
        ("indexed", "cumsum of rows"): lambda x: torch.cumsum(x, 1),
        ("transforms", "rfft rows"): torch.fft.rfft,
        ("transforms", "fft2"): torch.fft.fft2,
        ("algebra", "cholesky 1024"): torch.linalg.cholesky,
        ("algebra", "solve 64 x 128"): lambda a: torch.linalg.solve(a, a[..., :8]),
    }

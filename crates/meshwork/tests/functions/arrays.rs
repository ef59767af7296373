//! Arrangement, statistics, sorted sequences, loops.

use meshwork::prelude::*;
use meshwork::{
    arange_from, associative_scan, block_diag, broadcast_arrays, fori_loop, geomspace, hstack, logspace, map, meshgrid,
    polyfit, switch, tri, tril_indices, triu_indices, unravel_index, vander, vstack,
};

use super::{Case, plain, smooth, whole};

pub(super) const CASES: &[Case] = &[
    smooth("numpy.transpose", |x| vec![x[0].transpose()]),
    smooth("numpy.moveaxis", |x| vec![x[0].moveaxis(0, 2)]),
    smooth("numpy.repeat", |x| vec![x[0].repeat(3, 1)]),
    smooth("numpy.repeat.counts", |x| vec![x[0].repeat_by(&x[1], 7, 0)]),
    smooth("numpy.tile", |x| vec![x[0].tile(2, 1)]),
    smooth("numpy.roll", |x| vec![x[0].roll(2, 1)]),
    smooth("numpy.flip", |x| vec![x[0].flip(&[1])]),
    smooth("numpy.unstack", |x| x[0].unstack(0)),
    smooth("numpy.array_split", |x| x[0].array_split(4, 1)),
    smooth("numpy.split.at", |x| x[0].split_at(&[2, 3], 1)),
    smooth("lax.collapse", |x| vec![x[0].collapse(1, 2)]),
    plain("numpy.atleast_1d", |x| vec![x[0].atleast_1d()]),
    plain("numpy.atleast_2d", |x| vec![x[0].atleast_2d()]),
    smooth("numpy.rot90", |x| vec![x[0].rot90(3, [0, 1])]),
    smooth("lax.broadcast_in_dim", |x| vec![x[0].broadcast_in_dim([2, 4, 3, 6], &[1, 3])]),
    smooth("lax.dynamic_slice_in_dim", |x| vec![x[0].dynamic_slice_in_dim(&x[1], 3, 1)]),
    smooth("lax.dynamic_update_slice_in_dim", |x| vec![x[0].dynamic_update_slice_in_dim(&x[1], &x[2], 1)]),
    smooth("lax.dynamic_index_in_dim", |x| vec![x[0].dynamic_index_in_dim(&x[1], 0)]),
    smooth("lax.dynamic_update_index_in_dim", |x| vec![x[0].dynamic_update_index_in_dim(&x[1], &x[2], 0)]),
    smooth("lax.index_in_dim", |x| vec![x[0].index_in_dim(-1, 1)]),
    smooth("numpy.vstack", |x| vec![vstack(x)]),
    smooth("numpy.hstack", |x| vec![hstack(x)]),
    smooth("numpy.broadcast_arrays", |x| broadcast_arrays(&[&x[0], &x[1]])),
    smooth("numpy.triu", |x| vec![x[0].triu(1)]),
    smooth("numpy.tril", |x| vec![x[0].tril(-1)]),
    smooth("numpy.diag", |x| vec![x[0].diag(2)]),
    smooth("numpy.diag.matrix", |x| vec![x[0].diag(-1)]),
    smooth("numpy.diagonal", |x| vec![x[0].diagonal(1)]),
    smooth("numpy.trace", |x| vec![x[0].trace()]),
    smooth("numpy.outer", |x| vec![x[0].outer(&x[1])]),
    smooth("numpy.kron", |x| vec![x[0].kron(&x[1])]),
    smooth("numpy.vecdot", |x| vec![x[0].vecdot(&x[1])]),
    smooth("numpy.tensordot", |x| vec![x[0].tensordot(&x[1], 2)]),
    smooth("numpy.cross", |x| vec![x[0].cross(&x[1])]),
    whole("numpy.tri", |_| vec![tri(3, 4, 1, F32)]),
    whole("numpy.tril_indices", |_| {
        let (rows, columns) = tril_indices(4, -1);
        vec![rows, columns]
    }),
    whole("numpy.triu_indices", |_| {
        let (rows, columns) = triu_indices(4, 1);
        vec![rows, columns]
    }),
    smooth("numpy.meshgrid", |x| meshgrid(&[&x[0], &x[1]])),
    smooth("scipy.linalg.block_diag", |x| vec![block_diag(&[&x[0], &x[1]])]),
    plain("numpy.unravel_index", |x| unravel_index(&x[0], &[2, 3, 4])),
    plain("numpy.vander", |x| vec![vander(&x[0], 4)]),
    whole("numpy.geomspace", |_| vec![geomspace(1.0, 100.0, 5, F32)]),
    whole("numpy.logspace", |_| vec![logspace(0.0, 2.0, 5, 10.0, F32)]),
    whole("numpy.arange", |_| vec![arange_from(2.0, 11.0, 3.0, I32)]),
    smooth("numpy.std", |x| vec![x[0].std(&[1])]),
    smooth("numpy.var.sample", |x| vec![x[0].var_of_sample(&[1], 1)]),
    smooth("numpy.average", |x| vec![x[0].average(&x[1], 1)]),
    smooth("numpy.median", |x| vec![x[0].median(0)]),
    smooth("numpy.quantile", |x| vec![x[0].quantile(0.3, 1)]),
    smooth("numpy.percentile", |x| vec![x[0].percentile(80.0, 1)]),
    smooth("numpy.ptp", |x| vec![x[0].ptp(&[1])]),
    smooth("numpy.cov", |x| vec![x[0].cov()]),
    plain("numpy.corrcoef", |x| vec![x[0].corrcoef()]),
    plain("numpy.count_nonzero", |x| vec![x[0].count_nonzero(&[1])]),
    plain("numpy.bincount", |x| vec![x[0].bincount(5)]),
    plain("numpy.histogram", |x| {
        let (counts, edges) = x[0].histogram(4, -1.0, 1.0);
        vec![counts, edges]
    }),
    smooth("numpy.diff", |x| vec![x[0].diff(2, 1)]),
    smooth("numpy.trapezoid", |x| vec![x[0].trapezoid(0.5)]),
    smooth("numpy.gradient", |x| vec![x[0].gradient(0.5, 1)]),
    smooth("numpy.polyval", |x| vec![x[0].polyval(&x[1])]),
    smooth("numpy.interp", |x| vec![x[0].interp(&x[1], &x[2])]),
    smooth("numpy.convolve", |x| vec![x[0].convolve(&x[1])]),
    smooth("numpy.correlate", |x| vec![x[0].correlate(&x[1])]),
    plain("numpy.polyfit", |x| vec![polyfit(&x[0], &x[1], 2)]).near(2e-4),
    plain("numpy.searchsorted", |x| vec![x[0].searchsorted(&x[1])]),
    plain("numpy.searchsorted.right", |x| vec![x[0].searchsorted_right(&x[1])]),
    plain("numpy.digitize", |x| vec![x[0].digitize(&x[1])]),
    plain("numpy.argwhere", |x| vec![x[0].gt(2).argwhere(8, -1)]),
    plain("numpy.nonzero", |x| x[0].gt(2).nonzero(8, -1)),
    plain("numpy.unique", |x| {
        let (values, counts) = x[0].unique_counts(8, -1);
        vec![values, counts]
    }),
    plain("numpy.intersect1d", |x| vec![x[0].intersect1d(&x[1], 6, -1)]),
    plain("numpy.union1d", |x| vec![x[0].union1d(&x[1], 9, -1)]),
    plain("numpy.isin", |x| vec![x[0].isin(&x[1])]),
    plain("lax.sort_key_val", |x| {
        let (keys, values) = x[0].sort_key_val(&x[1], 0);
        vec![keys, values]
    }),
    plain("numpy.lexsort", |x| vec![Tensor::lexsort(x)]),
    smooth("lax.associative_scan", |x| {
        type Pair = (Tensor, Tensor);
        let (a, b) = associative_scan(|p: Pair, q: Pair| (&p.0 * &q.0, p.1 * q.0 + q.1), (x[0].clone(), x[1].clone()));
        vec![a, b]
    }),
    plain("lax.switch", |x| vec![switch(&x[0], &[&|| x[1].sin(), &|| &x[1] * 2.0, &|| x[1].exp()])]),
    smooth("lax.map", |x| vec![map(|row: Tensor| row.square().sum_all(), x[0].clone())]),
    plain("lax.fori_loop", |x| vec![fori_loop(1, &x[0], x[1].clone(), |i, x| x * i.to(F32))]),
];

//! Attribute values that several builders share.

use std::sync::Arc;

use crate::{Attr, Dense, DenseData, ElementType, TensorType};

/// A constant of shape rows x `width`.
pub(super) fn matrix(rows: &[Vec<i64>], width: usize) -> Attr {
    let ty = TensorType::new([rows.len() as i64, width as i64], ElementType::I64);
    let bytes: Vec<u8> = rows.iter().flatten().flat_map(|v| v.to_le_bytes()).collect();
    Attr::Dense(Arc::new(Dense { ty: Arc::new(ty), data: DenseData::Full(bytes.into()) }))
}

/// Pairs of low and high padding.
pub(super) fn pairs(pairs: &[(i64, i64)]) -> Attr {
    let rows: Vec<Vec<i64>> = pairs.iter().map(|&(low, high)| vec![low, high]).collect();
    matrix(&rows, 2)
}

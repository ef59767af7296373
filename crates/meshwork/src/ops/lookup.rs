//! Rows at computed positions: take and scatter.

use meshwork_ir::attr::{GatherDims, ScatterDims};
use meshwork_ir::op::BinaryOp;
use meshwork_ir::{OpKind, OpSpec, Type};

use super::broadcast::same_dtype;
use crate::Tensor;
use crate::error::fail;
use crate::trace::compose::{emit, emit_all};

impl Tensor {
    /// The slices at `positions` along `axis`: that dimension becomes the dimensions of `positions`.
    ///
    /// Positions outside the tensor mean its ends.
    ///
    /// ```
    /// use meshwork::prelude::*;
    ///
    /// let f = jit(|table: Tensor, ids: Tensor| table.take(&ids, 0));
    /// let table = Array::from_vec([3, 2], vec![0.0f32, 1.0, 10.0, 11.0, 20.0, 21.0])?;
    /// assert_eq!(f.call((&table, &Array::from([2i32, 0])))?.to_vec::<f32>()?, [20.0, 21.0, 0.0, 1.0]);
    /// # Ok::<(), meshwork::Error>(())
    /// ```
    #[track_caller]
    pub fn take(&self, positions: &Tensor, axis: i64) -> Tensor {
        let axis = self.axis("take", axis);
        check_positions("take", positions);
        let mut sizes = self.shape().to_vec();
        sizes[axis] = 1;
        let k = positions.rank();
        // Dimensions before `axis`, then those of the positions, then the rest.
        let offset = (0..self.rank() - 1).map(|d| if d < axis { d } else { d + k } as i64).collect();
        let dims = GatherDims {
            offset_dims: offset,
            collapsed_slice_dims: vec![axis as i64],
            start_index_map: vec![axis as i64],
            index_vector_dim: k as i64,
            ..GatherDims::default()
        };
        emit("take", &[self, positions], |b, v| b.gather(v[0], v[1], dims, &sizes))
    }

    /// For each element of `positions`, the element at that position along `axis`; the other positions are its own.
    #[track_caller]
    pub fn take_along(&self, positions: &Tensor, axis: i64) -> Tensor {
        let axis = self.axis("take_along", axis);
        check_positions("take_along", positions);
        let differs = |d: usize| d != axis && self.shape()[d] != positions.shape()[d];
        if positions.rank() != self.rank() || (0..self.rank()).any(differs) {
            let (x, p) = (self.shape(), positions.shape());
            fail("take_along", format!("positions of shape {p:?} do not fit {x:?}: only axis {axis} may differ"));
        }
        let others: Vec<i64> = (0..self.rank() as i64).filter(|&d| d as usize != axis).collect();
        let dims = GatherDims {
            collapsed_slice_dims: vec![axis as i64],
            operand_batching_dims: others.clone(),
            start_indices_batching_dims: others,
            start_index_map: vec![axis as i64],
            index_vector_dim: self.rank() as i64,
            ..GatherDims::default()
        };
        let sizes = vec![1; self.rank()];
        emit("take_along", &[self, positions], |b, v| b.gather(v[0], v[1], dims, &sizes))
    }

    /// The tensor with `updates` in place of the slices at `positions` along `axis`. Of equal positions one wins;
    /// positions outside are left out.
    #[track_caller]
    pub fn scatter_set(&self, positions: &Tensor, updates: &Tensor, axis: i64) -> Tensor {
        self.scatter("scatter_set", None, positions, updates, axis)
    }

    /// The tensor with `updates` added to the slices at `positions` along `axis`; positions outside are left out.
    #[track_caller]
    pub fn scatter_add(&self, positions: &Tensor, updates: &Tensor, axis: i64) -> Tensor {
        self.scatter("scatter_add", Some(OpKind::Binary(BinaryOp::Add)), positions, updates, axis)
    }

    /// The tensor with the larger of itself and `updates` at `positions` along `axis`; positions outside are left
    /// out.
    #[track_caller]
    pub fn scatter_max(&self, positions: &Tensor, updates: &Tensor, axis: i64) -> Tensor {
        self.scatter("scatter_max", Some(OpKind::Binary(BinaryOp::Maximum)), positions, updates, axis)
    }

    /// The tensor with the smaller of itself and `updates` at `positions` along `axis`; positions outside are left
    /// out.
    #[track_caller]
    pub fn scatter_min(&self, positions: &Tensor, updates: &Tensor, axis: i64) -> Tensor {
        self.scatter("scatter_min", Some(OpKind::Binary(BinaryOp::Minimum)), positions, updates, axis)
    }

    #[track_caller]
    fn scatter(&self, op: &str, combine: Option<OpKind>, positions: &Tensor, updates: &Tensor, axis: i64) -> Tensor {
        let axis = self.axis(op, axis);
        check_positions(op, positions);
        same_dtype(op, self, updates);
        let k = positions.rank();
        let x = self.shape();
        let wanted = [&x[..axis], positions.shape(), &x[axis + 1..]].concat();
        if updates.shape() != wanted {
            fail(op, format!("updates of shape {:?}, where {wanted:?} are needed", updates.shape()));
        }
        let dims = ScatterDims {
            update_window_dims: (0..self.rank() - 1).map(|d| if d < axis { d } else { d + k } as i64).collect(),
            inserted_window_dims: vec![axis as i64],
            scatter_dims_to_operand_dims: vec![axis as i64],
            index_vector_dim: k as i64,
            ..ScatterDims::default()
        };
        let out = emit_all(op, &[self, positions, updates], |b, v| {
            b.scatter(&[v[0]], v[1], &[v[2]], dims, |b, a| match combine {
                Some(kind) => Ok([b.value(OpSpec::new(kind).operands([a[0], a[1]]))?]),
                None => Ok([a[1]]),
            })
        });
        out[0].clone()
    }

    /// For integers: each as a row of `classes` zeros with a one at its position.
    #[track_caller]
    pub fn one_hot(&self, classes: impl crate::Int, dtype: meshwork_ir::ElementType) -> Tensor {
        check_positions("one_hot", self);
        let mut shape = self.shape().to_vec();
        shape.push(classes.int());
        let map: Vec<i64> = (0..self.rank() as i64).collect();
        let wide = self.spread("one_hot", Type::tensor(shape.iter().copied(), self.dtype()), &map);
        wide.eq(super::create::iota(&shape, self.dtype(), -1)).to(dtype)
    }
}

#[track_caller]
fn check_positions(op: &str, positions: &Tensor) {
    if !positions.dtype().is_integer() {
        fail(op, format!("positions are {}; they must be integers", positions.describe()));
    }
}

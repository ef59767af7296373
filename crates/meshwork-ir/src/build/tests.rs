//! What is built is legal; what is wrong is refused with a place and leaves nothing behind.

use proptest::prelude::*;

use super::*;
use crate::attr::{ConvDims, DotDims, GatherDims, ScatterDims};
use crate::op::BinaryOp;
use crate::verify::verify;
use crate::{ElementType, Literal};

const F32: ElementType = ElementType::F32;

fn types(f: &Builder, values: &[ValueId]) -> String {
    crate::infer::type_list(values.iter().map(|&v| f.ty(v)))
}

#[test]
fn errors_name_operation_and_location() {
    let mut module = Module::new();
    let mut f = FuncBuilder::new(&mut module, "main", [Type::tensor([2], F32), Type::tensor([3], F32)]);
    f.set_loc(Loc::file("model.py", 12, 7));
    let (x, y) = (f.arg(0), f.arg(1));
    let e = f.add(x, y).expect_err("shapes differ");
    assert_eq!(
        e.to_string(),
        "'stablehlo.add' op operand 1 (rhs) must be of the type of operand 0 (lhs), tensor<2xf32>, but is tensor<3xf32> (at model.py:12:7)"
    );
}

#[test]
fn a_failed_body_leaves_no_uses() {
    let mut module = Module::new();
    let mut f = FuncBuilder::new(&mut module, "main", [Type::tensor([2], F32), Type::tensor([], F32)]);
    let (x, zero) = (f.arg(0), f.arg(1));
    let e = f.reduce(&[x], &[zero], &[0], |b, args| Ok([b.and(args[0], args[1])?]));
    assert!(e.is_err());
    assert!(f.module().value(x).uses().is_empty());
    f.finish([x]).expect("returns x");
    assert_eq!(verify(&module), []);
}

#[test]
fn a_reduction_that_does_not_combine_leaves_no_uses() {
    let mut module = Module::new();
    let scalar = |elem| Type::tensor([], elem);
    let args = [Type::tensor([2], F32), scalar(F32), scalar(ElementType::F64)];
    let mut f = FuncBuilder::new(&mut module, "main", args);
    let (x, zero, wide) = (f.arg(0), f.arg(1), f.arg(2));
    let mut error = |kind, init, dims: &[i64]| {
        let e = f.reduce_by(OpKind::Binary(kind), x, init, dims).expect_err("it does not combine");
        assert!(f.module().value(x).uses().is_empty());
        e.to_string()
    };
    assert_eq!(
        error(BinaryOp::Add, zero, &[1]),
        "'stablehlo.reduce' op attribute 'dimensions' lists 1, which is not a dimension of a tensor of rank 1"
    );
    assert!(error(BinaryOp::And, zero, &[0]).starts_with("'stablehlo.and' op operand 0 (lhs) must be"));
    assert!(error(BinaryOp::Add, wide, &[0]).starts_with("'stablehlo.add' op operand 1 (rhs) must be"));
    assert_eq!(
        error(BinaryOp::Complex, zero, &[0]),
        "'stablehlo.reduce' op body returns tensor<complex<f32>> as value 0, but its argument 0 is tensor<f32>"
    );
    f.finish([x]).expect("returns x");
    assert_eq!(verify(&module), []);
}

#[test]
fn control_flow() {
    let mut module = Module::new();
    let scalar = Type::tensor([], ElementType::I32);
    let mut f = FuncBuilder::new(&mut module, "main", [scalar.clone(), Type::tensor([4], F32)]);
    let (n, x) = (f.arg(0), f.arg(1));
    let zero = f.scalar(ElementType::I32, 0.0).expect("a constant");
    let out = f
        .while_loop(
            &[zero, x],
            |b, args| Ok([b.compare(Direction::Lt, args[0], n)?]),
            |b, args| {
                let one = b.scalar(ElementType::I32, 1.0)?;
                Ok([b.add(args[0], one)?, b.multiply(args[1], args[1])?])
            },
        )
        .expect("a loop");
    let pred = f.compare(Direction::Eq, out[0], n).expect("a predicate");
    let chosen = f.if_else(pred, |_| Ok([x]), |b| Ok([b.negate(x)?])).expect("a branch");
    let picked = f.case(n, 3, |b, i| Ok([if i == 0 { x } else { b.abs(x)? }])).expect("a case");
    assert_eq!(types(&f, &[chosen[0], picked[0]]), "(tensor<4xf32>, tensor<4xf32>)");
    let sorted = f
        .sort(&[x], 0, Stability::Stable, |b, args| Ok([b.compare(Direction::Lt, args[0], args[1])?]))
        .expect("a sort");
    f.finish([out[0], chosen[0], picked[0], sorted[0]]).expect("results");
    assert_eq!(verify(&module), []);
}

#[test]
fn every_family_builds_legal_programs() {
    let mut module = Module::new();
    build_families(&mut module).expect("all operands fit");
    assert_eq!(verify(&module), []);
}

fn build_families(module: &mut Module) -> Result<(), BuildError> {
    let mut f = FuncBuilder::new(module, "main", [Type::tensor([2, 3], F32), Type::tensor([3, 5], F32)]);
    let (x, y) = (f.arg(0), f.arg(1));
    let dot = f.dot(x, y)?;
    let dims = DotDims { lhs_contract: vec![1], rhs_contract: vec![0], ..DotDims::default() };
    let general = f.dot_general(x, y, dims)?;
    let zero = f.scalar(F32, 0.0)?;
    let padded = f.pad(general, zero, &[1, 0], &[0, -1], &[1, 0])?;
    let turned = f.transpose(padded, &[1, 0])?;
    let flat = f.reshape(turned, [16])?;
    let wide = f.broadcast_in_dim(flat, [2, 16], &[1])?;
    let part = f.slice(wide, &[0, 2], &[2, 16], &[1, 3])?;
    let both = f.concatenate(&[part, part], 1)?;
    let back = f.reverse(both, &[0])?;
    let window = Window { sizes: vec![1, 2], strides: vec![1, 2], padding: vec![(0, 0), (1, 1)], ..Window::default() };
    let pooled = f.reduce_window(&[back], &[zero], &window, |b, a| Ok([b.maximum(a[0], a[1])?]))?[0];
    assert_eq!(types(&f, &[dot, back, pooled]), "(tensor<2x5xf32>, tensor<2x10xf32>, tensor<2x6xf32>)");
    let spread = f.select_and_scatter(
        back,
        pooled,
        zero,
        &window,
        |b, a| Ok([b.compare(Direction::Ge, a[0], a[1])?]),
        |b, a| Ok([b.add(a[0], a[1])?]),
    )?;
    let index = f.constant(&Literal::zeros([3, 1], ElementType::I32))?;
    let take = GatherDims {
        offset_dims: vec![1],
        collapsed_slice_dims: vec![0],
        start_index_map: vec![0],
        index_vector_dim: 1,
        ..GatherDims::default()
    };
    let taken = f.gather(y, index, take, &[1, 5])?;
    let put = ScatterDims {
        update_window_dims: vec![1],
        inserted_window_dims: vec![0],
        scatter_dims_to_operand_dims: vec![0],
        index_vector_dim: 1,
        ..ScatterDims::default()
    };
    let scattered = f.scatter(&[y], index, &[taken], put, |b, a| Ok([b.add(a[0], a[1])?]))?[0];
    let start = f.scalar(ElementType::I32, 1.0)?;
    let piece = f.dynamic_slice(scattered, &[start, start], &[1, 2])?;
    let updated = f.dynamic_update_slice(scattered, piece, &[start, start])?;
    let mapped = f.map(&[updated], |b, a| Ok([b.tanh(a[0])?]))?;
    let count = f.iota(Type::tensor([4, 4], F32), 1)?;
    let root = f.cholesky(count, Half::Lower)?;
    let system = Triangle { left: true, lower: true, unit_diagonal: false };
    let solved = f.triangular_solve(root, count, system, "ADJOINT")?;
    let ones = f.splat([4], F32, 1.0)?;
    let normed = f.batch_norm_training(solved, ones, ones, 0.1, 1)?;
    let applied = f.batch_norm_inference(solved, [ones, ones, normed[1], normed[2]], 0.1, 1)?;
    let back_norm = f.batch_norm_grad(solved, [ones, normed[1], normed[2]], applied, 0.1, 1)?;
    let (largest, _) = f.top_k(applied, 2)?;
    assert_eq!(types(&f, &[normed[0], back_norm[1], largest]), "(tensor<4x4xf32>, tensor<4xf32>, tensor<4x2xf32>)");
    let wave = f.fft(root, "RFFT", &[4])?;
    let conv = ConvDims {
        input_batch: 0,
        input_feature: 1,
        input_spatial: vec![2],
        kernel_input_feature: 1,
        kernel_output_feature: 0,
        kernel_spatial: vec![2],
        output_batch: 0,
        output_feature: 1,
        output_spatial: vec![2],
    };
    let image = f.reshape(count, [1, 2, 8])?;
    let kernel = f.splat([4, 2, 3], F32, 0.5)?;
    let config = Convolution { padding: vec![(1, 1)], strides: vec![2], ..Convolution::new(conv) };
    let filtered = f.convolution(image, kernel, config)?;
    assert_eq!(types(&f, &[filtered, wave, spread]), "(tensor<1x4x4xf32>, tensor<4x3xcomplex<f32>>, tensor<2x10xf32>)");
    let groups = Groups::devices(vec![vec![0, 1]], 1);
    let gathered = f.all_gather(mapped, 0, &groups)?;
    let summed = f.all_reduce(gathered, &groups, |b, a| Ok([b.add(a[0], a[1])?]))?;
    let parted = f.reduce_scatter(summed, 0, &groups, |b, a| Ok([b.add(a[0], a[1])?]))?;
    let swapped = f.all_to_all(gathered, 0, 1, &Groups::replicas(vec![vec![0, 1]]))?;
    let moved = f.collective_permute(parted, &[(0, 1), (1, 0)], Some(2))?;
    assert_eq!(
        types(&f, &[gathered, parted, swapped, moved]),
        "(tensor<6x5xf32>, tensor<3x5xf32>, tensor<3x10xf32>, tensor<3x5xf32>)"
    );
    let pair = f.tuple(&[x, y])?;
    let second = f.get_tuple_element(pair, 1)?;
    let called = f.custom_call("outside", &[second], [Type::tensor([3], F32)])?[0];
    let fixed = f.optimization_barrier(&[called, x])?;
    f.finish([fixed[0], moved, swapped, wave, filtered, spread])?;
    Ok(())
}

#[test]
fn meshes_come_first() {
    let mut module = Module::new();
    FuncBuilder::new(&mut module, "main", []).finish([]).expect("returns");
    for name in ["a", "b"] {
        add_mesh(&mut module, name, meshwork_mesh::Mesh::linear("x", 2).expect("a mesh"));
    }
    let names: Vec<_> = module.ops_in(module.body()).filter_map(|op| module.symbol_name(op)).collect();
    assert_eq!(names, ["a", "b", "main"]);
    assert_eq!(verify(&module), []);
}

/// One step of a random program on one-dimensional and two-dimensional tensors.
fn step(f: &mut Builder, values: &mut Vec<ValueId>, op: u8, a: usize, b: usize) {
    let (x, y) = (values[a % values.len()], values[b % values.len()]);
    let dims: Vec<i64> = f.ty(x).dims().to_vec();
    let built = match op % 9 {
        0 => f.add(x, y),
        1 => f.negate(x),
        2 => f.transpose(x, &(0..dims.len() as i64).rev().collect::<Vec<_>>()),
        3 => f.concatenate(&[x, y], 0),
        4 => f.dot(x, y),
        5 => f.reshape(x, [dims.iter().product()]),
        6 => f.reverse(x, &[0]),
        7 => f.broadcast_in_dim(
            x,
            [3].into_iter().chain(dims.iter().copied()),
            &(1..=dims.len() as i64).collect::<Vec<_>>(),
        ),
        _ => f.slice(x, &vec![0; dims.len()], &dims.iter().map(|d| d / 2).collect::<Vec<_>>(), &vec![1; dims.len()]),
    };
    // Operands that do not fit are refused; that is the point.
    values.extend(built.ok().filter(|&v| f.ty(v).dims().iter().product::<i64>() < 1 << 20));
}

proptest! {
    #[test]
    fn whatever_builds_verifies(steps in prop::collection::vec((any::<u8>(), any::<usize>(), any::<usize>()), 0..60)) {
        let mut module = Module::new();
        let args = [Type::tensor([4], F32), Type::tensor([4, 0], F32), Type::tensor([2, 4], F32), Type::tensor([4, 3], F32)];
        let mut f = FuncBuilder::new(&mut module, "main", args);
        let mut values = f.args().to_vec();
        for (op, a, b) in steps {
            step(&mut f, &mut values, op, a, b);
        }
        f.finish(values).expect("any values can be returned");
        prop_assert_eq!(verify(&module), []);
    }
}

//! One arm per operation: takes its attributes apart and calls the file that computes it.

use super::attrs::{self, index, int, ints, ints_or};
use super::error::EvalError;
use super::fault::Fault;
use super::index::{index_at, indices_of};
use super::machine::Machine;
use super::value::{Val, last_bytes};
use super::{
    batch_norm, check, collective, contract, control, conv, custom_call, elementwise, fft, gather, linalg, manual,
    movement, parallel, ragged, reduce, rng, sort, window,
};
use meshwork_ir::Scalar;
use meshwork_ir::op::{
    BodyOp, CheckOp, ChloOp, ContractOp, ControlOp, DynamicOp, LinalgOp, MovementOp, SdyOp, SourceOp, TokenOp,
};
use meshwork_ir::{Attr, Literal, OpId, OpKind, TensorType};

/// Runs operation `op` on its operands.
pub(crate) fn execute(m: &mut Machine<'_>, op: OpId, args: Vec<Val>) -> Result<Vec<Val>, EvalError> {
    match m.module.op(op).kind() {
        OpKind::Control(ControlOp::Module | ControlOp::Func) | OpKind::Sdy(SdyOp::Mesh) => {
            Err(EvalError::invalid(m.module, op, "can not stand in a body that is run"))
        }
        OpKind::Control(ControlOp::FuncReturn | ControlOp::HloReturn) | OpKind::Sdy(SdyOp::Return) => {
            Err(EvalError::invalid(m.module, op, "is not the last operation of its block"))
        }
        OpKind::Unregistered => Err(EvalError::unsupported(m.module, op, "no such operation is known")),

        OpKind::Control(ControlOp::Call | ControlOp::Composite) => control::call(m, op, args),
        OpKind::Control(ControlOp::Case | ControlOp::If) => control::branch(m, op, args),
        OpKind::Control(ControlOp::While) => control::while_loop(m, op, args),
        OpKind::Chlo(ChloOp::Scan) => control::scan(m, op, args),
        OpKind::Control(ControlOp::AsyncStart) | OpKind::Sdy(SdyOp::NamedComputation) => control::inline(m, op, args),
        OpKind::Sdy(SdyOp::ManualComputation) => manual::execute(m, op, args),

        OpKind::Collective(_) => collective::execute(m, op, args),
        OpKind::Token(TokenOp::Infeed | TokenOp::Outfeed | TokenOp::Recv | TokenOp::Send)
        | OpKind::Check(CheckOp::RunParallel) => parallel::execute(m, op, args),
        OpKind::Check(CheckOp::Print | CheckOp::Probe | CheckOp::ExpectSerializedEq) => parallel::observe(m, op, args),

        OpKind::Token(TokenOp::AfterAll | TokenOp::CreateToken) => Ok(vec![Val::Token]),
        OpKind::Token(TokenOp::Tuple) => Ok(vec![Val::Tuple(args)]),
        OpKind::Control(ControlOp::AsyncDone) => match args.into_iter().next() {
            Some(Val::Tuple(parts)) => Ok(parts),
            _ => Err(EvalError::invalid(m.module, op, "its operand is not an operation that was started")),
        },
        OpKind::Token(TokenOp::GetTupleElement) => match (args.into_iter().next(), index(m.module.op(op), "index")) {
            (Some(Val::Tuple(mut parts)), Ok(i)) if i < parts.len() => Ok(vec![parts.swap_remove(i)]),
            _ => Err(EvalError::invalid(m.module, op, "there is no such element in the tuple")),
        },
        OpKind::Control(ControlOp::OptimizationBarrier)
        | OpKind::Sdy(
            SdyOp::AllGather
            | SdyOp::AllReduce
            | SdyOp::AllSlice
            | SdyOp::AllToAll
            | SdyOp::CollectivePermute
            | SdyOp::DataFlowEdge
            | SdyOp::FuncDataFlowEdge
            | SdyOp::PropagationBarrier
            | SdyOp::ReduceScatter
            | SdyOp::ReplicatedToUnreduced
            | SdyOp::Reshard
            | SdyOp::ShardedToUnreduced
            | SdyOp::ShardingConstraint,
        ) => Ok(args),
        OpKind::Sdy(SdyOp::ShardingGroup) => Ok(vec![]),

        OpKind::Check(
            CheckOp::ExpectAlmostEq
            | CheckOp::ExpectAlmostEqConst
            | CheckOp::ExpectClose
            | CheckOp::ExpectEq
            | CheckOp::ExpectEqConst,
        ) => {
            let result = tensors(&args).map_err(|f| f.at(m.module, op))?;
            Ok(check::evaluate(m.module, op, &result)?.map(|x| m.hold(x)).into_iter().collect())
        }
        OpKind::Control(ControlOp::CustomCall) => {
            let module = m.module;
            let results = custom_call::execute(m, op, args).map_err(|fault| fault.at(module, op))?;
            Ok(results.into_iter().map(|x| m.hold(x)).collect())
        }

        // Everything else takes tensors and gives tensors.
        _ => {
            let module = m.module;
            let in_place = matches!(
                module.op(op).kind(),
                OpKind::Movement(MovementOp::DynamicUpdateSlice)
                    | OpKind::Body(BodyOp::Scatter)
                    | OpKind::Movement(MovementOp::Reshape)
                    | OpKind::Dynamic(DynamicOp::Reshape)
            );
            let consumed = if in_place { 0 } else { last_bytes(&args) };
            let results = compute(m, op, args).map_err(|fault| fault.at(module, op))?;
            let results = results.into_iter().map(|x| m.hold(x)).collect();
            m.meter.note(consumed);
            Ok(results)
        }
    }
}

/// All operands as tensors.
pub(crate) fn tensors(args: &[Val]) -> Result<Vec<&Literal>, Fault> {
    args.iter().map(Val::tensor).collect()
}

fn compute(m: &mut Machine<'_>, id: OpId, args: Vec<Val>) -> Result<Vec<Literal>, Fault> {
    let module = m.module;
    let op = module.op(id);
    let result = |i: usize| -> Result<&TensorType, Fault> {
        let ty = op.results().get(i).and_then(|&v| module.ty(v).as_tensor());
        ty.ok_or_else(|| Fault::invalid(format!("result {i} is missing or no tensor")))
    };
    let result_dims = || -> Result<&[i64], Fault> {
        let ty = result(0)?;
        match ty.is_static() {
            true => Ok(&ty.dims),
            false => Err(Fault::unsupported(format!("a result of dynamic shape, {ty}"))),
        }
    };
    let elems = || (0..op.results().len()).map(|i| result(i).map(|t| t.elem)).collect::<Result<Vec<_>, _>>();
    let at_least = |n: usize| match args.len() >= n {
        true => Ok(()),
        false => Err(Fault::invalid(format!("{} operands where {n} are needed", args.len()))),
    };
    let x = |i: usize| -> Result<&Literal, Fault> {
        args.get(i).ok_or_else(|| Fault::invalid(format!("operand {i} is missing")))?.tensor()
    };
    let starts =
        |from: usize| -> Result<Vec<i64>, Fault> { (from..args.len()).map(|i| Ok(index_at(x(i)?, 0))).collect() };
    let kind = op.kind();
    let one = match kind {
        OpKind::Unary(_) | OpKind::Binary(_) | OpKind::Mixed(_) => elementwise::evaluate(module, id, &tensors(&args)?)?,

        OpKind::Source(SourceOp::Constant) | OpKind::Sdy(SdyOp::Constant) | OpKind::Chlo(ChloOp::Constant) => {
            match op.attr("value") {
                Some(Attr::Dense(dense)) => dense
                    .to_literal()
                    .ok_or_else(|| Fault::invalid("the elements of the constant are not in the file"))?,
                _ => return Err(attrs::missing("value", "a dense constant")),
            }
        }
        OpKind::Chlo(ChloOp::ConstantLike) => {
            let elem = result(0)?.elem;
            let value = match op.attr("value") {
                Some(Attr::Int(v, _)) => Scalar::from_i64(elem, *v),
                Some(Attr::Float(v, _)) => Scalar::from_f64(elem, *v),
                Some(Attr::Bool(b)) => Scalar::from_i64(elem, i64::from(*b)),
                _ => return Err(attrs::missing("value", "a number")),
            };
            super::value::filled(x(0)?.dims(), &Literal::scalar(elem, value))?
        }
        OpKind::Source(SourceOp::Iota) => {
            movement::iota(result_dims()?, result(0)?.elem, index(op, "iota_dimension")?)?
        }
        OpKind::Dynamic(DynamicOp::Iota) => {
            movement::iota(&indices_of(x(0)?), result(0)?.elem, index(op, "iota_dimension")?)?
        }
        OpKind::Source(SourceOp::PartitionId) => {
            let id = m.site.device % m.site.grid.partitions;
            Literal::scalar(result(0)?.elem, Scalar::UInt(id as u64))
        }
        OpKind::Source(SourceOp::ReplicaId) => {
            let id = m.site.device / m.site.grid.partitions;
            Literal::scalar(result(0)?.elem, Scalar::UInt(id as u64))
        }
        OpKind::Source(SourceOp::Rng) => {
            let dims = indices_of(x(2)?);
            let distribution = op.enum_value("rng_distribution").unwrap_or("");
            rng::draw(distribution, x(0)?.get(0), x(1)?.get(0), &dims, result(0)?.elem, id.index() as u64)
                .map_err(Fault::Unsupported)?
        }
        OpKind::Source(SourceOp::RngBitGenerator) => {
            let algorithm = op.enum_value("rng_algorithm").unwrap_or("");
            let bits = result(1)?;
            let (state, bits) =
                rng::bit_generator(algorithm, x(0)?, &bits.dims, bits.elem).map_err(Fault::Unsupported)?;
            return Ok(vec![state, bits]);
        }

        OpKind::Movement(MovementOp::BitcastConvert) => {
            elementwise::bitcast_convert(x(0)?, result(0)?.elem).map_err(Fault::Invalid)?
        }
        OpKind::Movement(MovementOp::Broadcast) => {
            let sizes = ints(op, "broadcast_sizes")?;
            let dims = [&sizes, x(0)?.dims()].concat();
            let map: Vec<i64> = (sizes.len() as i64..dims.len() as i64).collect();
            movement::broadcast_in_dim(x(0)?, &dims, &map)?
        }
        OpKind::Movement(MovementOp::BroadcastInDim) => {
            movement::broadcast_in_dim(x(0)?, result_dims()?, &ints(op, "broadcast_dimensions")?)?
        }
        OpKind::Dynamic(DynamicOp::BroadcastInDim) => {
            movement::broadcast_in_dim(x(0)?, &indices_of(x(1)?), &ints(op, "broadcast_dimensions")?)?
        }
        OpKind::Movement(MovementOp::Concatenate) => {
            at_least(1)?;
            movement::concatenate(&tensors(&args)?, index(op, "dimension")?)?
        }
        OpKind::Movement(MovementOp::DynamicSlice) => {
            movement::dynamic_slice(x(0)?, &starts(1)?, &ints(op, "slice_sizes")?)?
        }
        OpKind::Movement(MovementOp::DynamicUpdateSlice) => {
            at_least(2)?;
            let starts = starts(2)?;
            let mut args = args;
            let update = args.swap_remove(1);
            // The operand is last now if there are no indices, still first otherwise.
            let mut target = args.swap_remove(0).into_literal()?;
            movement::dynamic_update_slice(&mut target, update.tensor()?, &starts);
            target
        }
        OpKind::Dynamic(DynamicOp::Slice) => {
            movement::slice(x(0)?, &indices_of(x(1)?), &indices_of(x(2)?), &indices_of(x(3)?))?
        }
        OpKind::Movement(MovementOp::Gather) => match op.attr("dimension_numbers") {
            Some(Attr::Gather(dims)) => gather::gather(x(0)?, x(1)?, dims, &ints(op, "slice_sizes")?)?,
            _ => return Err(attrs::missing("dimension_numbers", "#stablehlo.gather<...>")),
        },
        OpKind::Dynamic(DynamicOp::Gather) => match op.attr("dimension_numbers") {
            Some(Attr::Gather(dims)) => gather::gather(x(0)?, x(1)?, dims, &indices_of(x(2)?))?,
            _ => return Err(attrs::missing("dimension_numbers", "#stablehlo.gather<...>")),
        },
        OpKind::Movement(MovementOp::GetDimensionSize) => {
            let dim = index(op, "dimension")?;
            let size = x(0)?.dims().get(dim).ok_or_else(|| Fault::invalid(format!("there is no dimension {dim}")))?;
            Literal::scalar(result(0)?.elem, Scalar::Int(*size))
        }
        OpKind::Movement(MovementOp::SetDimensionSize) => {
            let dim = index(op, "dimension")?;
            let (dims, size) = (x(0)?.dims(), index_at(x(1)?, 0));
            if dims.get(dim).is_none_or(|&d| !(0..=d).contains(&size)) {
                return Err(Fault::invalid(format!("dimension {dim} of {dims:?} can not become {size} long")));
            }
            let mut limit = dims.to_vec();
            limit[dim] = size;
            movement::slice(x(0)?, &vec![0; limit.len()], &limit, &vec![1; limit.len()])?
        }
        OpKind::Movement(MovementOp::Pad) => movement::pad(
            x(0)?,
            x(1)?,
            &ints(op, "edge_padding_low")?,
            &ints(op, "edge_padding_high")?,
            &ints(op, "interior_padding")?,
        )?,
        OpKind::Dynamic(DynamicOp::Pad) => {
            movement::pad(x(0)?, x(1)?, &indices_of(x(2)?), &indices_of(x(3)?), &indices_of(x(4)?))?
        }
        OpKind::Movement(MovementOp::Reshape) => reshape(args, result_dims()?)?,
        OpKind::Dynamic(DynamicOp::Reshape) => {
            let dims = indices_of(x(1)?);
            reshape(args, &dims)?
        }
        OpKind::Movement(MovementOp::Reverse) => movement::reverse(x(0)?, &ints(op, "dimensions")?)?,
        OpKind::Movement(MovementOp::Slice) => {
            movement::slice(x(0)?, &ints(op, "start_indices")?, &ints(op, "limit_indices")?, &ints(op, "strides")?)?
        }
        OpKind::Movement(MovementOp::TorchIndexSelect) => {
            gather::torch_index_select(x(0)?, x(1)?, index(op, "dim")?, index(op, "batch_dims")?)?
        }
        OpKind::Movement(MovementOp::Transpose) => movement::transpose(x(0)?, &ints(op, "permutation")?)?,

        OpKind::Linalg(LinalgOp::Cholesky) => linalg::cholesky(x(0)?, op.flag("lower"))?,
        OpKind::Contract(ContractOp::Convolution) => {
            let conv = convolution(op, attrs::padding(op, x(0)?.dims().len().saturating_sub(2))?, x(0)?)?;
            conv::convolution(x(0)?, x(1)?, &conv, result(0)?.elem)?
        }
        OpKind::Dynamic(DynamicOp::Conv) => {
            let padding = indices_of(x(2)?).chunks_exact(2).map(|p| (p[0], p[1])).collect();
            conv::convolution(x(0)?, x(1)?, &convolution(op, padding, x(0)?)?, result(0)?.elem)?
        }
        OpKind::Contract(ContractOp::Dot) => contract::dot(x(0)?, x(1)?, result(0)?.elem)?,
        OpKind::Contract(ContractOp::DotGeneral) => match op.attr("dot_dimension_numbers") {
            Some(Attr::Dot(dims)) => contract::dot_general(x(0)?, x(1)?, dims, result(0)?.elem)?,
            _ => return Err(attrs::missing("dot_dimension_numbers", "#stablehlo.dot<...>")),
        },
        OpKind::Contract(ContractOp::Einsum | ContractOp::UnaryEinsum) => {
            let config = op.attr("einsum_config").and_then(Attr::as_str);
            let config = config.ok_or_else(|| attrs::missing("einsum_config", "a string"))?;
            at_least(1)?;
            contract::einsum(&tensors(&args)?, config, result(0)?.elem)?
        }
        OpKind::Chlo(ChloOp::RaggedDot) => ragged::ragged_dot(op, &tensors(&args)?, result(0)?)?,
        OpKind::Linalg(LinalgOp::Fft) => {
            let text = op.enum_value("fft_type").unwrap_or("");
            let kind = fft::Kind::from_text(text).ok_or_else(|| attrs::missing("fft_type", "a known transform"))?;
            fft::fft(x(0)?, kind, &ints(op, "fft_length")?, result(0)?.elem)?
        }
        OpKind::Linalg(LinalgOp::TriangularSolve) => {
            let transpose = match op.enum_value("transpose_a") {
                Some("TRANSPOSE") => linalg::Transpose::Yes,
                Some("ADJOINT") => linalg::Transpose::Adjoint,
                _ => linalg::Transpose::No,
            };
            let how = linalg::Triangular {
                left: op.flag("left_side"),
                lower: op.flag("lower"),
                unit: op.flag("unit_diagonal"),
                transpose,
            };
            linalg::triangular_solve(x(0)?, x(1)?, how)?
        }
        OpKind::Linalg(LinalgOp::BatchNormInference) => {
            batch_norm::inference(&tensors(&args)?, attrs::float(op, "epsilon")?, index(op, "feature_index")?)?
        }
        OpKind::Linalg(LinalgOp::BatchNormTraining) => {
            return batch_norm::training(&tensors(&args)?, attrs::float(op, "epsilon")?, index(op, "feature_index")?);
        }
        OpKind::Linalg(LinalgOp::BatchNormGrad) => {
            return batch_norm::gradient(&tensors(&args)?, attrs::float(op, "epsilon")?, index(op, "feature_index")?);
        }

        OpKind::Body(BodyOp::Map) => {
            at_least(1)?;
            reduce::map(&tensors(&args)?, x(0)?.dims(), result(0)?.elem, &mut m.body(id, 0)?)?
        }
        OpKind::Body(BodyOp::Reduce | BodyOp::ReduceWindow) => {
            at_least(2)?;
            let all = tensors(&args)?;
            let (inputs, inits) = all.split_at(all.len() / 2);
            let mut body = m.body(id, 0)?;
            return match kind {
                OpKind::Body(BodyOp::Reduce) => {
                    reduce::reduce(inputs, inits, &ints(op, "dimensions")?, &elems()?, &mut body)
                }
                _ => {
                    let window = attrs::window(op, inputs[0].dims().len())?;
                    window::reduce_window(inputs, inits, &window, &elems()?, &mut body)
                }
            };
        }
        OpKind::Body(BodyOp::Scatter) => {
            at_least(3)?;
            let Some(Attr::Scatter(dims)) = op.attr("scatter_dimension_numbers") else {
                return Err(attrs::missing("scatter_dimension_numbers", "#stablehlo.scatter<...>"));
            };
            let count = args.len() / 2;
            let mut inputs = args;
            let rest = inputs.split_off(count);
            let inputs = inputs.into_iter().map(Val::into_literal).collect::<Result<_, _>>()?;
            let updates = tensors(&rest[1..])?;
            return reduce::scatter(inputs, rest[0].tensor()?, &updates, dims, &mut m.body(id, 0)?);
        }
        OpKind::Body(BodyOp::SelectAndScatter) => {
            let window = attrs::window(op, x(0)?.dims().len())?;
            select_and_scatter(m, id, &tensors(&args)?, &window)?
        }
        OpKind::Body(BodyOp::Sort) => {
            at_least(1)?;
            let dim = op.int("dimension").unwrap_or(-1);
            let rank = x(0)?.dims().len() as i64;
            let dim = if dim < 0 { dim + rank } else { dim };
            if !(0..rank).contains(&dim) {
                return Err(Fault::invalid(format!("there is no dimension {dim} in a tensor of rank {rank}")));
            }
            return sort::sort(&tensors(&args)?, dim as usize, &mut m.body(id, 0)?);
        }
        OpKind::Chlo(ChloOp::TopK) => {
            let (values, places) = sort::top_k(x(0)?, index(op, "k")?, result(1)?.elem)?;
            return Ok(vec![values, places]);
        }
        // `execute` has run these.
        OpKind::Collective(_)
        | OpKind::Control(ControlOp::Module | ControlOp::Func)
        | OpKind::Sdy(SdyOp::Mesh)
        | OpKind::Control(ControlOp::FuncReturn | ControlOp::HloReturn)
        | OpKind::Sdy(SdyOp::Return)
        | OpKind::Unregistered
        | OpKind::Control(
            ControlOp::Call | ControlOp::Composite | ControlOp::Case | ControlOp::If | ControlOp::While,
        )
        | OpKind::Chlo(ChloOp::Scan)
        | OpKind::Control(ControlOp::AsyncStart)
        | OpKind::Sdy(SdyOp::NamedComputation | SdyOp::ManualComputation)
        | OpKind::Token(TokenOp::Infeed | TokenOp::Outfeed | TokenOp::Recv | TokenOp::Send)
        | OpKind::Check(CheckOp::RunParallel | CheckOp::Print | CheckOp::Probe | CheckOp::ExpectSerializedEq)
        | OpKind::Token(TokenOp::AfterAll | TokenOp::CreateToken | TokenOp::Tuple)
        | OpKind::Control(ControlOp::AsyncDone)
        | OpKind::Token(TokenOp::GetTupleElement)
        | OpKind::Control(ControlOp::OptimizationBarrier)
        | OpKind::Sdy(
            SdyOp::AllGather
            | SdyOp::AllReduce
            | SdyOp::AllSlice
            | SdyOp::AllToAll
            | SdyOp::CollectivePermute
            | SdyOp::DataFlowEdge
            | SdyOp::FuncDataFlowEdge
            | SdyOp::PropagationBarrier
            | SdyOp::ReduceScatter
            | SdyOp::ReplicatedToUnreduced
            | SdyOp::Reshard
            | SdyOp::ShardedToUnreduced
            | SdyOp::ShardingConstraint
            | SdyOp::ShardingGroup,
        )
        | OpKind::Check(
            CheckOp::ExpectAlmostEq
            | CheckOp::ExpectAlmostEqConst
            | CheckOp::ExpectClose
            | CheckOp::ExpectEq
            | CheckOp::ExpectEqConst,
        )
        | OpKind::Control(ControlOp::CustomCall) => {
            return Err(Fault::invalid("it was to be run elsewhere"));
        }
    };
    Ok(vec![one])
}

fn reshape(mut args: Vec<Val>, dims: &[i64]) -> Result<Literal, Fault> {
    let x = args.swap_remove(0).into_literal()?;
    let from = x.ty();
    if dims.iter().any(|&d| d < 0) {
        return Err(Fault::unsupported(format!("a reshape to {dims:?}: not all extents are known and positive")));
    }
    x.reshaped(dims.iter().copied()).ok_or_else(|| Fault::invalid(format!("{from} does not have {dims:?} elements")))
}

fn convolution(op: &meshwork_ir::Op, padding: Vec<(i64, i64)>, x: &Literal) -> Result<conv::Conv, Fault> {
    let Some(Attr::Conv(dims)) = op.attr("dimension_numbers") else {
        return Err(attrs::missing("dimension_numbers", "#stablehlo.conv<...>"));
    };
    let spatial = x.dims().len().saturating_sub(2);
    if padding.len() != spatial || padding.iter().any(|p| p.0.unsigned_abs().max(p.1.unsigned_abs()) > 1 << 40) {
        return Err(Fault::invalid(format!("padding {padding:?} for {spatial} spatial dimensions")));
    }
    Ok(conv::Conv {
        dims: (**dims).clone(),
        strides: ints_or(op, "window_strides", spatial, 1)?,
        padding,
        lhs_dilation: ints_or(op, "lhs_dilation", spatial, 1)?,
        rhs_dilation: ints_or(op, "rhs_dilation", spatial, 1)?,
        reversal: attrs::flags_or_false(op, "window_reversal", spatial)?,
        feature_groups: int(op, "feature_group_count")?,
        batch_groups: int(op, "batch_group_count")?,
    })
}

/// Both bodies can not borrow the machine at once, so the second one must compile to scalar operations.
fn select_and_scatter(
    m: &mut Machine<'_>,
    id: OpId,
    args: &[&Literal],
    window: &window::Window,
) -> Result<Literal, Fault> {
    let &[operand, source, init] = args else {
        return Err(Fault::invalid(format!("{} operands where 3 are needed", args.len())));
    };
    let mut scatter = m.scalar_body(id, 1)?;
    let mut select = m.body(id, 0)?;
    window::select_and_scatter(operand, source, init, window, &mut select, &mut scatter)
}

//! One arm per operation: takes its attributes apart and calls the file that computes it.

use super::attrs::{self, index, ints};
use super::body::Body;
use super::fault::Fault;
use super::index::{index_at, indices_of};
use super::machine::Machine;
use super::matrix::Triangle;
use super::value::{Val, filled};
use super::{
    batch_norm, callback, check, collective, contract, control, conv, custom_call, elementwise, fft, gather, linalg,
    manual, movement, parallel, ragged, reduce, rng, sort, window,
};
use meshwork_ir::op::{
    BodyOp, CheckOp, ChloOp, ContractOp, ControlOp, DynamicOp, LinalgOp, MovementOp, SdyOp, SourceOp, TokenOp,
};
use meshwork_ir::{Attr, ElementType, Literal, Module, Op, OpId, OpKind, Scalar, TensorType};

/// Runs operation `id` on its operands.
pub(crate) fn execute(m: &mut Machine<'_>, id: OpId, args: Vec<Val>) -> Result<Vec<Val>, Fault> {
    let call = Call { module: m.module, id, op: m.module.op(id), args: &args };
    let tensors = match call.op.kind() {
        OpKind::Control(kind) => return control_op(m, id, kind, args),
        OpKind::Token(kind) => return token(m, id, kind, args),
        OpKind::Sdy(kind) => return sdy(m, id, kind, args),
        OpKind::Chlo(ChloOp::Scan) => return control::scan(m, id, args),
        OpKind::Check(CheckOp::RunParallel) => return parallel::run_parallel(m, id, args),
        OpKind::Check(CheckOp::Print | CheckOp::Probe | CheckOp::ExpectSerializedEq) => {
            return parallel::observe(m, id, args);
        }
        OpKind::Unregistered => return Err(Fault::unsupported("no such operation is known")),

        OpKind::Unary(_) | OpKind::Binary(_) | OpKind::Mixed(_) => {
            vec![elementwise::evaluate(m.module, id, &call.all()?)?]
        }
        OpKind::Source(kind) => source(m, &call, kind)?,
        OpKind::Movement(kind) => vec![moved(&call, kind)?],
        OpKind::Dynamic(kind) => vec![dynamic(&call, kind)?],
        OpKind::Contract(kind) => vec![contraction(&call, kind)?],
        OpKind::Linalg(kind) => linear(&call, kind)?,
        OpKind::Body(kind) => with_body(m, &call, kind)?,
        OpKind::Chlo(kind) => chlo(&call, kind)?,
        OpKind::Collective(kind) => collective::execute(m, id, kind, &args)?,
        OpKind::Check(_) => check::evaluate(m.module, id, &call.all()?)?.into_iter().collect(),
    };
    Ok(tensors.into_iter().map(|x| m.hold(x)).collect())
}

/// An operation with its operands.
struct Call<'a> {
    module: &'a Module,
    id: OpId,
    op: &'a Op,
    args: &'a [Val],
}

impl<'a> Call<'a> {
    /// Operand `i`.
    fn x(&self, i: usize) -> Result<&'a Literal, Fault> {
        self.args.get(i).ok_or_else(|| Fault::invalid(format!("operand {i} is missing")))?.tensor()
    }

    /// All operands.
    fn all(&self) -> Result<Vec<&'a Literal>, Fault> {
        tensors(self.args)
    }

    /// All operands, of which there must be at least `n`.
    fn at_least(&self, n: usize) -> Result<Vec<&'a Literal>, Fault> {
        let all = self.all()?;
        let missing = || Fault::invalid(format!("{} operands where {n} are needed", self.args.len()));
        (all.len() >= n).then_some(all).ok_or_else(missing)
    }

    /// Operand `i` as a list of indices.
    fn indices(&self, i: usize) -> Result<Vec<i64>, Fault> {
        Ok(indices_of(self.x(i)?))
    }

    /// The operands from `from` on, each one index.
    fn starts(&self, from: usize) -> Result<Vec<i64>, Fault> {
        (from..self.args.len()).map(|i| Ok(index_at(self.x(i)?, 0))).collect()
    }

    /// The type of result `i`.
    fn result(&self, i: usize) -> Result<&'a TensorType, Fault> {
        let ty = self.op.results().get(i).and_then(|&v| self.module.ty(v).as_tensor());
        ty.ok_or_else(|| Fault::invalid(format!("result {i} is missing or not a tensor")))
    }

    /// The element type of the first result.
    fn elem(&self) -> Result<ElementType, Fault> {
        Ok(self.result(0)?.elem)
    }

    /// The element types of all results.
    fn elems(&self) -> Result<Vec<ElementType>, Fault> {
        (0..self.op.results().len()).map(|i| Ok(self.result(i)?.elem)).collect()
    }

    /// The extents of the first result, which must be static.
    fn dims(&self) -> Result<&'a [i64], Fault> {
        let ty = self.result(0)?;
        if ty.is_static() { Ok(&ty.dims) } else { Err(Fault::unsupported(format!("a result of dynamic shape, {ty}"))) }
    }

    fn ints(&self, name: &str) -> Result<Vec<i64>, Fault> {
        ints(self.op, name)
    }

    fn index(&self, name: &str) -> Result<usize, Fault> {
        index(self.op, name)
    }
}

/// All operands as tensors.
pub(crate) fn tensors(args: &[Val]) -> Result<Vec<&Literal>, Fault> {
    args.iter().map(Val::tensor).collect()
}

fn control_op(m: &mut Machine<'_>, id: OpId, kind: ControlOp, args: Vec<Val>) -> Result<Vec<Val>, Fault> {
    match kind {
        ControlOp::Module | ControlOp::Func => Err(Fault::invalid("cannot stand in a body that is run")),
        ControlOp::FuncReturn | ControlOp::HloReturn => Err(Fault::invalid("is not the last operation of its block")),
        ControlOp::Call | ControlOp::Composite => control::call(m, id, args),
        ControlOp::Case | ControlOp::If => control::branch(m, id, args),
        ControlOp::While => control::while_loop(m, id, args),
        // What it returns is one value, waiting to be picked up.
        ControlOp::AsyncStart => Ok(vec![Val::Tuple(control::inline(m, id, args)?)]),
        ControlOp::AsyncDone => match args.into_iter().next() {
            Some(Val::Tuple(parts)) => Ok(parts),
            _ => Err(Fault::invalid("its operand is not an operation that was started")),
        },
        ControlOp::CustomCall if callback::is_callback(m.module.op(id)) => callback::execute(m, id, args),
        ControlOp::CustomCall => {
            let results = custom_call::execute(m, id, args)?;
            Ok(results.into_iter().map(|x| m.hold(x)).collect())
        }
        ControlOp::OptimizationBarrier => Ok(args),
    }
}

fn token(m: &mut Machine<'_>, id: OpId, kind: TokenOp, args: Vec<Val>) -> Result<Vec<Val>, Fault> {
    match kind {
        TokenOp::AfterAll | TokenOp::CreateToken => Ok(vec![Val::Token]),
        TokenOp::Tuple => Ok(vec![Val::Tuple(args)]),
        TokenOp::GetTupleElement => match (args.into_iter().next(), index(m.module.op(id), "index")) {
            (Some(Val::Tuple(mut parts)), Ok(i)) if i < parts.len() => Ok(vec![parts.swap_remove(i)]),
            _ => Err(Fault::invalid("there is no such element in the tuple")),
        },
        TokenOp::Infeed => parallel::infeed(m),
        TokenOp::Outfeed => Ok(vec![Val::Token]),
        TokenOp::Send => parallel::send(m, id, args),
        TokenOp::Recv => parallel::receive(m, id),
    }
}

/// Shardings have no effect on values.
fn sdy(m: &mut Machine<'_>, id: OpId, kind: SdyOp, args: Vec<Val>) -> Result<Vec<Val>, Fault> {
    match kind {
        SdyOp::Mesh => Err(Fault::invalid("cannot stand in a body that is run")),
        SdyOp::Return => Err(Fault::invalid("is not the last operation of its block")),
        SdyOp::NamedComputation => control::inline(m, id, args),
        SdyOp::ManualComputation => manual::execute(m, id, args),
        SdyOp::Constant => Ok(vec![m.hold(attrs::constant(m.module.op(id))?)]),
        SdyOp::ShardingGroup => Ok(vec![]),
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
        | SdyOp::ShardingConstraint => Ok(args),
    }
}

fn source(m: &Machine<'_>, c: &Call<'_>, kind: SourceOp) -> Result<Vec<Literal>, Fault> {
    let number = |n: usize| c.elem().map(|elem| Literal::scalar(elem, Scalar::UInt(n as u64)));
    Ok(vec![match kind {
        SourceOp::Constant => attrs::constant(c.op)?,
        SourceOp::Iota => movement::iota(c.dims()?, c.elem()?, c.index("iota_dimension")?)?,
        SourceOp::PartitionId => number(m.site.device % m.site.grid.partitions)?,
        SourceOp::ReplicaId => number(m.site.device / m.site.grid.partitions)?,
        SourceOp::Rng => {
            let distribution = c.op.enum_value("rng_distribution").unwrap_or("");
            let (a, b) = (c.x(0)?.get(0), c.x(1)?.get(0));
            rng::draw(distribution, a, b, &c.indices(2)?, c.elem()?, c.id.index() as u64).map_err(Fault::Unsupported)?
        }
        SourceOp::RngBitGenerator => {
            let algorithm = c.op.enum_value("rng_algorithm").unwrap_or("");
            let bits = c.result(1)?;
            let (state, bits) =
                rng::bit_generator(algorithm, c.x(0)?, &bits.dims, bits.elem).map_err(Fault::Unsupported)?;
            return Ok(vec![state, bits]);
        }
    }])
}

fn moved(c: &Call<'_>, kind: MovementOp) -> Result<Literal, Fault> {
    let x = c.x(0)?;
    match kind {
        MovementOp::BitcastConvert => elementwise::bitcast_convert(x, c.elem()?).map_err(Fault::Invalid),
        MovementOp::Broadcast => {
            let sizes = c.ints("broadcast_sizes")?;
            let dims = [&sizes, x.dims()].concat();
            let map: Vec<i64> = (sizes.len() as i64..dims.len() as i64).collect();
            movement::broadcast_in_dim(x, &dims, &map)
        }
        MovementOp::BroadcastInDim => movement::broadcast_in_dim(x, c.dims()?, &c.ints("broadcast_dimensions")?),
        MovementOp::Concatenate => movement::concatenate(&c.all()?, c.index("dimension")?),
        MovementOp::DynamicSlice => movement::dynamic_slice(x, &c.starts(1)?, &c.ints("slice_sizes")?),
        MovementOp::DynamicUpdateSlice => {
            let mut out = x.clone();
            movement::dynamic_update_slice(&mut out, c.x(1)?, &c.starts(2)?)?;
            Ok(out)
        }
        MovementOp::Gather => gather_op(c, &c.ints("slice_sizes")?),
        MovementOp::GetDimensionSize => {
            let dim = c.index("dimension")?;
            let size = x.dims().get(dim).ok_or_else(|| Fault::invalid(format!("there is no dimension {dim}")))?;
            Ok(Literal::scalar(c.elem()?, Scalar::Int(*size)))
        }
        MovementOp::SetDimensionSize => {
            let (dim, size) = (c.index("dimension")?, index_at(c.x(1)?, 0));
            let dims = x.dims();
            if dims.get(dim).is_none_or(|&d| !(0..=d).contains(&size)) {
                return Err(Fault::invalid(format!("dimension {dim} of {dims:?} cannot become {size} long")));
            }
            movement::part_along(x, dim, 0, size)
        }
        MovementOp::Pad => {
            let (low, high) = (c.ints("edge_padding_low")?, c.ints("edge_padding_high")?);
            movement::pad(x, c.x(1)?, &low, &high, &c.ints("interior_padding")?)
        }
        MovementOp::Reshape => reshape(x, c.dims()?),
        MovementOp::Reverse => movement::reverse(x, &c.ints("dimensions")?),
        MovementOp::Slice => {
            movement::slice(x, &c.ints("start_indices")?, &c.ints("limit_indices")?, &c.ints("strides")?)
        }
        MovementOp::TorchIndexSelect => gather::torch_index_select(x, c.x(1)?, c.index("dim")?, c.index("batch_dims")?),
        MovementOp::Transpose => movement::transpose(x, &c.ints("permutation")?),
    }
}

/// Operations whose shapes are operands.
fn dynamic(c: &Call<'_>, kind: DynamicOp) -> Result<Literal, Fault> {
    match kind {
        DynamicOp::BroadcastInDim => {
            movement::broadcast_in_dim(c.x(0)?, &c.indices(1)?, &c.ints("broadcast_dimensions")?)
        }
        DynamicOp::Conv => {
            let padding = c.indices(2)?.chunks_exact(2).map(|p| (p[0], p[1])).collect();
            conv::convolution(c.x(0)?, c.x(1)?, &attrs::convolution(c.op, padding)?, c.elem()?)
        }
        DynamicOp::Gather => gather_op(c, &c.indices(2)?),
        DynamicOp::Iota => movement::iota(&c.indices(0)?, c.elem()?, c.index("iota_dimension")?),
        DynamicOp::Pad => movement::pad(c.x(0)?, c.x(1)?, &c.indices(2)?, &c.indices(3)?, &c.indices(4)?),
        DynamicOp::Reshape => reshape(c.x(0)?, &c.indices(1)?),
        DynamicOp::Slice => movement::slice(c.x(0)?, &c.indices(1)?, &c.indices(2)?, &c.indices(3)?),
    }
}

fn gather_op(c: &Call<'_>, sizes: &[i64]) -> Result<Literal, Fault> {
    match c.op.attr("dimension_numbers") {
        Some(Attr::Gather(dims)) => gather::gather(c.x(0)?, c.x(1)?, dims, sizes),
        _ => Err(attrs::missing("dimension_numbers", "#stablehlo.gather<...>")),
    }
}

fn reshape(x: &Literal, dims: &[i64]) -> Result<Literal, Fault> {
    if dims.iter().any(|&d| d < 0) {
        return Err(Fault::unsupported(format!("a reshape to {dims:?}: not all extents are known and positive")));
    }
    let wrong = || Fault::invalid(format!("{} does not have {dims:?} elements", x.ty()));
    x.clone().reshaped(dims.iter().copied()).ok_or_else(wrong)
}

fn contraction(c: &Call<'_>, kind: ContractOp) -> Result<Literal, Fault> {
    let elem = c.elem()?;
    match kind {
        ContractOp::Convolution => {
            let padding = attrs::padding(c.op, c.x(0)?.dims().len().saturating_sub(2))?;
            conv::convolution(c.x(0)?, c.x(1)?, &attrs::convolution(c.op, padding)?, elem)
        }
        ContractOp::Dot => contract::dot(c.x(0)?, c.x(1)?, elem),
        ContractOp::DotGeneral => match c.op.attr("dot_dimension_numbers") {
            Some(Attr::Dot(dims)) => contract::dot_general(c.x(0)?, c.x(1)?, dims, elem),
            _ => Err(attrs::missing("dot_dimension_numbers", "#stablehlo.dot<...>")),
        },
        ContractOp::Einsum | ContractOp::UnaryEinsum => {
            let config = c.op.attr("einsum_config").and_then(Attr::as_str);
            let config = config.ok_or_else(|| attrs::missing("einsum_config", "a string"))?;
            contract::einsum(&c.at_least(1)?, config, elem)
        }
    }
}

fn linear(c: &Call<'_>, kind: LinalgOp) -> Result<Vec<Literal>, Fault> {
    let batch_norm = || Ok::<_, Fault>((c.all()?, attrs::float(c.op, "epsilon")?, c.index("feature_index")?));
    Ok(vec![match kind {
        LinalgOp::Cholesky => linalg::cholesky(c.x(0)?, Triangle::lower_if(c.op.flag("lower")))?,
        LinalgOp::Fft => {
            let text = c.op.enum_value("fft_type").unwrap_or("");
            let kind = fft::Kind::from_text(text).ok_or_else(|| attrs::missing("fft_type", "a known transform"))?;
            fft::fft(c.x(0)?, kind, &c.ints("fft_length")?, c.elem()?)?
        }
        LinalgOp::TriangularSolve => {
            let transpose = match c.op.enum_value("transpose_a") {
                Some("TRANSPOSE") => linalg::Transpose::Yes,
                Some("ADJOINT") => linalg::Transpose::Adjoint,
                _ => linalg::Transpose::No,
            };
            let how = linalg::Triangular {
                left: c.op.flag("left_side"),
                triangle: Triangle::lower_if(c.op.flag("lower")),
                unit_diagonal: c.op.flag("unit_diagonal"),
                transpose,
            };
            linalg::triangular_solve(c.x(0)?, c.x(1)?, how)?
        }
        LinalgOp::BatchNormInference => {
            let (args, epsilon, feature) = batch_norm()?;
            batch_norm::inference(&args, epsilon, feature)?
        }
        LinalgOp::BatchNormTraining => {
            let (args, epsilon, feature) = batch_norm()?;
            return batch_norm::training(&args, epsilon, feature);
        }
        LinalgOp::BatchNormGrad => {
            let (args, epsilon, feature) = batch_norm()?;
            return batch_norm::gradient(&args, epsilon, feature);
        }
    }])
}

fn with_body(m: &mut Machine<'_>, c: &Call<'_>, kind: BodyOp) -> Result<Vec<Literal>, Fault> {
    let body = Body::new(m, c.id, 0)?;
    let args = c.at_least(1)?;
    match kind {
        BodyOp::Map => Ok(vec![reduce::map(m, &args, c.elem()?, body)?]),
        BodyOp::Reduce => {
            let (inputs, inits) = c.at_least(2).map(|_| args.split_at(args.len() / 2))?;
            reduce::reduce(m, inputs, inits, &c.ints("dimensions")?, &c.elems()?, body)
        }
        BodyOp::ReduceWindow => {
            let (inputs, inits) = c.at_least(2).map(|_| args.split_at(args.len() / 2))?;
            let window = attrs::window(c.op, inputs[0].dims().len())?;
            window::reduce_window(m, inputs, inits, &window, &c.elems()?, body)
        }
        BodyOp::Scatter => {
            let (inputs, rest) = c.at_least(3).map(|_| args.split_at(args.len() / 2))?;
            let Some(Attr::Scatter(dims)) = c.op.attr("scatter_dimension_numbers") else {
                return Err(attrs::missing("scatter_dimension_numbers", "#stablehlo.scatter<...>"));
            };
            reduce::scatter(m, inputs, rest[0], &rest[1..], dims, body)
        }
        BodyOp::SelectAndScatter => {
            let &[operand, source, init] = &args[..] else {
                return Err(Fault::invalid(format!("{} operands where 3 are needed", args.len())));
            };
            let window = attrs::window(c.op, operand.dims().len())?;
            let scatter = Body::new(m, c.id, 1)?;
            Ok(vec![window::select_and_scatter(m, [operand, source, init], &window, body, scatter)?])
        }
        BodyOp::Sort => {
            let dim = c.op.int("dimension").unwrap_or(-1);
            let rank = args[0].dims().len() as i64;
            let dim = if dim < 0 { dim + rank } else { dim };
            if !(0..rank).contains(&dim) {
                return Err(Fault::invalid(format!("there is no dimension {dim} in a tensor of rank {rank}")));
            }
            sort::sort(m, &args, dim as usize, body)
        }
    }
}

fn chlo(c: &Call<'_>, kind: ChloOp) -> Result<Vec<Literal>, Fault> {
    Ok(vec![match kind {
        ChloOp::Constant => attrs::constant(c.op)?,
        ChloOp::ConstantLike => {
            let elem = c.elem()?;
            let value = match c.op.attr("value") {
                Some(Attr::Int(v, _)) => Scalar::from_i64(elem, *v),
                Some(Attr::Float(v, _)) => Scalar::from_f64(elem, *v),
                Some(Attr::Bool(b)) => Scalar::from_i64(elem, i64::from(*b)),
                _ => return Err(attrs::missing("value", "a number")),
            };
            filled(c.x(0)?.dims(), &Literal::scalar(elem, value))?
        }
        ChloOp::RaggedDot => ragged::ragged_dot(c.op, &c.all()?, c.result(0)?)?,
        ChloOp::Scan => return Err(Fault::invalid("a scan is not a function of tensors")),
        ChloOp::TopK => {
            let (values, places) = sort::top_k(c.x(0)?, c.index("k")?, c.result(1)?.elem)?;
            return Ok(vec![values, places]);
        }
    }])
}

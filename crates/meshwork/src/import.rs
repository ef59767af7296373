//! Imported programs: StableHLO text or bytecode, as JAX writes them, as a function.

use std::fmt;
use std::sync::{Arc, OnceLock};

use meshwork_ir::op::{ControlOp, SdyOp};
use meshwork_ir::transform::inline::inline_calls;
use meshwork_ir::{Attr, Module, OpKind, Type, Walk, verify};
use meshwork_mesh::{Mesh, MeshRef, Sharding};
use meshwork_partition::{CompileOptions, compile};
use meshwork_runtime::{Engine, Executable};

use crate::engine::FromEnvironment;
use crate::error::{ImportError, Result, fail};
use crate::spec::MESH;
use crate::trace::inline::inline;
use crate::trace::{Placing, placing};
use crate::{Array, Tensor};

/// A function read from StableHLO text or bytecode: a file of `jax.export`, JAX's `lower().as_text()`, or this crate's
/// own [`Lowered::text`](crate::Lowered::text).
///
/// It is called with arrays, or with tensors inside a traced function. There it is inlined, and is
/// placed, differentiated, batched and split with the rest.
///
/// ```
/// use meshwork::prelude::*;
///
/// let f = Imported::from_mlir("
///   func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {
///     %y = stablehlo.multiply %x, %x : tensor<2xf32>
///     return %y : tensor<2xf32>
///   }")?;
/// let x = Array::from([2.0f32, 3.0]);
/// assert_eq!(f.call(&[&x])?[0].to_vec::<f32>()?, [4.0, 9.0]);
///
/// let slope = jit(|x: Tensor| grad(|x: Tensor| f.apply(&[x])[0].sum_all(), x));
/// assert_eq!(slope.call(&x)?.to_vec::<f32>()?, [4.0, 6.0]);
/// # Ok::<(), meshwork::Error>(())
/// ```
#[derive(Clone)]
pub struct Imported {
    module: Arc<Module>,
    mesh: Option<Mesh>,
    engine: Arc<dyn Engine>,
    /// The program on the engine, once it has been called.
    loaded: Arc<OnceLock<Arc<dyn Executable>>>,
}

impl fmt::Debug for Imported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let engine = self.engine.name();
        f.debug_struct("Imported")
            .field("module", &self.module)
            .field("mesh", &self.mesh)
            .field("engine", &engine)
            .finish()
    }
}

impl Imported {
    /// The entry function of a module: `main`, or the only one.
    pub fn from_mlir(source: &str) -> Result<Imported> {
        Imported::from_bytes(source.as_bytes())
    }

    /// The same for a program in any format: text, MLIR bytecode (`stablehlo.serialize_portable_artifact`), or
    /// what `jax.export(...).serialize()` returns.
    ///
    /// ```
    /// use meshwork::prelude::*;
    ///
    /// let error = Imported::from_bytes(b"ML\xefR").unwrap_err();
    /// assert!(error.to_string().contains("MLIR bytecode, byte 4"), "{error}");
    /// ```
    pub fn from_bytes(bytes: &[u8]) -> Result<Imported> {
        let mut module = meshwork_ir::read(bytes).map_err(|e| ImportError::Parse(e.into()))?;
        let wrong = verify::verify(&module);
        if let Some(first) = wrong.first() {
            return Err(ImportError::Invalid { first: first.clone().into(), count: wrong.len() }.into());
        }
        let Some(func) = module.entry() else {
            let count = module.funcs().count();
            return Err(ImportError::NoEntry { count }.into());
        };
        let signature = module.func_type(func);
        for (kind, types) in [("argument", &signature.inputs), ("result", &signature.results)] {
            let is_static = |ty: &Type| ty.as_tensor().is_some_and(|t| t.is_static());
            if let Some((i, ty)) = types.iter().enumerate().find(|(_, ty)| !is_static(ty)) {
                return Err(ImportError::Dynamic { which: format!("{kind} {i}"), ty: ty.clone() }.into());
            }
        }
        for op in module.all_ops(Walk::PreOrder) {
            module.op_mut(op).attrs.remove("no_inline");
        }
        // What cannot be inlined stays a call, which the check below names.
        inline_calls(&mut module);
        if let Some(&op) = module
            .ops_below(func, Walk::PreOrder)
            .iter()
            .find(|&&op| module.op(op).kind() == OpKind::Control(ControlOp::Call))
        {
            return Err(ImportError::NotInlined { op: module.describe(op) }.into());
        }
        let mesh = meshwork_partition::mesh_of(&module).map(|(_, mesh)| mesh);
        Ok(Imported { module: Arc::new(module), mesh, engine: Arc::new(FromEnvironment), loaded: Arc::default() })
    }

    /// Calls run on another engine than the [`Cpu`](crate::Cpu), or the one that the variable `MESHWORK_ENGINE` names.
    pub fn engine(mut self, engine: impl Engine + 'static) -> Imported {
        (self.engine, self.loaded) = (Arc::new(engine), Arc::default());
        self
    }

    /// The module, with all calls inlined.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// The types of its arguments.
    pub fn arguments(&self) -> Vec<Type> {
        self.module.entry().map_or(vec![], |f| self.module.func_type(f).inputs)
    }

    /// The same without the placements that its text has.
    pub fn without_placements(&self) -> Imported {
        let mut module = (*self.module).clone();
        strip(&mut module);
        Imported { module: Arc::new(module), mesh: None, ..self.clone() }
    }

    /// Runs it on one device of the engine.
    pub fn call(&self, args: &[&Array]) -> Result<Vec<Array>> {
        let expected = self.arguments();
        let fits = expected.len() == args.len() && expected.iter().zip(args).all(|(t, a)| is(t, a.shape(), a.dtype()));
        if !fits {
            let given: Vec<String> = args.iter().map(|a| format!("{}{:?}", a.dtype(), a.shape())).collect();
            let given = format!("({})", given.join(", "));
            return Err(ImportError::Arguments { wanted: shown(&expected), given }.into());
        }
        for array in args {
            array.check_present()?;
        }
        Ok(self.load()?.run(args.iter().map(|&array| array.clone()).collect())?)
    }

    /// The program without its placements, on the engine.
    fn load(&self) -> Result<&Arc<dyn Executable>> {
        if let Some(loaded) = self.loaded.get() {
            return Ok(loaded);
        }
        let compiled = compile(self.without_placements().module(), &CompileOptions::default())?;
        let loaded = self.engine.load(&compiled)?;
        // Two threads may load it at once; the first one wins.
        Ok(self.loaded.get_or_init(|| loaded))
    }

    /// Inlines it into the program that is being traced.
    #[track_caller]
    pub fn apply(&self, args: &[Tensor]) -> Vec<Tensor> {
        let expected = self.arguments();
        let fits = expected.len() == args.len() && expected.iter().zip(args).all(|(t, a)| is(t, a.shape(), a.dtype()));
        if !fits {
            fail("imported function", format!("it takes {}, not {args:?}", shown(&expected)));
        }
        let module = match (&self.mesh, placing("imported function")) {
            (None, _) => self.module.clone(),
            (Some(_), Placing::Ignored(_) | Placing::NoMesh) => {
                let mut module = (*self.module).clone();
                strip(&mut module);
                Arc::new(module)
            }
            (Some(own), Placing::On(mesh)) if own.same_axes(&mesh) => {
                let mut module = (*self.module).clone();
                rename_mesh(&mut module);
                Arc::new(module)
            }
            (Some(own), Placing::On(mesh)) => fail(
                "imported function",
                format!("it is placed on the mesh {own}, the program on {mesh}; take it without_placements()"),
            ),
        };
        inline("imported function", &module, args)
    }
}

fn is(ty: &Type, shape: &[i64], elem: crate::ElementType) -> bool {
    ty.dims() == shape && ty.elem() == Some(elem)
}

fn shown(types: &[Type]) -> String {
    format!("({})", types.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
}

/// Takes all placements out of a module.
fn strip(module: &mut Module) {
    for op in module.all_ops(Walk::PreOrder) {
        match module.op(op).kind() {
            OpKind::Sdy(SdyOp::ShardingConstraint | SdyOp::Reshard) => {
                let operand = module.op(op).operands()[0];
                module.replace_op(op, &[operand]);
            }
            OpKind::Sdy(SdyOp::ShardingGroup) => module.erase(op),
            OpKind::Control(ControlOp::Func) => module.retain_slot_attrs(op, |name| name != "sdy.sharding"),
            _ => {
                module.op_mut(op).attrs.remove("sdy.sharding");
            }
        }
    }
}

/// Lets all shardings refer to the mesh by the name that traced programs give it.
fn rename_mesh(module: &mut Module) {
    let renamed = |s: &Sharding| Sharding { mesh: MeshRef::from(MESH), ..s.clone() };
    for op in module.all_ops(Walk::PreOrder) {
        let names: Vec<String> = module.op(op).attrs.iter().map(|(name, _)| name.to_string()).collect();
        for name in names {
            let new = match module.op(op).attr(&name) {
                Some(Attr::Sharding(s)) => Attr::Sharding(renamed(s).into()),
                Some(Attr::ShardingPerValue(list)) => Attr::ShardingPerValue(list.iter().map(renamed).collect()),
                _ => continue,
            };
            module.op_mut(op).attrs.set(name, new);
        }
    }
}

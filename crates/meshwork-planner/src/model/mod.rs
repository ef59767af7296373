//! A program as a pairwise network: a node for each operation, with a label for each way to split it; the price of resharding on
//! edges; memory while results are alive. Its solution proposes shardings, and its bound says how much better a model of this
//! kind could do.
//!
//! The model is not the judge: it adds up times that a real plan overlaps or saves, and knows nothing of copies made for a
//! reshard. Proposals are judged by their exact plans.

mod graph;
mod label;
mod place;
mod price;
mod tie;

use std::collections::HashMap;
use std::sync::Arc;

use meshwork_ir::op::{BodyOp, ContractOp, MovementOp, SdyOp};
use meshwork_ir::{Attr, ElementType, Module, OpId, OpKind, ValueId};
use meshwork_mesh::{Mesh, Sharding, sort_by_key};
use meshwork_partition::plan::{Class, op_flops};
use meshwork_partition::{Machine, mesh_of};
use meshwork_propagate::rules::{RuleBuilder, RuleResult, splitting_rule};

use self::graph::{Graph, Instance, Kind};
use self::label::{Label, Work, labels};
use self::place::Place;
use self::price::Axes;
use crate::colours::Colours;
use crate::network::{Effort, Network, NetworkError, solve};
use crate::site::taken_over;

/// Costs of the network are in microseconds.
const MICROSECONDS: f64 = 1e6;
/// What holding an argument costs, as a share of reading it: of two ways that take the same time, the leaner one is proposed.
const HELD: f64 = 1e-4;

/// Networks up to this many nodes, as tied layers give, are divided this often to close the gap.
const FEW_NODES: usize = 1500;
const DIVISIONS: usize = 100;

/// A program on a mesh of a machine, as a network.
pub struct Model {
    network: Network,
    /// By class.
    labels: Vec<Arc<Vec<Label>>>,
    /// The class of each argument.
    arguments: Vec<(usize, usize)>,
    /// Results of products, with their class.
    products: Vec<(ValueId, usize, usize)>,
    mesh: Mesh,
    mesh_name: String,
}

/// Shardings that the model proposes.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// One for each argument of the program.
    pub arguments: Vec<Sharding>,
    /// For results of products inside the program.
    pub products: Vec<(ValueId, Sharding)>,
    /// What the model says a step takes.
    pub seconds: f64,
    /// Nothing that the model can express within the memory takes less; infinite if nothing fits.
    pub bound: f64,
    /// Bytes that are missing at the worst time.
    pub missing: u64,
}

impl Proposal {
    /// By which share of its time the proposal could be better in the model, at most.
    pub fn gap(&self) -> f64 {
        ((self.seconds - self.bound) / self.seconds).max(0.0)
    }
}

impl Model {
    /// The model of a program whose calls are inlined. Closed annotations of arguments and constraints hold.
    pub fn new(module: &Module, mesh: &Mesh, machine: &Machine) -> Result<Model, NetworkError> {
        let taken = match module.entry().and_then(|func| Some((func, module.body_of(func, 0)?))) {
            Some((func, body)) => {
                taken_over(module, func, module.block(body).args(), module.returned(body), &Colours::of(module))
            }
            None => vec![],
        };
        let graph = graph::graph(module, &taken);
        let classes = tie::classes(module, &graph);
        let builder =
            Builder { module, mesh, machine, axes: Axes::new(mesh, machine), graph: &graph, classes: &classes };
        builder.build()
    }

    /// How many nodes and edges the network has.
    pub fn size(&self) -> (usize, usize) {
        (self.network.len(), self.network.edges())
    }

    /// The best shardings found within this memory on each device.
    pub fn solve(
        &mut self,
        memory: Option<u64>,
        effort: &Effort,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Proposal, NetworkError> {
        self.network.set_limit(memory);
        let divisions =
            if self.network.len() <= FEW_NODES { effort.divisions.max(DIVISIONS) } else { effort.divisions };
        let found = solve(&self.network, &Effort { divisions, ..*effort }, stop)?;
        let sharding = |class: usize, rank: usize, result: usize| {
            let place = self.labels[class][found.labels[class]].results[result];
            place.sharding(rank, &self.mesh, &self.mesh_name)
        };
        Ok(Proposal {
            arguments: self.arguments.iter().map(|&(class, rank)| sharding(class, rank, 0)).collect(),
            products: self.products.iter().map(|&(v, class, rank)| (v, sharding(class, rank, 0))).collect(),
            seconds: found.cost / MICROSECONDS,
            bound: found.bound / MICROSECONDS,
            missing: found.excess,
        })
    }
}

/// A class and the number of one of its results or operands.
type Port = (usize, usize);
/// Two classes, and what each pair of their labels costs.
type Pair = ((usize, usize), Arc<[f64]>);

struct Builder<'a> {
    module: &'a Module,
    mesh: &'a Mesh,
    machine: &'a Machine,
    axes: Axes<'a>,
    graph: &'a Graph,
    classes: &'a [usize],
}

impl Builder<'_> {
    fn build(&self) -> Result<Model, NetworkError> {
        let mut network = Network::new(None);
        let count = self.classes.iter().max().map_or(0, |last| last + 1);
        let mut labels: Vec<Option<Arc<Vec<Label>>>> = vec![None; count];
        let mut costs: Vec<Vec<f64>> = vec![vec![]; count];
        for (instance, &class) in self.graph.instances.iter().zip(self.classes) {
            let own = labels[class].get_or_insert_with(|| Arc::new(self.labels(instance))).clone();
            costs[class].resize(own.len(), 0.0);
            for (cost, label) in costs[class].iter_mut().zip(own.iter()) {
                *cost += instance.runs * label.seconds * MICROSECONDS;
            }
        }
        let labels: Vec<Arc<Vec<Label>>> = labels.into_iter().flatten().collect();
        let pairs = self.pairs(&labels, &mut costs);
        for costs in costs {
            network.node(costs)?;
        }
        for ((a, b), costs) in pairs {
            network.edge(a, b, costs)?;
        }
        for (instance, &class) in self.graph.instances.iter().zip(self.classes) {
            for (result, (&value, alive)) in instance.results.iter().zip(&instance.alive).enumerate() {
                let bytes = self.bytes(value);
                let held = |label: &Label| (bytes / label.results[result].parts(&self.axes.sizes)).ceil() as u64;
                network.usage(class, alive.clone(), labels[class].iter().map(held).collect())?;
            }
        }
        let rank = |v: ValueId| self.module.ty(v).rank().unwrap_or(0);
        let numbered = || self.graph.instances.iter().zip(self.classes.iter().copied());
        let is_product = |op: OpId| {
            let kind = self.module.op(op).kind();
            matches!(kind, OpKind::Contract(ContractOp::DotGeneral | ContractOp::Dot | ContractOp::Convolution))
        };
        let products = numbered().filter(|(i, _)| matches!(i.kind, Kind::Operation(op) if is_product(op)));
        Ok(Model {
            network,
            arguments: numbered().take(self.graph.arguments).map(|(i, class)| (class, rank(i.results[0]))).collect(),
            products: products.map(|(i, class)| (i.results[0], class, rank(i.results[0]))).collect(),
            labels,
            mesh: self.mesh.clone(),
            mesh_name: mesh_of(self.module).map_or_else(|| "mesh".to_string(), |(name, _)| name.to_string()),
        })
    }

    /// What resharding between classes costs, for each pair of labels; within a class it is added to the costs of its labels.
    fn pairs(&self, labels: &[Arc<Vec<Label>>], costs: &mut [Vec<f64>]) -> Vec<Pair> {
        // How often each kind of flow occurs.
        let mut often: HashMap<(Port, Port), (f64, ValueId)> = HashMap::new();
        for flow in &self.graph.flows {
            let key = ((self.classes[flow.from.0], flow.from.1), (self.classes[flow.to.0], flow.to.1));
            often.entry(key).or_insert((0.0, flow.value)).0 += flow.runs;
        }
        let mut often: Vec<_> = often.into_iter().collect();
        sort_by_key(&mut often, |(key, _)| *key);
        let mut known: HashMap<(Place, Place, u64), f64> = HashMap::new();
        let mut pairs = vec![];
        for (((from, result), (to, operand)), (runs, value)) in often {
            let bytes = self.bytes(value);
            let mut price = |from: Place, to: Place| {
                let seconds =
                    known.entry((from, to, bytes as u64)).or_insert_with(|| self.axes.reshard(from, to, bytes));
                *seconds * runs * MICROSECONDS
            };
            let wanted = |label: &Label| label.operands[operand];
            if from == to {
                for (cost, label) in costs[from].iter_mut().zip(labels[from].iter()) {
                    *cost += price(label.results[result], wanted(label));
                }
                continue;
            }
            let mut table = Vec::with_capacity(labels[from].len() * labels[to].len());
            for a in labels[from].iter() {
                table.extend(labels[to].iter().map(|b| price(a.results[result], wanted(b))));
            }
            pairs.push(((from, to), table.into()));
        }
        pairs
    }

    fn bytes(&self, value: ValueId) -> f64 {
        let Some(ty) = self.module.ty(value).as_tensor() else { return 0.0 };
        ty.num_elements().unwrap_or(0) as f64 * ty.elem.storage_bytes() as f64
    }

    /// The labels of an instance.
    fn labels(&self, instance: &Instance) -> Vec<Label> {
        let listed = match instance.kind {
            Kind::Operation(op) => self.operation(op),
            Kind::Argument(_) => {
                let held = |_, _, held: f64| HELD * self.machine.device.memory_seconds(held);
                self.stored(instance.results[0], &held)
            }
            Kind::Joined => self.stored(instance.results[0], &|_, _, _| 0.0),
        };
        let fixed = match instance.kind {
            Kind::Argument(i) => self
                .module
                .entry()
                .and_then(|func| self.module.arg_attr(func, i, "sdy.sharding"))
                .and_then(Attr::as_sharding),
            Kind::Operation(op) if self.module.op(op).kind() == SdyOp::ShardingConstraint => {
                self.module.op(op).attr("sharding").and_then(Attr::as_sharding)
            }
            Kind::Operation(_) | Kind::Joined => None,
        };
        let Some(place) = fixed.and_then(|sharding| Place::of(sharding, self.mesh)) else { return listed };
        let kept: Vec<Label> = listed.iter().filter(|label| label.results[0] == place).cloned().collect();
        if kept.is_empty() { listed } else { kept }
    }

    /// The labels of a value that lies somewhere: every place it fits into.
    fn stored(&self, value: ValueId, seconds: &dyn Fn(f64, f64, f64) -> f64) -> Vec<Label> {
        let ty = self.module.ty(value);
        let rule = RuleBuilder::identity(ty, 1);
        let work = Work {
            rule: &rule,
            combines: false,
            result_dims: vec![ty.dims()],
            operand_bytes: vec![0.0],
            result_bytes: vec![self.bytes(value)],
            seconds,
        };
        labels(&work, &self.axes)
    }

    fn operation(&self, op: OpId) -> Vec<Label> {
        let data = self.module.op(op);
        let bytes = |values: &[ValueId]| values.iter().map(|&v| self.bytes(v)).collect::<Vec<_>>();
        let (class, flops) = (Class::of(data.kind()), op_flops(self.module, op));
        let first = data.operands().iter().chain(data.results()).find_map(|&v| self.module.ty(v).elem());
        let elem = first.unwrap_or(ElementType::F32);
        let seconds = |parts: f64, operands: f64, results: f64| {
            let touched = match data.kind() {
                OpKind::Movement(MovementOp::Reshape | MovementOp::BitcastConvert | MovementOp::BroadcastInDim) => 0.0,
                OpKind::Movement(_) => 2.0 * results,
                // Reading is part of what made the operands, which loops are fused with.
                _ if matches!(class, Class::Elementwise | Class::Function) => results,
                _ => operands + results,
            };
            self.machine.device.op_seconds(class, elem, flops / parts, touched)
        };
        let RuleResult::Rule(rule) = splitting_rule(self.module, op) else {
            let whole = |values: &[ValueId]| vec![Place::WHOLE; values.len()];
            let sum = |values: &[ValueId]| bytes(values).iter().sum::<f64>();
            return vec![Label {
                operands: whole(data.operands()),
                results: whole(data.results()),
                seconds: seconds(1.0, sum(data.operands()), sum(data.results())),
            }];
        };
        let combines = matches!(
            data.kind(),
            OpKind::Contract(_) | OpKind::Body(BodyOp::Reduce | BodyOp::Scatter) | OpKind::Movement(MovementOp::Gather)
        );
        let work = Work {
            rule: &rule,
            combines,
            result_dims: data.results().iter().map(|&v| self.module.ty(v).dims()).collect(),
            operand_bytes: bytes(data.operands()),
            result_bytes: bytes(data.results()),
            seconds: &seconds,
        };
        labels(&work, &self.axes)
    }
}

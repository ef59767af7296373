//! Sites: what is decided about. A site is a group of arguments, or of products inside the program, that are placed alike.
//!
//! Arguments of one type whose dimensions have the same colours are one site: a parameter and its moments are. In a program of
//! many layers the corresponding arguments of all layers are one site as well. An argument that a result takes the place of
//! (state of a training step) brings that result with it.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use meshwork_ir::op::ContractOp;
use meshwork_ir::{Attr, Module, OpId, OpKind, Type, ValueId, Walk};
use meshwork_mesh::{sort_by, sort_by_key};
use meshwork_partition::plan::{loc_name, short_type};

use crate::colours::Colours;

/// Sites above which corresponding arguments of repeated layers share their decisions.
const MANY_SITES: usize = 32;
/// Groups of products that can be constrained.
const PRODUCTS: usize = 6;

/// Arrays that are placed alike.
#[derive(Clone, Debug)]
pub struct Site {
    /// What to call it: the names of its arrays with `#` for numbers that differ.
    pub name: String,
    /// What it consists of.
    pub kind: SiteKind,
    /// The type of its first array.
    pub ty: Type,
    /// The colour of each dimension.
    pub colours: Vec<usize>,
    /// How large all its arrays are together.
    pub bytes: f64,
}

/// What a site consists of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SiteKind {
    /// Arguments that are read only: data, or weights of a program that does not train.
    Input,
    /// Arguments that results take the place of.
    State,
    /// Results of products inside the program.
    Product,
}

/// The members of each site in one form of the program.
#[derive(Clone, Debug, Default)]
pub struct Members {
    /// Numbers of arguments.
    pub arguments: Vec<usize>,
    /// Numbers of the results that take their place.
    pub results: Vec<usize>,
    /// Values inside the program.
    pub values: Vec<ValueId>,
}

impl Site {
    /// The extents of its dimensions.
    pub fn dims(&self) -> &[i64] {
        self.ty.dims()
    }
}

/// Whether layers that repeat share their decisions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Layers {
    /// If the program has many arguments.
    #[default]
    Auto,
    /// Never.
    Untied,
}

/// The sites of `module` and their members. Colours of corresponding dimensions become one. Only arguments of equal `class` are
/// in one site; those whose class starts with `=` are, whatever else they are.
pub fn sites(module: &Module, colours: &mut Colours, layers: Layers, class: &[String]) -> (Vec<Site>, Vec<Members>) {
    let Some(func) = module.entry() else { return (vec![], vec![]) };
    let Some(body) = module.body_of(func, 0) else { return (vec![], vec![]) };
    let args = module.block(body).args().to_vec();
    let names = argument_names(module, func);
    let taken = taken_over(module, func, &args, module.returned(body), colours);
    let mut groups: BTreeMap<(String, Vec<usize>, bool, &str), Vec<usize>> = BTreeMap::new();
    for (i, &v) in args.iter().enumerate() {
        if module.ty(v).rank().unwrap_or(0) > 0 {
            let key = match class[i].as_str() {
                tied if tied.starts_with('=') => (String::new(), vec![], false, tied),
                other => (short_type(module.ty(v)), colours.of_value(v), taken[i].is_some(), other),
            };
            groups.entry(key).or_default().push(i);
        }
    }
    let mut groups: Vec<Vec<usize>> = groups.into_values().collect();
    sort_by_key(&mut groups, |list| list[0]);
    if layers == Layers::Auto && groups.len() > MANY_SITES {
        groups = tie_layers(module, &args, &names, &groups, class);
        for list in &groups {
            list[1..].iter().for_each(|&i| colours.alike(module, args[list[0]], args[i]));
        }
    }
    colours.settle();
    let (mut sites, mut members) = (vec![], vec![]);
    for list in groups {
        let first = args[list[0]];
        let results: Vec<usize> = list.iter().filter_map(|&i| taken[i]).collect();
        sites.push(Site {
            name: common_name(list.iter().map(|&i| names[i].as_str())),
            kind: if results.is_empty() { SiteKind::Input } else { SiteKind::State },
            ty: module.ty(first).clone(),
            colours: colours.of_value(first),
            bytes: list.iter().map(|&i| bytes_of(module.ty(args[i]))).sum(),
        });
        members.push(Members { arguments: list, results, values: vec![] });
    }
    for (name, list) in products(module, func, colours) {
        let ty = module.ty(list[0]).clone();
        let bytes = bytes_of(&ty) * list.len() as f64;
        sites.push(Site { name, kind: SiteKind::Product, ty, colours: colours.of_value(list[0]), bytes });
        members.push(Members { values: list, ..Members::default() });
    }
    (sites, members)
}

fn bytes_of(ty: &Type) -> f64 {
    let each = ty.elem().map_or(0, |elem| elem.storage_bytes());
    ty.dims().iter().map(|&n| n.max(0) as f64).product::<f64>() * each as f64
}

/// The names of the arguments: those they were traced under, else `arg0`, `arg1`, …
pub fn argument_names(module: &Module, func: OpId) -> Vec<String> {
    let Some(body) = module.body_of(func, 0) else { return vec![] };
    let block = module.block(body);
    let traced = |i: usize| block.arg_locs.get(i).and_then(loc_name).filter(|n| !n.is_empty());
    (0..block.args().len()).map(|i| traced(i).map_or_else(|| format!("arg{i}"), str::to_string)).collect()
}

/// For each argument the result that takes its place: the one it is donated to; in a program that donates nothing and has
/// several such pairs, the next result of the same type and colours.
pub fn taken_over(
    module: &Module,
    func: OpId,
    args: &[ValueId],
    returned: &[ValueId],
    colours: &Colours,
) -> Vec<Option<usize>> {
    let alias = |i: usize| module.arg_attr(func, i, "tf.aliasing_output").and_then(Attr::as_int);
    let donated: Vec<Option<usize>> = (0..args.len())
        .map(|i| alias(i).and_then(|r| usize::try_from(r).ok()).filter(|&r| r < returned.len()))
        .collect();
    if donated.iter().any(Option::is_some) {
        return donated;
    }
    let mut free: BTreeMap<(String, Vec<usize>), Vec<usize>> = BTreeMap::new();
    for (r, &v) in returned.iter().enumerate().rev() {
        if module.ty(v).rank().unwrap_or(0) > 0 {
            free.entry((short_type(module.ty(v)), colours.of_value(v))).or_default().push(r);
        }
    }
    let mut take = |v: ValueId| free.get_mut(&(short_type(module.ty(v)), colours.of_value(v)))?.pop();
    let paired: Vec<Option<usize>> = args.iter().map(|&v| take(v)).collect();
    if paired.iter().flatten().count() >= 3 { paired } else { vec![None; args.len()] }
}

/// Groups that stand for the same argument of several layers, joined: those of equal type whose names differ by numbers only, or,
/// without names, that are used alike.
fn tie_layers(
    module: &Module,
    args: &[ValueId],
    names: &[String],
    groups: &[Vec<usize>],
    class: &[String],
) -> Vec<Vec<usize>> {
    let uses = used_alike(module);
    let mut tied: BTreeMap<(String, String, u64, &str), Vec<usize>> = BTreeMap::new();
    for list in groups {
        let i = list[0];
        let is_named = names[i] != format!("arg{i}");
        let (name, hash) =
            if is_named { (without_numbers(&names[i]), 0) } else { (String::new(), uses[args[i].index()]) };
        tied.entry((short_type(module.ty(args[i])), name, hash, &class[i])).or_default().extend(list);
    }
    let mut out: Vec<Vec<usize>> = tied.into_values().collect();
    out.iter_mut().for_each(|list| list.sort_unstable());
    sort_by_key(&mut out, |list| list[0]);
    out
}

/// A number for each value: equal for values of equal types that operations alike use alike, as far as three steps away.
fn used_alike(module: &Module) -> Vec<u64> {
    let of = |parts: &dyn Fn(&mut DefaultHasher)| {
        let mut hasher = DefaultHasher::new();
        parts(&mut hasher);
        hasher.finish()
    };
    let ids: Vec<OpId> = module.op_ids().collect();
    let mut now: Vec<u64> = module.value_types().map(|ty| of(&|h| ty.dims().hash(h))).collect();
    for _ in 0..3 {
        let mut uses: Vec<Vec<u64>> = vec![vec![]; now.len()];
        for &op in &ids {
            let data = module.op(op);
            let results: Vec<u64> = data.results().iter().map(|r| now[r.index()]).collect();
            for (i, v) in data.operands().iter().enumerate() {
                // Layers return their parts at different places.
                let i = if data.kind().is_terminator() { 0 } else { i };
                uses[v.index()].push(of(&|h| (data.name(), i, &results).hash(h)));
            }
        }
        let next = now.iter().zip(&mut uses).map(|(own, list)| {
            list.sort_unstable();
            of(&|h| (own, &*list).hash(h))
        });
        now = next.collect();
    }
    now
}

/// The groups of products that can be constrained, those that take the most memory first, with what to call them.
fn products(module: &Module, func: OpId, colours: &Colours) -> Vec<(String, Vec<ValueId>)> {
    let mut groups: BTreeMap<(String, Vec<usize>), Vec<ValueId>> = BTreeMap::new();
    for op in module.ops_below(func, Walk::PreOrder) {
        let data = module.op(op);
        let is_product =
            matches!(data.kind(), OpKind::Contract(ContractOp::DotGeneral | ContractOp::Dot | ContractOp::Convolution));
        if let Some(&v) = data.results().first().filter(|v| is_product && module.ty(**v).rank().unwrap_or(0) > 1) {
            groups.entry((short_type(module.ty(v)), colours.of_value(v))).or_default().push(v);
        }
    }
    let bytes = |list: &[ValueId]| {
        let elements = module.ty(list[0]).as_tensor().and_then(|t| t.num_elements()).unwrap_or(0);
        elements as f64 * list.len() as f64
    };
    let mut groups: Vec<_> = groups.into_iter().collect();
    sort_by(&mut groups, |a, b| bytes(&b.1).total_cmp(&bytes(&a.1)).then(a.1.cmp(&b.1)));
    groups.truncate(PRODUCTS);
    groups.into_iter().map(|((ty, _), list)| (format!("products {ty}"), list)).collect()
}

/// `blocks/#/w` for `blocks/0/w` and `blocks/1/w`; the first name and how many more there are if they differ in more.
fn common_name<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<&str> = names.collect();
    let patterns: BTreeSet<String> = names.iter().map(|n| without_numbers(n)).collect();
    match (names.as_slice(), patterns.len()) {
        ([only], _) => only.to_string(),
        ([first, ..], 1) if first.starts_with("arg") => format!("{first} and {} more", names.len() - 1),
        (_, 1) if names[0].contains(char::is_alphabetic) => patterns.into_iter().next().unwrap_or_default(),
        ([first, rest @ ..], _) => format!("{first} and {} more", rest.len()),
        ([], _) => String::new(),
    }
}

/// A name with `#` for each number in it.
pub fn without_numbers(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if !c.is_ascii_digit() {
            out.push(c);
        } else if !out.ends_with('#') {
            out.push('#');
        }
    }
    out
}

//! The places of a value, and what it takes at least to get from one to another: for each mesh axis that it splits nothing, splits a
//! dimension, or that each device along it has a part of a sum.

use std::rc::Rc;

use meshwork_ir::Combine;
use meshwork_ir::hash::HashMap;
use meshwork_mesh::{AxisRef, Mesh};
use meshwork_partition::Machine;
use meshwork_partition::collective::CollectiveKind;

/// More axes, and types with more places, are not looked into.
const MOST_AXES: usize = 3;
const MOST_PLACES: usize = 256;

/// Collectives along groups of no more than this many prime factors count nothing: those of few devices may be rings beside products, and
/// several of few devices may take the place of one.
const FEW_FACTORS: usize = 6;

/// What each axis does: 0 nothing, `d + 1` splits dimension `d`, `rank + 1` sums.
pub(super) type Roles = [usize; MOST_AXES];

/// The axes of a mesh, and what is known about types of values on it.
pub(super) struct Places<'a> {
    mesh: &'a Mesh,
    machine: &'a Machine,
    names: Vec<AxisRef>,
    pub(super) sizes: Vec<i64>,
    known: HashMap<(Vec<i64>, usize), Option<Rc<Ways>>>,
}

/// The places of the values of a type.
pub(super) struct Ways {
    pub(super) rank: usize,
    axes: usize,
    /// Bytes of a device at each place.
    pub(super) held: Vec<f64>,
    /// Seconds from each place (row) to each other one.
    seconds: Vec<f64>,
}

/// What becomes of an axis in a collective.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    /// Cutting, or calling what is there a part of a sum of which others have nothing.
    Free,
    Gather,
    Exchange,
    Scatter,
    Sum,
}

impl<'a> Places<'a> {
    /// `None` if the mesh has more axes than are looked into.
    pub(super) fn new(mesh: &'a Mesh, machine: &'a Machine) -> Option<Places<'a>> {
        let axes = || mesh.axes().iter().filter(|axis| axis.size > 1);
        let names = axes().map(|axis| AxisRef::full(axis.name.clone())).collect();
        let sizes = axes().map(|axis| axis.size).collect();
        (axes().count() <= MOST_AXES).then(|| Places { mesh, machine, names, sizes, known: HashMap::default() })
    }

    /// The places of a type; `None` if there are too many.
    pub(super) fn of(&mut self, dims: &[i64], element: usize) -> Option<Rc<Ways>> {
        if let Some(known) = self.known.get(&(dims.to_vec(), element)) {
            return known.clone();
        }
        let count = (dims.len() + 2).checked_pow(self.sizes.len() as u32).filter(|&count| count <= MOST_PLACES);
        let ways = count.map(|count| Rc::new(self.ways(dims, element, count)));
        self.known.insert((dims.to_vec(), element), ways.clone());
        ways
    }

    fn ways(&self, dims: &[i64], element: usize, count: usize) -> Ways {
        let mut ways = Ways { rank: dims.len(), axes: self.sizes.len(), held: vec![], seconds: vec![] };
        for place in 0..count {
            let roles = ways.roles(place);
            let extent = |(d, &n): (usize, &i64)| {
                let parts: i64 = (0..ways.axes).filter(|&a| roles[a] == d + 1).map(|a| self.sizes[a]).product();
                n.div_euclid(parts) as f64 + f64::from(u8::from(n % parts != 0))
            };
            let held = dims.iter().enumerate().map(extent).product::<f64>() * element as f64;
            ways.held.push(held);
        }
        ways.seconds = vec![f64::INFINITY; count * count];
        for from in 0..count {
            for to in 0..count {
                ways.seconds[from * count + to] = self.at_once(&ways, from, to);
            }
        }
        // Several collectives, one after the other.
        for middle in 0..count {
            for from in 0..count {
                let first = ways.seconds[from * count + middle];
                for to in 0..count {
                    let sum = first + ways.seconds[middle * count + to];
                    let known = &mut ways.seconds[from * count + to];
                    *known = known.min(sum);
                }
            }
        }
        ways
    }

    /// Seconds of the one collective that leads from one place to another; infinite if there is none.
    fn at_once(&self, ways: &Ways, from: usize, to: usize) -> f64 {
        if from == to {
            return 0.0;
        }
        let (a, b, sums) = (ways.roles(from), ways.roles(to), ways.rank + 1);
        let changed: Vec<usize> = (0..ways.axes).filter(|&axis| a[axis] != b[axis]).collect();
        // Two axes of one size change their places by a permute.
        if let &[x, y] = changed.as_slice()
            && (a[x], a[y]) == (b[y], b[x])
            && self.sizes[x] == self.sizes[y]
            && a[x] != sums
            && a[y] != sums
        {
            return self.seconds(CollectiveKind::Permute, &changed, ways.held[from]);
        }
        let change = |&axis: &usize| match (a[axis], b[axis]) {
            (0, _) => Change::Free,
            (x, 0) if x == sums => Change::Sum,
            (x, _) if x == sums => Change::Scatter,
            (_, 0) => Change::Gather,
            (_, y) if y == sums => Change::Free,
            _ => Change::Exchange,
        };
        let first = change(&changed[0]);
        if !changed.iter().all(|axis| change(axis) == first) {
            return f64::INFINITY;
        }
        let kind = match first {
            Change::Free => return 0.0,
            Change::Gather => CollectiveKind::AllGather,
            Change::Exchange => CollectiveKind::AllToAll,
            Change::Scatter => CollectiveKind::ReduceScatter(Combine::Add),
            Change::Sum => CollectiveKind::AllReduce(Combine::Add),
        };
        self.seconds(kind, &changed, ways.held[from])
    }

    /// Seconds of a collective along axes: whole, or its latency that of one for each prime factor.
    fn seconds(&self, kind: CollectiveKind, axes: &[usize], bytes: f64) -> f64 {
        let names: Vec<AxisRef> = axes.iter().map(|&a| self.names[a].clone()).collect();
        let pieces: Vec<AxisRef> = axes.iter().flat_map(|&a| factors(&self.names[a], self.sizes[a])).collect();
        if pieces.len() <= FEW_FACTORS {
            return 0.0;
        }
        let whole = |bytes: f64| self.machine.axes_seconds(&kind, &names, self.mesh, bytes);
        let one = |axis: &AxisRef| self.machine.axes_seconds(&kind, std::slice::from_ref(axis), self.mesh, 0.0);
        let (latency, all) = (whole(0.0), whole(bytes));
        all - (latency - pieces.iter().map(one).sum::<f64>()).max(0.0)
    }
}

/// The sub-axes of prime sizes of an axis.
fn factors(axis: &AxisRef, size: i64) -> Vec<AxisRef> {
    let (mut rest, mut before, mut prime, mut found) = (size, 1, 2, vec![]);
    while rest > 1 {
        if prime * prime > rest {
            prime = rest;
        }
        if rest % prime == 0 {
            found.push(AxisRef::sub(axis.name.clone(), before, prime));
            before *= prime;
            rest /= prime;
        } else {
            prime += 1;
        }
    }
    found
}

impl Ways {
    pub(super) fn count(&self) -> usize {
        self.held.len()
    }

    pub(super) fn roles(&self, place: usize) -> Roles {
        let mut roles = Roles::default();
        let mut rest = place;
        for role in roles.iter_mut().take(self.axes) {
            *role = rest % (self.rank + 2);
            rest /= self.rank + 2;
        }
        roles
    }

    pub(super) fn place(&self, roles: &Roles) -> usize {
        roles.iter().take(self.axes).rev().fold(0, |place, role| place * (self.rank + 2) + role)
    }

    /// When a value is at each place, given when it is there without having been moved.
    pub(super) fn moved(&self, made: &[f64]) -> Vec<f64> {
        let mut there = vec![f64::INFINITY; self.count()];
        for (from, row) in made.iter().zip(self.seconds.chunks(self.count().max(1))) {
            if from.is_finite() {
                there.iter_mut().zip(row).for_each(|(there, takes)| *there = there.min(from + takes));
            }
        }
        there
    }
}

//! Best labels for a tree of nodes while all others keep theirs, by dynamic programming from the leaves to the root.

use super::core::{Core, Neighbour};
use super::prices::Prices;
use super::random::Random;
use super::state::{Move, State};

/// Working memory for blocks.
pub(super) struct Block {
    nodes: Vec<u32>,
    /// For each node of the block, its parent's place in it and the way there.
    parents: Vec<(u32, Option<Neighbour>)>,
    frontier: Vec<(u32, u32, Neighbour)>,
    /// For each node of the network: how many neighbours stand in the block, and its own place there.
    touched: Vec<u32>,
    place: Vec<u32>,
    offsets: Vec<usize>,
    values: Vec<f64>,
    /// For each node of the block and each label of its parent the best label.
    choice_offsets: Vec<usize>,
    choices: Vec<u32>,
    labels: Vec<u32>,
}

const OUTSIDE: u32 = u32::MAX;

/// How a block is labelled.
pub(super) struct Terms<'a> {
    pub(super) prices: &'a Prices,
    /// How much worse a label of the root may be, on average.
    pub(super) temperature: f64,
}

impl Block {
    pub(super) fn new(core: &Core) -> Self {
        Self {
            nodes: Vec::new(),
            parents: Vec::new(),
            frontier: Vec::new(),
            touched: vec![0; core.len()],
            place: vec![OUTSIDE; core.len()],
            offsets: Vec::new(),
            values: Vec::new(),
            choice_offsets: Vec::new(),
            choices: Vec::new(),
            labels: Vec::new(),
        }
    }

    /// Grows a tree of at most `size` nodes from a root. Nodes with two neighbours in it stay out.
    pub(super) fn grow(&mut self, core: &Core, root: usize, size: usize, random: &mut Random) {
        self.clear(core);
        self.enter(core, root as u32, 0, None);
        while self.nodes.len() < size && !self.frontier.is_empty() {
            let at = random.below(self.frontier.len());
            let (node, parent, way) = self.frontier.swap_remove(at);
            if self.touched[node as usize] == 1 && self.place[node as usize] == OUTSIDE {
                self.enter(core, node, parent, Some(way));
            }
        }
    }

    /// How many nodes the block has.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    fn clear(&mut self, core: &Core) {
        for &node in &self.nodes {
            self.place[node as usize] = OUTSIDE;
            core.around(node as usize).iter().for_each(|neighbour| self.touched[neighbour.node as usize] = 0);
        }
        self.nodes.clear();
        self.parents.clear();
        self.frontier.clear();
    }

    fn enter(&mut self, core: &Core, node: u32, parent: u32, way: Option<Neighbour>) {
        let place = self.nodes.len() as u32;
        self.place[node as usize] = place;
        self.nodes.push(node);
        self.parents.push((parent, way));
        for neighbour in core.around(node as usize) {
            let touched = &mut self.touched[neighbour.node as usize];
            *touched += 1;
            if *touched == 1 && self.place[neighbour.node as usize] == OUTSIDE {
                let back = Neighbour { edge: neighbour.edge, node, end: 1 - neighbour.end };
                self.frontier.push((neighbour.node, place, back));
            }
        }
    }

    /// Labels the tree at least cost, and lists the nodes whose label changes.
    pub(super) fn solve(
        &mut self,
        core: &Core,
        state: &State,
        terms: &Terms,
        random: &mut Random,
        moves: &mut Vec<Move>,
    ) {
        self.lay_out(core);
        for place in 0..self.nodes.len() {
            self.own_costs(core, state, terms, place);
        }
        for place in (1..self.nodes.len()).rev() {
            self.tell_parent(core, place);
        }
        self.labels.clear();
        let root = &self.values[..self.offsets[1]];
        self.labels.push(pick(root, terms.temperature, random));
        for place in 1..self.nodes.len() {
            let parent = self.labels[self.parents[place].0 as usize] as usize;
            self.labels.push(self.choices[self.choice_offsets[place] + parent]);
        }
        moves.clear();
        for (node, label) in self.nodes.iter().zip(&self.labels) {
            if state.labels[*node as usize] != *label {
                moves.push((*node, *label));
            }
        }
    }

    fn lay_out(&mut self, core: &Core) {
        self.offsets.clear();
        self.choice_offsets.clear();
        let (mut values, mut choices) = (0, 0);
        for (node, (_, way)) in self.nodes.iter().zip(&self.parents) {
            self.offsets.push(values);
            self.choice_offsets.push(choices);
            values += core.count(*node as usize);
            choices += way.map_or(0, |way| core.count(way.node as usize));
        }
        self.offsets.push(values);
        self.values.clear();
        self.values.resize(values, 0.0);
        self.choices.clear();
        self.choices.resize(choices, 0);
    }

    /// The costs of a node's labels with its neighbours outside.
    fn own_costs(&mut self, core: &Core, state: &State, terms: &Terms, place: usize) {
        let node = self.nodes[place] as usize;
        let count = core.count(node);
        let range = core.range(node);
        let values = &mut self.values[self.offsets[place]..][..count];
        for ((value, cost), price) in
            values.iter_mut().zip(&core.costs[range.clone()]).zip(&terms.prices.of_label[range])
        {
            *value = cost + price;
        }
        for neighbour in core.around(node) {
            if self.place[neighbour.node as usize] == OUTSIDE {
                let other = state.labels[neighbour.node as usize] as usize;
                let column = &core.turned(*neighbour)[other * count..][..count];
                values.iter_mut().zip(column).for_each(|(value, pair)| *value += pair);
            }
        }
    }

    /// Adds to the parent's costs those of the subtree below, at the best label of its root.
    fn tell_parent(&mut self, core: &Core, place: usize) {
        let (parent, Some(way)) = self.parents[place] else { return };
        let count = core.count(self.nodes[place] as usize);
        let (before, own) = self.values.split_at_mut(self.offsets[place]);
        let own = &own[..count];
        let rows = core.count(way.node as usize);
        let above = &mut before[self.offsets[parent as usize]..][..rows];
        let choices = &mut self.choices[self.choice_offsets[place]..][..rows];
        let table = core.turned(way);
        for (row, (above, choice)) in above.iter_mut().zip(choices).enumerate() {
            let mut found = (0, f64::INFINITY);
            for (label, (pair, own)) in table[row * count..][..count].iter().zip(own).enumerate() {
                if pair + own < found.1 {
                    found = (label, pair + own);
                }
            }
            *above += found.1;
            *choice = found.0 as u32;
        }
    }
}

/// The least value's position, or at a temperature one drawn by how much it is above the least.
fn pick(values: &[f64], temperature: f64, random: &mut Random) -> u32 {
    let (at, least) = super::bound::least(values);
    if temperature <= 0.0 || least == f64::INFINITY {
        return at as u32;
    }
    let weights: Vec<f64> = values.iter().map(|value| ((least - value) / temperature).exp()).collect();
    let mut left = random.unit() * weights.iter().sum::<f64>();
    for (at, weight) in weights.iter().enumerate() {
        left -= weight;
        if left < 0.0 {
            return at as u32;
        }
    }
    at as u32
}

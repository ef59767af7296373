//! Networks small enough to try every labelling.

use super::random::Random;
use super::{Effort, Network, NetworkError, Outcome, solve};

/// The least cost of a feasible labelling, by trying all.
fn optimum(network: &Network) -> Option<f64> {
    let counts: Vec<usize> = network.nodes.iter().map(|node| node.costs.len()).collect();
    let mut labels = vec![0; counts.len()];
    let mut best: Option<f64> = None;
    loop {
        let (cost, excess) = network.evaluate(&labels).unwrap();
        if cost.is_finite() && excess == 0 {
            best = Some(best.map_or(cost, |least| least.min(cost)));
        }
        let Some(at) = (0..counts.len()).find(|at| labels[*at] + 1 < counts[*at]) else { return best };
        labels[at] += 1;
        labels[..at].fill(0);
    }
}

/// What a random network has.
#[derive(Clone, Copy)]
struct Kind {
    nodes: usize,
    labels: usize,
    /// Edges beside those of a spanning tree.
    chords: usize,
    /// Of 100 costs of pairs, how many are infinite.
    forbidden: usize,
    limit: Option<u64>,
}

fn random_network(kind: Kind, random: &mut Random) -> Network {
    let mut network = Network::new(kind.limit);
    let nodes = 1 + random.below(kind.nodes);
    let mut counts = Vec::new();
    for node in 0..nodes {
        let count = 1 + random.below(kind.labels);
        counts.push(count);
        network.node((0..count).map(|_| random.below(20) as f64).collect()).unwrap();
        for _ in 0..random.below(3) {
            let start = random.below(6);
            let end = start + random.below(4);
            network.usage(node, start..end, (0..count).map(|_| random.below(10) as u64).collect()).unwrap();
        }
    }
    let mut edge = |a: usize, b: usize, random: &mut Random| {
        let cost = |random: &mut Random| {
            if random.below(100) < kind.forbidden { f64::INFINITY } else { random.below(20) as f64 }
        };
        network.edge(a, b, (0..counts[a] * counts[b]).map(|_| cost(random)).collect::<Vec<_>>()).unwrap();
    };
    for node in 1..nodes {
        // One in eight starts a part of its own.
        if random.below(8) > 0 {
            edge(random.below(node), node, random);
        }
    }
    for _ in 0..random.below(kind.chords + 1) {
        let (a, b) = (random.below(nodes), random.below(nodes));
        if a != b {
            edge(a, b, random);
        }
    }
    network
}

fn solved(network: &Network) -> Outcome {
    let found = solve(network, &Effort { rounds: 12, ..Effort::default() }, &|| false).unwrap();
    let (cost, excess) = network.evaluate(&found.labels).unwrap();
    assert_eq!((cost, excess), (found.cost, found.excess));
    found
}

/// Solves random networks of a kind; returns how many were feasible and how many of these were solved to the optimum.
fn check(kind: Kind, count: usize, seed: u64) -> (usize, usize) {
    let mut random = Random::new(seed);
    let (mut feasible, mut exact) = (0, 0);
    for _ in 0..count {
        let network = random_network(kind, &mut random);
        let found = solved(&network);
        match optimum(&network) {
            Some(best) => {
                assert!(found.bound <= best + 1e-6, "bound {} above the optimum {best}: {network:?}", found.bound);
                assert!(!found.feasible() || found.cost >= best, "{network:?}");
                feasible += 1;
                exact += usize::from(found.feasible() && found.cost == best);
            }
            None => assert!(!found.feasible(), "{network:?}"),
        }
    }
    (feasible, exact)
}

const KIND: Kind = Kind { nodes: 7, labels: 4, chords: 0, forbidden: 0, limit: None };

#[test]
fn trees_without_limits_are_solved_exactly() {
    assert_eq!(check(KIND, 400, 1), (400, 400));
    let (feasible, exact) = check(Kind { forbidden: 25, ..KIND }, 400, 2);
    assert!(feasible > 200 && exact == feasible, "{exact} of {feasible}");
}

#[test]
fn cycles_without_limits() {
    let (feasible, exact) = check(Kind { chords: 8, ..KIND }, 500, 3);
    assert!(feasible == 500 && exact * 100 >= feasible * 99, "{exact} of {feasible}");
}

#[test]
fn cycles_with_forbidden_pairs() {
    let (feasible, exact) = check(Kind { chords: 5, forbidden: 30, ..KIND }, 500, 4);
    assert!(feasible > 250 && exact * 100 >= feasible * 98, "{exact} of {feasible}");
}

#[test]
fn limits() {
    for (limit, seed) in [(5, 5), (10, 6), (15, 7), (25, 8)] {
        let (feasible, exact) = check(Kind { chords: 4, limit: Some(limit), ..KIND }, 300, seed);
        assert!(feasible > 30 && exact * 100 >= feasible * 97, "limit {limit}: {exact} of {feasible}");
    }
}

#[test]
fn limits_and_forbidden_pairs() {
    let (feasible, exact) = check(Kind { chords: 4, forbidden: 20, limit: Some(14), ..KIND }, 500, 9);
    assert!(feasible > 100 && exact * 100 >= feasible * 95, "{exact} of {feasible}");
}

#[test]
fn equal_efforts_give_equal_results() {
    let mut random = Random::new(10);
    let kind = Kind { nodes: 60, labels: 6, chords: 60, forbidden: 10, limit: Some(60) };
    for walks in [1, 2] {
        let network = random_network(kind, &mut random);
        let effort = Effort { rounds: 8, walks, seed: 5, divisions: 2 * walks };
        let first = solve(&network, &effort, &|| false).unwrap();
        assert_eq!(first, solve(&network, &effort, &|| false).unwrap());
    }
}

#[test]
fn stopping_at_once_still_gives_labels() {
    let mut random = Random::new(11);
    let kind = Kind { nodes: 60, labels: 6, chords: 60, forbidden: 0, limit: Some(60) };
    let network = random_network(kind, &mut random);
    let found = solve(&network, &Effort::default(), &|| true).unwrap();
    assert_eq!(found.labels.len(), network.len());
    assert_eq!(found.rounds, 0);
    assert_eq!(network.evaluate(&found.labels).unwrap(), (found.cost, found.excess));
}

#[test]
fn nothing_and_one_node() {
    let found = solved(&Network::new(None));
    assert_eq!((found.labels, found.cost, found.bound), (vec![], 0.0, 0.0));
    let mut network = Network::new(Some(3));
    let node = network.node(vec![4.0, 1.0, 2.0]).unwrap();
    network.usage(node, 2..3, vec![0, 9, 3]).unwrap();
    network.usage(node, 5..5, vec![100, 100, 100]).unwrap();
    let found = solved(&network);
    assert_eq!((found.labels, found.cost), (vec![2], 2.0));
    assert!((found.bound - 2.0).abs() < 1e-9);
}

#[test]
fn a_network_without_a_finite_labelling_has_an_infinite_bound() {
    let mut network = Network::new(None);
    let a = network.node(vec![0.0, 0.0]).unwrap();
    let b = network.node(vec![0.0]).unwrap();
    network.edge(a, b, vec![f64::INFINITY; 2]).unwrap();
    let found = solved(&network);
    assert!(!found.feasible() && found.bound == f64::INFINITY && found.cost == f64::INFINITY);
}

#[test]
fn what_misses_the_limit_is_told() {
    let mut network = Network::new(Some(10));
    for cost in 0..3 {
        let node = network.node(vec![f64::from(cost), 0.0]).unwrap();
        network.usage(node, 0..4, vec![5, 8]).unwrap();
    }
    let found = solved(&network);
    assert!(!found.feasible());
    assert_eq!(found.excess, 5);
    assert_eq!(found.labels, [0, 0, 0]);
    assert_eq!(found.bound, f64::INFINITY);
}

#[test]
fn a_limit_of_zero_and_a_usage_that_starts_when_another_ends() {
    let mut network = Network::new(Some(0));
    let a = network.node(vec![0.0, 5.0]).unwrap();
    network.usage(a, 0..1, vec![1, 0]).unwrap();
    assert_eq!(solved(&network).labels, [1]);
    let mut network = Network::new(Some(4));
    for time in 0..3 {
        let node = network.node(vec![0.0, 1.0]).unwrap();
        network.usage(node, time..time + 1, vec![4, 0]).unwrap();
    }
    assert_eq!(solved(&network).labels, [0, 0, 0]);
}

#[test]
fn bad_input_is_named() {
    let mut network = Network::new(Some(1));
    let text = |result: Result<usize, NetworkError>| result.unwrap_err().to_string();
    assert_eq!(
        text(network.node(vec![])),
        "node 0 has no labels: give it at least one, with an infinite cost if none is allowed"
    );
    assert_eq!(
        text(network.node(vec![0.0, f64::NAN])),
        "node 0: label 1 costs NaN; costs are finite, or infinite to forbid a label"
    );
    let a = network.node(vec![0.0, 1.0]).unwrap();
    let b = network.node(vec![0.0]).unwrap();
    let text = |result: Result<(), NetworkError>| result.unwrap_err().to_string();
    assert_eq!(text(network.edge(a, 7, vec![])), "node 7 of a network with 2 nodes");
    assert_eq!(
        text(network.edge(a, a, vec![])),
        "an edge from node 0 to itself: add its costs to those of the node's labels"
    );
    assert_eq!(
        text(network.edge(a, b, vec![0.0])),
        "edge 0-1 needs 2x1 costs, one for each pair of labels, but 1 are given"
    );
    assert_eq!(
        text(network.edge(a, b, vec![0.0, f64::NEG_INFINITY])),
        "edge 0-1: labels 1 and 0 cost -inf; costs are finite, or infinite to forbid a pair"
    );
    assert_eq!(text(network.usage(a, 0..1, vec![1])), "node 0 has 2 labels, but 1 usages are given");
    let backwards = std::ops::Range { start: 3, end: 1 };
    assert_eq!(
        text(network.usage(a, backwards, vec![1, 1])),
        "node 0 uses memory from time 3 to 1: it ends before it starts"
    );
    assert_eq!(network.evaluate(&[0]).unwrap_err().to_string(), "a labelling of 1 nodes for a network of 2");
    assert_eq!(network.evaluate(&[0, 1]).unwrap_err().to_string(), "label 1 of node 1, which has 1 labels");
    network.usage(a, 0..1, vec![u64::MAX, 0]).unwrap();
    let error = solve(&network, &Effort::default(), &|| false).unwrap_err();
    assert_eq!(error, NetworkError::TooMuch { total: u128::from(u64::MAX) });
}

/// Forbidding and dividing never lose a best labelling, and close gaps that one round leaves.
#[test]
fn divisions_keep_the_bound_below_every_labelling() {
    let mut random = Random::new(21);
    let kind = Kind { nodes: 7, labels: 4, chords: 6, forbidden: 10, limit: Some(14) };
    let (mut open, mut closed) = (0, 0);
    for number in 0..1000 {
        let network = random_network(kind, &mut random);
        let effort = Effort { rounds: 1, ..Effort::default() };
        let least = optimum(&network);
        let before = solve(&network, &effort, &|| false).unwrap();
        let after = solve(&network, &Effort { divisions: 20, ..effort }, &|| false).unwrap();
        assert!(after.bound >= before.bound - 1e-9, "network {number}: {} after {}", after.bound, before.bound);
        let Some(least) = least else { continue };
        assert!(after.bound <= least + 1e-9 * least.abs(), "network {number}: {} above {least}", after.bound);
        if before.bound < least - 0.01 * least.abs() {
            open += 1;
            closed += usize::from(after.bound >= least - 0.01 * least.abs());
        }
    }
    println!("{closed} of {open} gaps are closed");
    assert!(open > 20 && closed * 10 >= open * 9);
}

/// Prices see a share of the large usage; what the other node uses at least leaves no room for it.
#[test]
fn what_has_no_room_is_forbidden_before_prices_move() {
    let mut network = Network::new(Some(10));
    let a = network.node(vec![0.0, 5.0]).unwrap();
    let b = network.node(vec![1.0, 0.0]).unwrap();
    network.usage(a, 0..1, vec![8, 3]).unwrap();
    network.usage(b, 0..1, vec![3, 4]).unwrap();
    let found = solve(&network, &Effort { rounds: 1, ..Effort::default() }, &|| false).unwrap();
    assert_eq!((found.labels, found.cost), (vec![1, 1], 5.0));
    assert!((found.bound - 5.0).abs() < 1e-9, "{}", found.bound);
}

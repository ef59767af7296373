//! Algorithms for dimensions that stay split where an operation asks for a whole one, and how each is switched.
//!
//! A plan uses one where it is predicted to be faster than what it replaces; the plan says which and by how much.

use std::fmt;
use std::str::FromStr;

/// An algorithm that a plan may use.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Algorithm {
    /// Sorts along a split dimension: each device sorts its block, and blocks trade pieces that are cut at exact ranks.
    Sort,
    /// Fourier transforms along a split dimension: as a matrix, first its columns, then its rows.
    Fft,
    /// Cholesky factorizations of matrices that are split along a side: panels of columns go round.
    Cholesky,
    /// Triangular systems whose equations are split: devices solve for their unknowns in turn.
    TriangularSolve,
    /// Products whose operand would be gathered, or whose result added up and scattered: blocks go round beside them.
    RingProducts,
    /// Halos of loops that are exchanged once in several turns: what neighbours compute meanwhile is computed again.
    WideHalos,
    /// Halos of loops that are exchanged beside the interior of each block, which does not read them.
    OverlappedHalos,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Algorithm; 7] = [
        Algorithm::Sort,
        Algorithm::Fft,
        Algorithm::Cholesky,
        Algorithm::TriangularSolve,
        Algorithm::RingProducts,
        Algorithm::WideHalos,
        Algorithm::OverlappedHalos,
    ];

    /// The name in options and plans.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Sort => "distributed-sort",
            Algorithm::Fft => "distributed-fft",
            Algorithm::Cholesky => "distributed-cholesky",
            Algorithm::TriangularSolve => "distributed-triangular-solve",
            Algorithm::RingProducts => "ring-products",
            Algorithm::WideHalos => "wide-halos",
            Algorithm::OverlappedHalos => "overlapped-halos",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = String;

    fn from_str(name: &str) -> Result<Algorithm, String> {
        let names = || Algorithm::ALL.map(Algorithm::name).join(", ");
        let found = Algorithm::ALL.into_iter().find(|a| a.name() == name);
        found.ok_or_else(|| format!("'{name}' is no algorithm; there are {}", names()))
    }
}

/// When an algorithm is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// Where it is predicted to be faster than what it replaces.
    Weighed,
    /// Nowhere.
    Never,
    /// Wherever it can be.
    Always,
}

/// When each algorithm is used: where it is faster, unless it is switched.
///
/// ```
/// # use meshwork_partition::{Algorithm, Algorithms, CompileOptions, Use};
/// let algorithms = Algorithms::default().with("distributed-sort".parse()?, Use::Never);
/// assert_eq!(algorithms.of(Algorithm::Sort), Use::Never);
/// assert_eq!(algorithms.of(Algorithm::Fft), Use::Weighed);
/// let options = CompileOptions { algorithms, ..CompileOptions::default() };
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Algorithms {
    switched: Vec<(Algorithm, Use)>,
}

impl Algorithms {
    /// The same with `algorithm` used so.
    pub fn with(mut self, algorithm: Algorithm, when: Use) -> Algorithms {
        self.switched.retain(|s| s.0 != algorithm);
        self.switched.push((algorithm, when));
        self
    }

    /// All of `algorithms` used so, the others as usual.
    pub fn all(algorithms: &[Algorithm], when: Use) -> Algorithms {
        algorithms.iter().fold(Algorithms::default(), |all, &a| all.with(a, when))
    }

    /// When `algorithm` is used.
    pub fn of(&self, algorithm: Algorithm) -> Use {
        self.switched.iter().find(|s| s.0 == algorithm).map_or(Use::Weighed, |s| s.1)
    }
}

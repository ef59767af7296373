//! Hash maps and sets with a quicker hash than the standard one, seeded: keys are ids, types and names of programs.

pub use foldhash::fast::RandomState;

/// A map.
pub type HashMap<K, V> = std::collections::HashMap<K, V, RandomState>;

/// A set.
pub type HashSet<K> = std::collections::HashSet<K, RandomState>;

//! A small dictionary of named attributes, kept sorted by name as MLIR prints it.

use std::fmt;

use smallvec::SmallVec;
use smol_str::SmolStr;

use super::Attr;

/// Named attributes, sorted by name, each name once.
#[derive(Clone, Default, PartialEq)]
pub struct AttrDict {
    /// Most operations have one attribute or none.
    entries: SmallVec<[(SmolStr, Attr); 1]>,
}

impl AttrDict {
    /// An empty dictionary.
    pub const fn new() -> Self {
        AttrDict { entries: SmallVec::new_const() }
    }

    /// A dictionary of one attribute.
    pub fn one(name: &'static str, value: Attr) -> Self {
        AttrDict { entries: SmallVec::from_buf([(SmolStr::new_static(name), value)]) }
    }

    /// The attribute called `name`.
    pub fn get(&self, name: &str) -> Option<&Attr> {
        self.entries.iter().find(|(n, _)| n == name).map(|(_, a)| a)
    }

    /// The attribute called `name`, to change it.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Attr> {
        self.entries.iter_mut().find(|(n, _)| n == name).map(|(_, a)| a)
    }

    /// Whether there is an attribute called `name`.
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Sets `name`, returning what it was before.
    pub fn set(&mut self, name: impl Into<SmolStr>, value: Attr) -> Option<Attr> {
        let name = name.into();
        match self.entries.binary_search_by(|(n, _)| n.as_str().cmp(&name)) {
            Ok(i) => Some(std::mem::replace(&mut self.entries[i].1, value)),
            Err(i) => {
                self.entries.insert(i, (name, value));
                None
            }
        }
    }

    /// Removes `name`, returning what it was.
    pub fn remove(&mut self, name: &str) -> Option<Attr> {
        let i = self.entries.iter().position(|(n, _)| n == name)?;
        Some(self.entries.remove(i).1)
    }

    /// All entries in name order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&SmolStr, &Attr)> {
        self.entries.iter().map(|(n, a)| (n, a))
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Keeps the entries for which `keep` holds.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &Attr) -> bool) {
        self.entries.retain(|(n, a)| keep(n, a));
    }
}

impl fmt::Debug for AttrDict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<N: Into<SmolStr>> FromIterator<(N, Attr)> for AttrDict {
    fn from_iter<I: IntoIterator<Item = (N, Attr)>>(iter: I) -> Self {
        let mut dict = AttrDict::new();
        for (name, value) in iter {
            dict.set(name, value);
        }
        dict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_sorted_and_unique() {
        let mut d: AttrDict = [("b", Attr::i64(1)), ("a", Attr::Unit), ("c", Attr::Unit)].into_iter().collect();
        assert_eq!(d.set("b", Attr::i64(2)), Some(Attr::i64(1)));
        assert_eq!(d.iter().map(|(n, _)| n.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(d.remove("a"), Some(Attr::Unit));
        assert!(!d.contains("a"));
    }

    #[test]
    fn copies_change_on_their_own_and_empty_ones_are_equal() {
        let mut d: AttrDict = [("a", Attr::Unit)].into_iter().collect();
        let copy = d.clone();
        d.remove("a");
        assert_eq!(copy.len(), 1);
        assert_eq!(d, AttrDict::new());
    }
}

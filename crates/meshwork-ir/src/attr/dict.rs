//! A small dictionary of named attributes, kept sorted by name as MLIR prints it.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;
use smol_str::SmolStr;

use super::Attr;

/// Most operations have one attribute or none.
type Entries = SmallVec<[(SmolStr, Attr); 1]>;

/// Named attributes, sorted by name, each name once. Copies share the entries until one of them is changed.
#[derive(Clone, Default)]
pub struct AttrDict {
    /// `None` if there are none.
    entries: Option<Arc<Entries>>,
}

impl AttrDict {
    /// An empty dictionary.
    pub const fn new() -> Self {
        AttrDict { entries: None }
    }

    /// A dictionary of one attribute.
    pub fn one(name: &'static str, value: Attr) -> Self {
        AttrDict { entries: Some(Arc::new(SmallVec::from_buf([(SmolStr::new_static(name), value)]))) }
    }

    fn entries(&self) -> &[(SmolStr, Attr)] {
        self.entries.as_ref().map_or(&[], |entries| entries)
    }

    /// The attribute called `name`.
    pub fn get(&self, name: &str) -> Option<&Attr> {
        self.entries().iter().find(|(n, _)| n == name).map(|(_, a)| a)
    }

    /// The attribute called `name`, to change it.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Attr> {
        let entries = Arc::make_mut(self.entries.as_mut()?);
        entries.iter_mut().find(|(n, _)| n == name).map(|(_, a)| a)
    }

    /// Whether there is an attribute called `name`.
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Sets `name`, returning what it was before.
    pub fn set(&mut self, name: impl Into<SmolStr>, value: Attr) -> Option<Attr> {
        let (name, entries) = (name.into(), Arc::make_mut(self.entries.get_or_insert_default()));
        match entries.binary_search_by(|(n, _)| n.as_str().cmp(&name)) {
            Ok(i) => Some(std::mem::replace(&mut entries[i].1, value)),
            Err(i) => {
                entries.insert(i, (name, value));
                None
            }
        }
    }

    /// Removes `name`, returning what it was.
    pub fn remove(&mut self, name: &str) -> Option<Attr> {
        let i = self.entries().iter().position(|(n, _)| n == name)?;
        let entries = Arc::make_mut(self.entries.as_mut()?);
        let (_, removed) = entries.remove(i);
        if entries.is_empty() {
            self.entries = None;
        }
        Some(removed)
    }

    /// All entries in name order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&SmolStr, &Attr)> {
        self.entries().iter().map(|(n, a)| (n, a))
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries().len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_none()
    }

    /// Keeps the entries for which `keep` holds.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &Attr) -> bool) {
        let Some(entries) = &mut self.entries else { return };
        let entries = Arc::make_mut(entries);
        entries.retain(|(n, a)| keep(n, a));
        if entries.is_empty() {
            self.entries = None;
        }
    }
}

impl PartialEq for AttrDict {
    fn eq(&self, other: &AttrDict) -> bool {
        self.entries() == other.entries()
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

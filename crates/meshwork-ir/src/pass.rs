//! Passes: named module-to-module steps with options, as `meshwork opt -name=key=value` runs them.

use std::collections::BTreeMap;

use crate::{Diagnostic, Module};

/// Options of one pass invocation, `-pass="a=1 b=x"`, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PassOptions(pub BTreeMap<String, String>);

impl PassOptions {
    /// The text of option `name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The boolean option `name`: given without value, `true` or `1` means true.
    pub fn flag(&self, name: &str) -> bool {
        matches!(self.get(name), Some("" | "true" | "1"))
    }

    /// The boolean option `name`, or `default` when it is not given.
    pub fn flag_or(&self, name: &str, default: bool) -> bool {
        if self.get(name).is_some() { self.flag(name) } else { default }
    }
}

/// The pass reported an error diagnostic and the module must not be used further.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failed;

/// A named pass.
#[derive(Clone, Copy)]
pub struct Pass {
    /// Name on the command line, without dashes.
    pub name: &'static str,
    /// One line of help.
    pub summary: &'static str,
    /// Options it takes, each with one line of help. Any other option is an error.
    pub options: &'static [(&'static str, &'static str)],
    /// Runs it. Diagnostics go to the vector; `Err` after at least one error.
    pub run: fn(&mut Module, &PassOptions, &mut Vec<Diagnostic>) -> Result<(), Failed>,
}

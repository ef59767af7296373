//! Any text gives a module or an error; a module prints to text that reads and prints the same again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use meshwork_ir::text::{parse, print};

fuzz_target!(|text: &str| {
    if let Ok(module) = parse(text) {
        let first = print(&module);
        let again = parse(&first).unwrap_or_else(|e| panic!("{}", e.render("printed", &first)));
        assert_eq!(first, print(&again));
    }
});

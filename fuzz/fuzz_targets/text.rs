//! Any text gives a module or an error; a module prints to text that reads and prints the same again.
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use meshwork_ir::text::{parse, print};

fuzz_target!(|text: &str| {
    match parse(text) {
        Ok(module) => {
            let first = print(&module);
            let again = parse(&first).unwrap_or_else(|e| panic!("{}", e.render("printed", &first)));
            assert_eq!(first, print(&again));
        }
        Err(e) => assert!(!e.render("text", text).is_empty()),
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, most: usize, seed: u32| {
    if seed.is_multiple_of(2) { fuzzer_mutate(data, size, most) } else { meshwork_fuzz::tokens(data, size, most, seed) }
});

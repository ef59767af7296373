//! A program that verifies is placed and split, or refused; what comes out verifies, and its text reads back as it is.
#![no_main]

use libfuzzer_sys::{Corpus, fuzz_mutator, fuzz_target, fuzzer_mutate};
use meshwork_ir::{same, text, verify};
use meshwork_partition::{CompileOptions, compile};

fuzz_target!(|source: &str| -> Corpus {
    let Ok(module) = text::parse(source) else { return Corpus::Reject };
    if !verify::verify(&module).is_empty() {
        return Corpus::Keep;
    }
    if let Ok(compiled) = compile(&module, &CompileOptions::default()) {
        let faults = verify::verify(&compiled.module);
        assert!(faults.is_empty(), "the split program does not verify: {}", faults[0]);
        let printed = text::print(&compiled.module);
        let again = text::parse(&printed).unwrap_or_else(|e| panic!("{}", e.render("printed", &printed)));
        assert_eq!(same(&compiled.module, &again), Ok(()), "the split program reads back differently");
    }
    Corpus::Keep
});

fuzz_mutator!(|data: &mut [u8], size: usize, most: usize, seed: u32| {
    if seed.is_multiple_of(8) { fuzzer_mutate(data, size, most) } else { meshwork_fuzz::tokens(data, size, most, seed) }
});

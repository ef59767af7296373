//! Any bytes give a module or an error; what is read as bytecode can be printed, and verified without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use meshwork_ir::{read, text, verify};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(module) = read(bytes) {
        let printed = text::print(&module);
        if verify::verify(&module).is_empty() {
            text::parse(&printed).unwrap_or_else(|e| panic!("{}", e.render("printed", &printed)));
        }
    }
});

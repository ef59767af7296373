//! Any bytes give the entries of an archive or an error; what is read is written to an archive that reads the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use meshwork_ir::{npy, npz};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(entries) = npz::read(bytes) {
        for entry in &entries {
            let _array_or_error = npy::read(&entry.bytes);
        }
        if let Ok(written) = npz::write(&entries) {
            assert_eq!(npz::read(&written), Ok(entries));
        }
    }
});

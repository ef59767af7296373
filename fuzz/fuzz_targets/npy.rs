//! Any bytes give an array or an error; what is read is written to bytes that read the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use meshwork_ir::npy;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(array) = npy::read(bytes) {
        assert_eq!(npy::read(&npy::write(&array)), Ok(array));
    }
});

//! Any bytes are a file of named arrays or an error, and so is every array of it. After a `!`, the
//! bytes are a header, to which the length and data are added: so most changes reach what reads headers.
#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use meshwork::SafeTensors;

fuzz_target!(|bytes: &[u8]| {
    let whole = bytes.strip_prefix(b"!").map(|header| {
        // A header of its own length, and data for small arrays.
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend_from_slice(header);
        file.extend(std::iter::repeat_n(1, 64));
        file
    });
    let file = whole.unwrap_or_else(|| bytes.to_vec());
    let Ok(mut arrays) = SafeTensors::from_reader(Cursor::new(file), "fuzz") else { return };
    for name in arrays.names() {
        let described = arrays.describe(&name);
        if let Ok(array) = arrays.array(&name) {
            let (shape, elem) = described.expect("what is read is described");
            assert_eq!((array.shape(), array.dtype()), (&shape[..], elem));
        }
    }
});

//! Meshes to choose from: the ways to arrange a number of devices along at most three axes.

use meshwork_mesh::{Mesh, sort_by_key};

use crate::error::PlannerError;

/// The names of one, two and three axes, major to minor.
const NAMES: [&[&str]; 3] = [&["data"], &["data", "model"], &["data", "sequence", "model"]];
/// Meshes that are tried at most.
const MOST: usize = 60;

/// The meshes of `devices` devices, few axes first.
pub fn meshes(devices: i64) -> Result<Vec<Mesh>, PlannerError> {
    if devices < 1 {
        return Err(PlannerError::Devices { devices });
    }
    let mut out = vec![];
    for names in NAMES {
        for sizes in factorizations(devices, names.len()) {
            out.extend(Mesh::new(names.iter().copied().zip(sizes)));
        }
    }
    out.truncate(MOST);
    if out.is_empty() { Err(PlannerError::Devices { devices }) } else { Ok(out) }
}

/// The lists of `count` factors of at least 2 whose product is `n`; for one factor, also 1. Minor axes, whose links are fast, stay
/// small: those with the smallest come first.
fn factorizations(n: i64, count: usize) -> Vec<Vec<i64>> {
    if count == 1 {
        return vec![vec![n]];
    }
    let mut out = vec![];
    for minor in (2..=n / 2).filter(|m| n % m == 0) {
        for mut major in factorizations(n / minor, count - 1) {
            if major.iter().all(|&size| size > 1) {
                major.push(minor);
                out.push(major);
            }
        }
    }
    sort_by_key(&mut out, |sizes| sizes[1..].iter().product::<i64>());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_meshes_of_8_devices() {
        let all: Vec<String> = meshes(8).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(
            all,
            [
                r#"<["data"=8]>"#,
                r#"<["data"=4, "model"=2]>"#,
                r#"<["data"=2, "model"=4]>"#,
                r#"<["data"=2, "sequence"=2, "model"=2]>"#
            ]
        );
        assert!(meshes(0).is_err());
        assert!(meshes(65536).unwrap().len() <= MOST);
    }
}

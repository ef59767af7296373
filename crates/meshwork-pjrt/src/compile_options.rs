//! `CompileOptionsProto`, as far as it is used.

use meshwork_pjrt_abi::proto::{push_bytes, push_number};

/// A program of `replicas` replicas that is partitioned already, with these flags of XLA.
pub(crate) fn for_replicas(replicas: usize, flags: &[(String, String)]) -> Vec<u8> {
    let mut build = vec![];
    push_number(&mut build, 4, replicas as u64);
    push_number(&mut build, 5, 1);
    with_flags(build, flags)
}

/// A program that XLA places and splits over `partitions` devices itself.
pub(crate) fn for_xla(partitions: usize, flags: &[(String, String)]) -> Vec<u8> {
    let mut build = vec![];
    push_number(&mut build, 4, 1);
    push_number(&mut build, 5, partitions as u64);
    push_number(&mut build, 6, u64::from(partitions > 1));
    push_number(&mut build, 19, 1);
    with_flags(build, flags)
}

fn with_flags(build: Vec<u8>, flags: &[(String, String)]) -> Vec<u8> {
    let mut options = vec![];
    push_bytes(&mut options, 3, &build);
    for (name, value) in flags {
        let mut typed = vec![];
        match value.parse::<bool>() {
            Ok(yes) => push_number(&mut typed, 2, u64::from(yes)),
            Err(_) => match value.parse::<i64>() {
                Ok(number) => push_number(&mut typed, 3, number as u64),
                Err(_) => push_bytes(&mut typed, 1, value.as_bytes()),
            },
        }
        let mut entry = vec![];
        push_bytes(&mut entry, 1, name.as_bytes());
        push_bytes(&mut entry, 2, &typed);
        push_bytes(&mut options, 7, &entry);
    }
    options
}

#[cfg(test)]
mod tests {
    use meshwork_pjrt_abi::proto::{Field, fields};

    use super::*;

    #[test]
    fn replicas_and_flags_are_where_xla_looks_for_them() {
        let flags = [("xla_a".to_string(), "true".to_string()), ("xla_b".to_string(), "fast".to_string())];
        let options = for_replicas(4, &flags);
        let all = fields(&options).unwrap();
        let bytes = |i: usize| match all[i] {
            (_, Field::Bytes(bytes)) => bytes,
            other => panic!("{other:?}"),
        };
        assert_eq!(all.iter().map(|f| f.0).collect::<Vec<_>>(), [3, 7, 7]);
        assert_eq!(fields(bytes(0)).unwrap(), [(4, Field::Number(4)), (5, Field::Number(1))]);
        assert_eq!(fields(bytes(1)).unwrap(), [(1, Field::Bytes(b"xla_a")), (2, Field::Bytes(&[16, 1]))]);
        assert_eq!(fields(bytes(2)).unwrap()[1], (2, Field::Bytes(b"\x0a\x04fast")));
    }
}

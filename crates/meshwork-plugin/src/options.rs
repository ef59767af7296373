//! The options that a program is compiled with: `xla.CompileOptionsProto`, of which few matter here.

use crate::failure::{Failure, Outcome};
use crate::proto::{Field, fields, numbers};

/// Which devices a program is for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Options {
    /// The devices in order of partition.
    pub devices: Vec<usize>,
    /// What the user wrote as `compiler_options`.
    pub overrides: Vec<(String, String)>,
}

impl Options {
    pub fn read(bytes: &[u8]) -> Outcome<Options> {
        let (mut replicas, mut partitions, mut ordinal) = (1, 1, None);
        let (mut is_shardy, mut devices, mut overrides) = (true, None, vec![]);
        for (number, field) in fields(bytes)? {
            match (number, field) {
                (3, Field::Bytes(build)) => {
                    is_shardy = false;
                    for (number, field) in fields(build)? {
                        match (number, field) {
                            (1, Field::Number(n)) => ordinal = usize::try_from(n as i64).ok(),
                            (4, Field::Number(n)) => replicas = n,
                            (5, Field::Number(n)) => partitions = n,
                            (9, Field::Bytes(bytes)) => devices = Some(assignment(bytes)?),
                            (19, Field::Number(n)) => is_shardy = n != 0,
                            _ => {}
                        }
                    }
                }
                (7, Field::Bytes(bytes)) => overrides.push(setting(bytes)?),
                _ => {}
            }
        }
        if replicas > 1 {
            let what = format!("{replicas} replicas of a program; write it with jit or shard_map over a mesh");
            return Err(Failure::unimplemented(what));
        }
        if !is_shardy && partitions > 1 {
            let what = "a program with GSPMD shardings: set jax_use_shardy_partitioner to True";
            return Err(Failure::unimplemented(what));
        }
        let count = partitions.max(1) as usize;
        let devices = match devices {
            Some(devices) if devices.len() == count => devices,
            Some(devices) => {
                let what = format!("{} devices assigned to {count} partitions", devices.len());
                return Err(Failure::invalid(what));
            }
            None if count == 1 => vec![ordinal.unwrap_or(0)],
            None => (0..count).collect(),
        };
        Ok(Options { devices, overrides })
    }
}

/// `DeviceAssignmentProto`: per partition the devices of its replicas.
fn assignment(bytes: &[u8]) -> Outcome<Vec<usize>> {
    let mut devices = vec![];
    for (number, field) in fields(bytes)? {
        let (3, Field::Bytes(partition)) = (number, field) else { continue };
        for (number, field) in fields(partition)? {
            if number == 1 {
                devices.extend(numbers(field)?.into_iter().map(|id| id as usize));
            }
        }
    }
    Ok(devices)
}

/// An entry of `env_option_overrides`: a name, and a value of one of several types.
fn setting(bytes: &[u8]) -> Outcome<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (mut name, mut value) = (String::new(), String::new());
    for (number, field) in fields(bytes)? {
        match (number, field) {
            (1, Field::Bytes(bytes)) => name = text(bytes),
            (2, Field::Bytes(bytes)) => {
                for (number, field) in fields(bytes)? {
                    value = match field {
                        Field::Bytes(bytes) => text(bytes),
                        Field::Number(n) if number == 2 => (n != 0).to_string(),
                        Field::Number(n) => n.to_string(),
                    };
                }
            }
            _ => {}
        }
    }
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{push_bytes, push_number, push_numbers};

    fn proto(replicas: u64, partitions: u64, devices: &[i64], shardy: u64) -> Vec<u8> {
        let mut assignment = vec![];
        for &device in devices {
            let mut partition = vec![];
            push_numbers(&mut partition, 1, [device]);
            push_bytes(&mut assignment, 3, &partition);
        }
        let mut build = vec![];
        push_number(&mut build, 1, -1i64 as u64);
        push_number(&mut build, 4, replicas);
        push_number(&mut build, 5, partitions);
        push_bytes(&mut build, 9, &assignment);
        push_number(&mut build, 19, shardy);
        let mut all = vec![];
        push_bytes(&mut all, 3, &build);
        all
    }

    #[test]
    fn devices_are_in_order_of_partition() {
        assert_eq!(Options::read(&proto(1, 3, &[5, 2, 7], 1)).unwrap().devices, [5, 2, 7]);
        assert_eq!(Options::read(&[]).unwrap().devices, [0]);
    }

    #[test]
    fn replicas_gspmd_and_a_wrong_assignment_are_refused() {
        let message = |bytes: &[u8]| Options::read(bytes).unwrap_err().message;
        assert!(message(&proto(2, 1, &[0, 1], 1)).contains("2 replicas"));
        assert!(message(&proto(1, 2, &[0, 1], 0)).contains("jax_use_shardy_partitioner"));
        assert!(message(&proto(1, 2, &[0], 1)).contains("1 devices assigned to 2 partitions"));
    }
}

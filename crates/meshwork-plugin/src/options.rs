//! The options that a program is compiled with: `xla.CompileOptionsProto`, of which few matter here.

use crate::failure::{Failure, Outcome};
use meshwork_pjrt_abi::proto::{Field, fields, numbers};

/// Which devices a program is for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Options {
    /// The devices in order of partition.
    pub devices: Vec<usize>,
}

impl Options {
    pub fn read(bytes: &[u8]) -> Outcome<Options> {
        let (mut replicas, mut partitions, mut ordinal) = (1, 1, None);
        let mut devices = None;
        for (number, field) in fields(bytes)? {
            match (number, field) {
                (3, Field::Bytes(build)) => {
                    for (number, field) in fields(build)? {
                        match (number, field) {
                            (1, Field::Number(n)) => ordinal = usize::try_from(n as i64).ok(),
                            (4, Field::Number(n)) => replicas = n,
                            (5, Field::Number(n)) => partitions = n,
                            (9, Field::Bytes(bytes)) => devices = Some(assignment(bytes)?),
                            _ => {}
                        }
                    }
                }
                (7, Field::Bytes(bytes)) => check_name(&setting_name(bytes)?)?,
                _ => {}
            }
        }
        if replicas > 1 {
            let what = format!("{replicas} replicas of a program; write it with jit or shard_map over a mesh");
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
        Ok(Options { devices })
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

/// The name of an entry of `env_option_overrides`: what the user wrote as `compiler_options`.
fn setting_name(bytes: &[u8]) -> Outcome<String> {
    let name = fields(bytes)?.into_iter().find_map(|(number, field)| match field {
        Field::Bytes(bytes) if number == 1 => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    });
    Ok(name.unwrap_or_default())
}

/// Options of JAX and of XLA's compiler are taken, so that programs that tune XLA run here too, and have no effect.
fn check_name(name: &str) -> Outcome {
    const JAX: [&str; 4] =
        ["exec_time_optimization_effort", "memory_fitting_effort", "optimization_level", "memory_fitting_level"];
    if name.starts_with("xla_") || JAX.contains(&name) {
        return Ok(());
    }
    Err(Failure::invalid(format!("No such compile option: '{name}'")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use meshwork_pjrt_abi::proto::{push_bytes, push_number, push_numbers};

    fn proto(replicas: u64, partitions: u64, devices: &[i64]) -> Vec<u8> {
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
        let mut all = vec![];
        push_bytes(&mut all, 3, &build);
        all
    }

    #[test]
    fn devices_are_in_order_of_partition() {
        assert_eq!(Options::read(&proto(1, 3, &[5, 2, 7])).unwrap().devices, [5, 2, 7]);
        assert_eq!(Options::read(&[]).unwrap().devices, [0]);
    }

    #[test]
    fn replicas_and_a_wrong_assignment_are_refused() {
        let message = |bytes: &[u8]| Options::read(bytes).unwrap_err().message;
        assert!(message(&proto(2, 1, &[0, 1])).contains("2 replicas"));
        assert!(message(&proto(1, 2, &[0])).contains("1 devices assigned to 2 partitions"));
    }

    #[test]
    fn unknown_compiler_options_are_refused_by_name() {
        let with = |name: &str| {
            let (mut all, mut setting) = (proto(1, 1, &[0]), vec![]);
            push_bytes(&mut setting, 1, name.as_bytes());
            push_bytes(&mut all, 7, &setting);
            Options::read(&all)
        };
        assert!(with("xla_embed_ir_in_executable").is_ok());
        assert_eq!(with("xlaembed").unwrap_err().message, "No such compile option: 'xlaembed'");
    }
}

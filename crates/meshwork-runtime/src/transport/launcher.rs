//! What started this process: `mpirun`, Slurm, or neither.

/// A launcher, and the rank of this process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Launch {
    /// Its name in messages.
    pub by: &'static str,
    /// The number of this process.
    pub rank: usize,
    /// The number of processes.
    pub size: usize,
}

/// Variables by which launchers number processes: launcher, rank, size. Slurm's are those of a job step: a batch
/// script itself has a rank too, but is one process.
const VARIABLES: [(&str, &str, &str); 4] = [
    ("Open MPI's mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("an MPI launcher", "PMI_RANK", "PMI_SIZE"),
    ("a PMIx launcher", "PMIX_RANK", "PMIX_SIZE"),
    ("Slurm's srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
];

/// What started this process, by the variables that `get` reads.
pub fn detect(get: impl Fn(&str) -> Option<String>) -> Option<Launch> {
    let number = |name: &str| get(name).and_then(|v| v.trim().parse::<usize>().ok());
    VARIABLES.iter().find_map(|&(by, rank, size)| {
        let (rank, size) = (number(rank)?, number(size)?);
        (rank < size).then_some(Launch { by, rank, size })
    })
}

/// Who started this process.
pub fn launched() -> Option<Launch> {
    detect(|name| std::env::var(name).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &[(&str, &str)]) -> Option<Launch> {
        detect(|name| pairs.iter().find(|p| p.0 == name).map(|p| p.1.to_string()))
    }

    #[test]
    fn launchers_are_recognized_by_their_variables() {
        let mpirun = with(&[("OMPI_COMM_WORLD_RANK", "2"), ("OMPI_COMM_WORLD_SIZE", "4")]).unwrap();
        assert_eq!((mpirun.rank, mpirun.size), (2, 4));
        assert_eq!(with(&[("PMI_RANK", "0"), ("PMI_SIZE", "3")]).unwrap().size, 3);
        assert_eq!(with(&[("SLURM_PROCID", "1"), ("SLURM_STEP_NUM_TASKS", "2")]).unwrap().rank, 1);
    }

    #[test]
    fn a_plain_process_a_batch_script_and_nonsense_have_no_launcher() {
        assert_eq!(with(&[]), None);
        assert_eq!(with(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8")]), None);
        assert_eq!(with(&[("PMI_RANK", "5"), ("PMI_SIZE", "3")]), None);
        assert_eq!(with(&[("PMI_RANK", "x"), ("PMI_SIZE", "3")]), None);
    }
}

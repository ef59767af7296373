//! Several processes, started by `mpirun`: each test starts itself again on some numbers of ranks.
#![cfg(feature = "mpi")]

mod ranks;

use meshwork_runtime::{ProcessError, Runtime};
use ranks::across;

/// Some bytes that only `rank` has, as many as `length`.
fn bytes_of(rank: usize, length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 7 + rank * 31) as u8).collect()
}

#[test]
fn bytes_are_broadcast_gathered_scattered_and_sent() {
    across(&[2, 3, 5], "bytes_are_broadcast_gathered_scattered_and_sent", || {
        let runtime = Runtime::init().unwrap();
        let (rank, size) = (runtime.rank(), runtime.size());
        runtime.barrier().unwrap();
        for length in [0, 1, 5000, 100_000] {
            for root in 0..size {
                let got = runtime.broadcast(root, &bytes_of(rank, length)).unwrap();
                assert_eq!(got, bytes_of(root, length));
                // Each rank has another number of them.
                let gathered = runtime.gather(root, &bytes_of(rank, length * rank)).unwrap();
                let wanted: Vec<Vec<u8>> = (0..size).map(|r| bytes_of(r, length * r)).collect();
                assert_eq!(gathered, (rank == root).then(|| wanted.clone()));
                let parts = if rank == root { wanted } else { vec![] };
                assert_eq!(runtime.scatter(root, &parts).unwrap(), bytes_of(rank, length * rank));
            }
            let all = runtime.all_gather(&bytes_of(rank, length)).unwrap();
            assert_eq!(all, (0..size).map(|r| bytes_of(r, length)).collect::<Vec<_>>());
            // A ring: everybody sends before anybody receives.
            runtime.send((rank + 1) % size, &bytes_of(rank, length.min(4000))).unwrap();
            let before = (rank + size - 1) % size;
            assert_eq!(runtime.receive(before).unwrap(), bytes_of(before, length.min(4000)));
        }
        runtime.barrier().unwrap();
    });
}

#[test]
fn a_wrong_scatter_is_the_same_error_on_all_and_others_follow() {
    across(&[3], "a_wrong_scatter_is_the_same_error_on_all_and_others_follow", || {
        let runtime = Runtime::init().unwrap();
        let error = runtime.scatter(1, &[vec![1], vec![2]]).unwrap_err();
        assert_eq!(error, ProcessError::Failed("scatter: rank 1 has 2 parts for 3 ranks".into()));
        assert_eq!(runtime.broadcast(0, b"on").unwrap(), b"on");
    });
}

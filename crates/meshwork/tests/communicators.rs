//! Messages with tags, groups and collectives of ranks, against what one process computes: with threads as ranks, and with
//! processes under `mpirun`.

use meshwork::ReduceOp;
use meshwork::prelude::*;
use meshwork::processes::Communicator;

/// What rank `r` has: `rows` rows of two numbers.
fn of(rank: usize, rows: usize) -> Array {
    Array::from_fn([rows as i64, 2], |i| (100 * rank as i64 + 10 * i[0] + i[1]) as f64)
}

fn list(array: &Array) -> Vec<f64> {
    array.to_vec::<f64>().unwrap()
}

/// The rows `range` of what `rank` has.
fn rows_of(rank: usize, rows: usize, range: std::ops::Range<usize>) -> Vec<f64> {
    list(&of(rank, rows))[2 * range.start..2 * range.end].to_vec()
}

fn even(rows: usize, ranks: usize, rank: usize) -> std::ops::Range<usize> {
    let start = |r: usize| r * (rows / ranks) + r.min(rows % ranks);
    start(rank)..start(rank + 1)
}

fn combine(how: ReduceOp, a: f64, b: f64) -> f64 {
    match how {
        ReduceOp::Sum => a + b,
        ReduceOp::Product => a * b,
        ReduceOp::Max => a.max(b),
        ReduceOp::Min => a.min(b),
    }
}

/// The combination of what the ranks of a range have.
fn combined(how: ReduceOp, ranks: std::ops::Range<usize>, rows: usize) -> Option<Vec<f64>> {
    let fold = |a: Vec<f64>, b: Vec<f64>| a.iter().zip(&b).map(|(a, b)| combine(how, *a, *b)).collect();
    ranks.map(|r| list(&of(r, rows))).reduce(fold)
}

/// Every collective of a group, for every root.
fn collectives(ranks: &Communicator) {
    let (rank, size) = (ranks.rank(), ranks.size());
    for rows in [0, 1, 5, 700] {
        let x = of(rank, rows);
        for how in [ReduceOp::Sum, ReduceOp::Product, ReduceOp::Max, ReduceOp::Min] {
            let all = combined(how, 0..size, rows).unwrap();
            assert_eq!(list(&ranks.all_reduce_array(how, &x).unwrap()), all);
            for root in 0..size {
                let got = ranks.reduce_array(root, how, &x).unwrap().map(|a| list(&a));
                assert_eq!(got, (rank == root).then(|| all.clone()));
            }
            let part = even(rows, size, rank);
            let got = ranks.reduce_scatter_array(how, &x).unwrap();
            assert_eq!(got.shape(), [part.len() as i64, 2]);
            assert_eq!(list(&got), all[2 * part.start..2 * part.end]);
            assert_eq!(list(&ranks.scan_array(how, &x).unwrap()), combined(how, 0..rank + 1, rows).unwrap());
            let before = ranks.exclusive_scan_array(how, &x).unwrap().map(|a| list(&a));
            assert_eq!(before, combined(how, 0..rank, rows));
        }
        let got = ranks.all_to_all_array(&x).unwrap();
        let wanted: Vec<f64> = (0..size).flat_map(|r| rows_of(r, rows, even(rows, size, rank))).collect();
        assert_eq!(list(&got), wanted);
        // Rank r gives rank 0 everything but one row for each of the others.
        let counts = |size: usize| [vec![rows + 1 - size.min(rows + 1)], vec![1; size - 1]].concat();
        if rows + 1 >= size {
            let got = ranks.all_to_allv_array(&x, &counts(size)).unwrap();
            let first = rows + 1 - size;
            let range = if rank == 0 { 0..first } else { first + rank - 1..first + rank };
            let wanted: Vec<f64> = (0..size).flat_map(|r| rows_of(r, rows, range.clone())).collect();
            assert_eq!(list(&got), wanted);
        }
        for root in 0..size {
            let whole = of(root, rows);
            let here = (rank == root).then_some(&whole);
            assert_eq!(list(&ranks.broadcast_array(root, here).unwrap()), list(&whole));
            assert_eq!(list(&ranks.scatter_array(root, here).unwrap()), rows_of(root, rows, even(rows, size, rank)));
            // The last rank gets all.
            let mut counts = vec![0; size];
            counts[size - 1] = rows;
            let mine = ranks.scatterv_array(root, here.map(|a| (a, &counts[..]))).unwrap();
            assert_eq!(mine.shape()[0] as usize, counts[rank]);
            let back = ranks.gatherv_array(root, &mine, (rank == root).then_some(&counts[..])).unwrap();
            assert_eq!(back.map(|a| list(&a)), here.map(list));
            let joined = ranks.gather_array(root, &of(rank, rows * rank)).unwrap();
            let wanted: Vec<f64> = (0..size).flat_map(|r| list(&of(r, rows * r))).collect();
            assert_eq!(joined.map(|a| list(&a)), (rank == root).then(|| wanted.clone()));
            assert_eq!(list(&ranks.all_gather_array(&of(rank, rows * rank)).unwrap()), wanted);
        }
    }
    ranks.barrier().unwrap();
}

/// Rings, tags, and receives that are waited for in another order than they were made in.
fn messages(ranks: &Communicator) {
    let (rank, size) = (ranks.rank(), ranks.size());
    let (next, before) = ((rank + 1) % size, (rank + size - 1) % size);
    // Far more than a message that leaves at once: all send before any receives.
    for rows in [1, 3000, 200_000] {
        ranks.send_array(next, &of(rank, rows)).unwrap();
        assert_eq!(list(&ranks.receive_array(before).unwrap()), list(&of(before, rows)));
        let got = ranks.send_receive_array(before, &of(rank, rows), next).unwrap();
        assert_eq!(list(&got), list(&of(next, rows)));
    }
    // Received by tag, not in order.
    let tagged = |tag: u32| ranks.tagged(tag);
    for tag in [7, 8, 9] {
        tagged(tag).send_array(next, &Array::scalar(tag as i32)).unwrap();
    }
    for tag in [9, 7, 8] {
        assert_eq!(tagged(tag).receive_array(before).unwrap().item::<i32>().unwrap(), tag as i32);
    }
    // Receives are matched in the order in which they were made.
    let (first, second) = (ranks.irecv_array(before).unwrap(), ranks.irecv_array(before).unwrap());
    let mut other = tagged(5).irecv_array(before).unwrap();
    let sending: Vec<_> = [1, 2].map(|i| ranks.isend_array(next, &Array::scalar(i)).unwrap()).into();
    assert_eq!(second.wait().unwrap().item::<i32>().unwrap(), 2);
    assert_eq!(first.wait().unwrap().item::<i32>().unwrap(), 1);
    sending.into_iter().for_each(|s| s.wait().unwrap());
    ranks.barrier().unwrap();
    assert!(other.test().unwrap().is_none());
    ranks.barrier().unwrap();
    tagged(5).send_array(next, &Array::scalar(5i32)).unwrap();
    let got = loop {
        if let Some(array) = other.test().unwrap() {
            break array;
        }
        std::thread::yield_now();
    };
    assert_eq!(got.item::<i32>().unwrap(), 5);
    assert!(other.test().unwrap().is_none());
    assert!(other.wait().unwrap_err().to_string().contains("was taken already"));
    // To itself.
    tagged(1).send_array(rank, &Array::scalar(3i32)).unwrap();
    assert_eq!(tagged(1).receive_array(rank).unwrap().item::<i32>().unwrap(), 3);
}

/// Groups: by color, in order of key; one rank in none; a group of a group; messages of one are not seen by another.
fn groups(ranks: &Communicator) {
    let (rank, size) = (ranks.rank(), ranks.size());
    let half = ranks.split(Some(rank % 2), -(rank as i64)).unwrap().unwrap();
    let wanted: Vec<usize> = (0..size).rev().filter(|r| r % 2 == rank % 2).collect();
    assert_eq!((half.size(), half.rank()), (wanted.len(), wanted.iter().position(|&r| r == rank).unwrap()));
    let got = half.all_gather_array(&Array::from([rank as i64])).unwrap();
    assert_eq!(got.to_vec::<i64>().unwrap(), wanted.iter().map(|&r| r as i64).collect::<Vec<_>>());
    collectives(&half);
    messages(&half);
    let others = ranks.split((rank != 0).then_some(0), 0).unwrap();
    assert_eq!(others.is_none(), rank == 0);
    if let Some(others) = others {
        assert_eq!((others.rank(), others.size()), (rank - 1, size - 1));
        let alone = others.split(Some(others.rank()), 0).unwrap().unwrap();
        assert_eq!((alone.rank(), alone.size()), (0, 1));
        collectives(&others);
    }
    // The same pair and tag in two groups.
    let again = ranks.split(Some(0), 0).unwrap().unwrap();
    let (next, before) = ((rank + 1) % size, (rank + size - 1) % size);
    ranks.send_array(next, &Array::scalar(1i32)).unwrap();
    again.send_array(next, &Array::scalar(2i32)).unwrap();
    assert_eq!(again.receive_array(before).unwrap().item::<i32>().unwrap(), 2);
    assert_eq!(ranks.receive_array(before).unwrap().item::<i32>().unwrap(), 1);
}

/// What one rank does wrong is the same error on all, and they are still together.
fn mistakes(ranks: &Communicator) {
    let (rank, size) = (ranks.rank(), ranks.size());
    let sum = ReduceOp::Sum;
    let rows = |n: i64| Array::zeros([n, 2], F32);
    let odd = |n: i64, m: i64| if rank == 1 { rows(m) } else { rows(n) };
    let text = |result: Result<(), Error>| result.unwrap_err().to_string();
    let errors = [
        text(ranks.reduce_array(0, sum, &odd(2, 3)).map(drop)),
        text(ranks.scan_array(sum, &if rank == 1 { Array::zeros([2], F64) } else { Array::zeros([2], F32) }).map(drop)),
        text(ranks.all_to_all_array(&if rank == 1 { Array::scalar(1.0) } else { rows(1) }).map(drop)),
        text(ranks.scatterv_array(0, (rank == 0).then_some((&rows(4), &[1, 2]))).map(drop)),
        text(ranks.gatherv_array(1, &rows(1), (rank == 1).then_some(&[1; 9][..size + 1])).map(drop)),
        text(ranks.all_to_allv_array(&rows(2), if rank == 1 { &[9] } else { &[1; 9][..size] }).map(drop)),
        text(ranks.reduce_scatter_array(sum, &odd(4, 5)).map(drop)),
        text(
            if rank == 0 { ranks.scan_array(sum, &rows(1)) } else { ranks.reduce_scatter_array(sum, &rows(1)) }
                .map(drop),
        ),
        text(ranks.reduce_array(if rank == 1 { 1 } else { 0 }, sum, &rows(1)).map(drop)),
        text(ranks.broadcast_array(size - 1, None).map(drop)),
        text(
            ranks
                .all_reduce_array(sum, &if rank == 1 { Array::shape_only([1], F32) } else { Array::zeros([1], F32) })
                .map(drop),
        ),
    ];
    let wanted = [
        "reduce_array: rank 0 has f32[2, 2], rank 1 has f32[3, 2]".to_string(),
        "scan_array: rank 0 has f32[2], rank 1 has f64[2]".to_string(),
        "all_to_all_array: rank 0 has f32[1, 2], rank 1 has f64[], which cannot be joined".to_string(),
        match size {
            2 => "scatterv_array: the counts [1, 2] are 3 rows, the array has 4".to_string(),
            _ => format!("scatterv_array: 2 counts for {size} ranks"),
        },
        format!("gatherv_array: rank 1 expects {:?} rows, the ranks have {:?}", vec![1; size + 1], vec![1; size]),
        match size {
            2 => "all_to_allv_array: rank 1: 1 counts for 2 ranks".to_string(),
            _ => format!("all_to_allv_array: rank 0: the counts {:?} are {size} rows, the array has 2", vec![1; size]),
        },
        "reduce_scatter_array: rank 0 has f32[4, 2], rank 1 has f32[5, 2]".to_string(),
        "rank 0 calls scan_array, rank 1 calls reduce_scatter_array".to_string(),
        "gather: rank 0 has root 0, rank 1 has root 1".to_string(),
        format!("broadcast_array: rank {} is the root and gives no array", size - 1),
    ];
    assert_eq!(errors[..wanted.len()], wanted);
    assert!(errors[wanted.len()].starts_with("all_reduce_array: rank 1: "), "{}", errors[wanted.len()]);
    let no_rank = text(ranks.send_array(size, &rows(1)));
    assert_eq!(no_rank, format!("send: there is no rank {size}, only {size} ranks"));
    let no_rank = text(ranks.receive_array(size + 1).map(drop));
    assert_eq!(no_rank, format!("receive: there is no rank {}, only {size} ranks", size + 1));
    assert!(text(ranks.reduce_array(size, sum, &rows(1)).map(drop)).contains("there is no rank"));
    collectives(ranks);
}

fn everything(ranks: &Communicator) {
    collectives(ranks);
    messages(ranks);
    groups(ranks);
    mistakes(ranks);
}

#[test]
fn threads_as_ranks() {
    for ranks in [2, 3, 4] {
        Communicator::threads(ranks, |all| everything(&all));
    }
    Communicator::threads(1, |all| (collectives(&all), messages(&all)));
}

#[test]
#[cfg(feature = "mpi")]
fn processes_as_ranks() {
    meshwork_testing::ranks::across(&[2, 3, 4], "processes_as_ranks", || {
        everything(&Runtime::init().unwrap().communicator());
    });
}

/// Ranks that run programs of their own, of different shapes, and pass micro-batches on: together they are one model.
fn stages(ranks: &Communicator) {
    let (rank, size) = (ranks.rank(), ranks.size());
    // Stage `s` goes from widths[s] to widths[s + 1] in its own way.
    let widths: Vec<i64> = (0..=size as i64).map(|i| 3 + i).collect();
    let weight =
        |s: usize| Array::from_fn([widths[s], widths[s + 1]], |i| ((i[0] * 5 + i[1] * 3 + s as i64) as f32).sin());
    let stage = |s: usize| {
        jit(move |w: Tensor, x: Tensor| match s % 3 {
            0 => x.matmul(&w).tanh(),
            1 => x.sin().matmul(&w),
            _ => x.matmul(&w).relu() + 1.0,
        })
    };
    let micro = |m: i64| Array::from_fn([2, widths[0]], |i| (m * 7 + i[0] * 3 + i[1]) as f32 * 0.1);
    let own = stage(rank);
    let sent: Vec<Array> = (0..5)
        .map(|m| {
            let x = if rank == 0 { micro(m) } else { ranks.receive_array(rank - 1).unwrap() };
            let y = own.call((&weight(rank), &x)).unwrap();
            if rank + 1 < size {
                ranks.send_array(rank + 1, &y).unwrap();
            }
            y
        })
        .collect();
    if rank + 1 == size {
        for (m, got) in sent.iter().enumerate() {
            let through = |x: Array, s: usize| stage(s).call((&weight(s), &x)).unwrap();
            assert!(got.all_close(&(0..size).fold(micro(m as i64), through), 1e-6), "micro-batch {m}");
        }
    }
}

#[test]
fn stages_with_programs_of_their_own() {
    Communicator::threads(3, |all| stages(&all));
}

#[test]
#[cfg(feature = "mpi")]
fn processes_with_programs_of_their_own() {
    meshwork_testing::ranks::across(&[3], "processes_with_programs_of_their_own", || {
        stages(&Runtime::init().unwrap().communicator());
    });
}

/// What started the processes is found without being told, and agrees with MPI.
#[test]
#[cfg(feature = "mpi")]
fn the_launcher_is_found() {
    meshwork_testing::ranks::across(&[2, 3], "the_launcher_is_found", || {
        let runtime = Runtime::init().unwrap();
        let launch = runtime.launcher().expect("a launcher");
        assert_eq!((launch.rank, launch.size), (runtime.rank(), runtime.size()));
        assert!(runtime.is_distributed() && launch.by.contains("mpirun"), "{launch:?}");
        let ranks = runtime.all_gather(&[runtime.rank() as u8]).unwrap();
        assert_eq!(ranks, (0..runtime.size()).map(|r| vec![r as u8]).collect::<Vec<_>>());
        let devices = meshwork::devices_of(2 * runtime.size()).unwrap();
        assert!(devices.iter().all(|d| d.rank() as i64 == d.id() / 2 && d.is_local() == (d.rank() == runtime.rank())));
    });
}

/// A rank ends while a long message is on its way, and another that nobody receives.
#[test]
#[cfg(feature = "mpi")]
fn messages_outlive_the_function_that_sent_them() {
    meshwork_testing::ranks::across(&[2], "messages_outlive_the_function_that_sent_them", || {
        let runtime = Runtime::init().unwrap();
        if runtime.rank() == 0 {
            runtime.send_array(1, &of(0, 300_000)).unwrap();
            runtime.communicator().tagged(1).send_array(1, &of(0, 10)).unwrap();
        } else {
            assert_eq!(list(&runtime.receive_array(0).unwrap()), list(&of(0, 300_000)));
        }
    });
}

#[test]
fn threads_that_wait_for_each_other_are_told_at_once() {
    let errors = Communicator::threads(3, |all| all.receive_array((all.rank() + 1) % 3).unwrap_err().to_string());
    let wanted = "no rank can go on: rank 0 waits for rank 1, rank 1 waits for rank 2, rank 2 waits for rank 0";
    assert_eq!(errors, [wanted; 3]);
    let errors = Communicator::threads(2, |all| match all.rank() {
        0 => None,
        _ => Some(all.receive_array(0).unwrap_err().to_string()),
    });
    assert_eq!(errors[1].as_deref(), Some("rank 0 has ended its program; rank 1 waits for it"));
}

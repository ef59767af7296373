//! Programs over processes: collectives compared with raw MPI calls, and stencils. Run it under `mpirun`.

use std::process::ExitCode;

/// Runs the command.
#[cfg(not(feature = "mpi"))]
pub fn run(_: &[String]) -> ExitCode {
    eprintln!("needs the feature mpi: cargo build --release -p meshwork-bench --features mpi");
    ExitCode::FAILURE
}

/// Runs the command.
#[cfg(feature = "mpi")]
pub fn run(args: &[String]) -> ExitCode {
    let done = match args.first().map(String::as_str) {
        Some("collectives") => with_mpi::collectives(&args[1..]),
        Some("heat1d") => with_mpi::heat1d(),
        Some("heat2d") => with_mpi::heat2d(),
        _ => {
            eprintln!("usage: mpirun -n N meshwork-bench processes collectives [BYTES,...]|heat1d|heat2d");
            return ExitCode::FAILURE;
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(feature = "mpi")]
mod with_mpi {
    use std::sync::Arc;
    use std::time::Instant;

    use meshwork::prelude::*;
    use meshwork_cpu::CpuEngine;
    use meshwork_ir::DeviceGrid;
    use meshwork_runtime::{Buffer, Shards};
    use mpi::collective::SystemOperation;
    use mpi::topology::SimpleCommunicator;
    use mpi::traits::{Communicator, CommunicatorCollectives, Destination, Source};

    type Outcome = Result<(), Box<dyn std::error::Error>>;

    /// The time of the slowest process, the least of `rounds` runs, in microseconds.
    fn time(world: &SimpleCommunicator, rounds: usize, mut f: impl FnMut()) -> f64 {
        f();
        let mut best = f64::MAX;
        for _ in 0..rounds {
            world.barrier();
            let start = Instant::now();
            f();
            let (mine, mut slowest) = (start.elapsed().as_secs_f64() * 1e6, 0.0);
            world.all_reduce_into(&mine, &mut slowest, SystemOperation::max());
            best = best.min(slowest);
        }
        best
    }

    /// How long something takes the slowest process, in microseconds.
    #[derive(Default)]
    struct Times(Vec<f64>);

    impl Times {
        fn take(&mut self, world: &SimpleCommunicator, f: &mut dyn FnMut()) {
            world.barrier();
            let start = Instant::now();
            f();
            let (mine, mut slowest) = (start.elapsed().as_secs_f64() * 1e6, 0.0);
            world.all_reduce_into(&mine, &mut slowest, SystemOperation::max());
            self.0.push(slowest);
        }

        fn mean(&self) -> f64 {
            self.0.iter().sum::<f64>() / self.0.len() as f64
        }

        fn median(&self) -> f64 {
            let mut sorted = self.0.clone();
            sorted.sort_by(f64::total_cmp);
            sorted[sorted.len() / 2]
        }

        fn least(&self) -> f64 {
            self.0.iter().copied().fold(f64::MAX, f64::min)
        }
    }

    /// A program of one collective on `count` numbers a device.
    fn program(op: &str, count: usize, ranks: usize) -> String {
        let sum = "({ ^bb0(%a: tensor<f32>, %b: tensor<f32>):
            %s = stablehlo.add %a, %b : tensor<f32>
            stablehlo.return %s : tensor<f32> })";
        let list: Vec<String> = (0..ranks).map(|r| r.to_string()).collect();
        let groups = format!("replica_groups = dense<[[{}]]> : tensor<1x{ranks}xi64>", list.join(", "));
        let pairs: Vec<String> = (0..ranks).map(|r| format!("[{r}, {}]", (r + 1) % ranks)).collect();
        let pairs = format!("source_target_pairs = dense<[{}]> : tensor<{ranks}x2xi64>", pairs.join(", "));
        let (body, attrs, to) = match op {
            "all_reduce" => (sum, format!("{groups}, use_global_device_ids"), count),
            "all_gather" => ("", format!("all_gather_dim = 0 : i64, {groups}, use_global_device_ids"), count * ranks),
            "reduce_scatter" => {
                (sum, format!("scatter_dimension = 0 : i64, {groups}, use_global_device_ids"), count / ranks)
            }
            "all_to_all" => {
                let dims = "split_dimension = 0 : i64, concat_dimension = 0 : i64";
                ("", format!("{dims}, split_count = {ranks} : i64, {groups}"), count)
            }
            _ => ("", pairs, count),
        };
        let (from, to) = (format!("tensor<{count}xf32>"), format!("tensor<{to}xf32>"));
        format!(
            "func.func @main(%x: {from}) -> {to} {{
               %r = \"stablehlo.{op}\"(%x) {body} {{{attrs}, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}} : ({from}) -> {to}
               return %r : {to} }}"
        )
    }

    /// Ours and the raw call by turns, so that both have the same company on the machine; a line of JSON for each.
    pub fn collectives(args: &[String]) -> Outcome {
        let sizes: Vec<usize> = match args.first() {
            Some(list) => list.split(',').map(str::parse).collect::<Result<_, _>>()?,
            None => vec![1 << 10, 1 << 16, 1 << 20, 1 << 22, 1 << 24],
        };
        let runtime = Runtime::init()?;
        let world = SimpleCommunicator::world();
        let (rank, ranks) = (runtime.rank(), runtime.size());
        let engine = CpuEngine::shared();
        for bytes in sizes {
            let count = bytes / 4 / ranks * ranks;
            let rounds = ((1usize << 28) / bytes.max(1)).clamp(15, 300);
            for op in ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "collective_permute"] {
                // The bytes of a gather are those of its result.
                let own = if op == "all_gather" { count / ranks } else { count };
                let module = meshwork_ir::text::parse(&program(op, own, ranks)).map_err(|e| e.to_string())?;
                let loaded = engine.compile(&module, None, DeviceGrid { replicas: 1, partitions: ranks })?;
                let numbers = vec![1.0f32; own];
                let bytes_of: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
                let mut shards: Shards = vec![Buffer::absent()?; ranks];
                shards[rank] = Arc::new(Buffer::from_bytes(&bytes_of)?);
                let mut ours = || drop(loaded.run(vec![shards.clone()]).expect("it runs"));
                let mut out = vec![0.0f32; count];
                let mut raw = || match op {
                    "all_reduce" => world.all_reduce_into(&numbers[..], &mut out[..], SystemOperation::sum()),
                    "all_gather" => world.all_gather_into(&numbers[..], &mut out[..]),
                    "reduce_scatter" => {
                        let share = &mut out[..count / ranks];
                        world.reduce_scatter_block_into(&numbers[..], share, SystemOperation::sum());
                    }
                    "all_to_all" => world.all_to_all_into(&numbers[..], &mut out[..]),
                    _ => {
                        let (to, from) = (((rank + 1) % ranks) as i32, ((rank + ranks - 1) % ranks) as i32);
                        mpi::request::scope(|scope| {
                            let receive = world.process_at_rank(from).immediate_receive_into(scope, &mut out[..]);
                            let send = world.process_at_rank(to).immediate_send(scope, &numbers[..]);
                            receive.wait();
                            send.wait();
                        });
                    }
                };
                ours();
                raw();
                let (mut us, mut them) = (Times::default(), Times::default());
                for _ in 0..rounds {
                    us.take(&world, &mut ours);
                    them.take(&world, &mut raw);
                }
                if rank == 0 {
                    let three = |t: &Times| format!("[{:.2}, {:.2}, {:.2}]", t.mean(), t.median(), t.least());
                    let (ours, raw) = (three(&us), three(&them));
                    println!(
                        r#"{{"collective": "{op}", "bytes": {bytes}, "meshwork": {ours}, "mpi": {raw}, "mean": {:.2}}}"#,
                        us.mean() / them.mean()
                    );
                }
            }
        }
        Ok(())
    }

    /// Times `simulate` on `u`, three times.
    fn simulation(name: &str, u: &Array, simulate: impl Fn(&Array) -> Result<Array, Error>) -> Outcome {
        let runtime = Runtime::init()?;
        let world = SimpleCommunicator::world();
        let mut sum = 0.0;
        let best = time(&world, 3, || {
            let v = simulate(u).expect("it runs");
            sum = v.size() as f64;
        });
        if runtime.rank() == 0 {
            println!("{name} on {} ranks: {:.3} s", runtime.size(), best / 1e6);
        }
        Ok(())
    }

    pub fn heat1d() -> Outcome {
        let mesh = Mesh::linear("x", Runtime::init()?.devices() as i64)?;
        let u = Array::from_fn([10_000_000], |i| (i[0] % 1000) as f32).shard(&mesh, P!["x"])?;
        let simulate = jit(|u: Tensor| {
            for_loop(0..200, u, |_, u| {
                let mid = u.slice(s![1..-1]);
                let next = mid.clone() + 0.25 * (u.slice(s![2..]) - 2.0 * mid + u.slice(s![..-2]));
                u.at(s![1..-1]).set(next)
            })
        });
        simulation("heat1d, 10,000,000 f32, 200 steps", &u, |u| simulate.call(u))
    }

    pub fn heat2d() -> Outcome {
        let mesh = Mesh::linear("x", Runtime::init()?.devices() as i64)?;
        let u = Array::from_fn([4096, 4096], |i| ((i[0] * 7 + i[1]) % 1000) as f32).shard(&mesh, P!["x", _])?;
        let simulate = jit(|u: Tensor| {
            for_loop(0..100, u, |_, u| {
                let mid = u.slice(s![1..-1, 1..-1]);
                let around = u.slice(s![2.., 1..-1]) + u.slice(s![..-2, 1..-1]);
                let around = around + u.slice(s![1..-1, 2..]) + u.slice(s![1..-1, ..-2]);
                u.at(s![1..-1, 1..-1]).set(mid.clone() + 0.2 * (around - 4.0 * mid))
            })
        });
        simulation("heat2d, 4096 x 4096 f32, 100 steps", &u, |u| simulate.call(u))
    }
}

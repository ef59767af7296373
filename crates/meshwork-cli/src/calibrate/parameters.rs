//! The figures that calibration fits, and the machine that they make.

use super::programs::FUNCTIONS;
use meshwork_partition::plan::{Class, CollectiveRate, Curve, Device, Host, KINDS, Machine, Parameter};

/// Sizes at which the speed of memory is fitted.
const CACHES: [f64; 5] = [32.0 * 1024.0, 512.0 * 1024.0, 4.0 * 1048576.0, 16.0 * 1048576.0, 32.0 * 1048576.0];

/// Classes with a rate and a fixed time of their own.
fn classes() -> impl Iterator<Item = Class> {
    Class::ALL.into_iter().filter(|&class| class != Class::Other)
}

/// All of them, with where to start and within which bounds.
pub fn parameters() -> Vec<Parameter> {
    let mut out = vec![];
    let mut add = |name: String, value: f64, low: f64, high: f64| out.push(Parameter { name, value, low, high });
    add("microseconds of a run".into(), 3.0, 0.1, 200.0);
    add("microseconds of work worth dividing".into(), 20.0, 1.0, 2000.0);
    add("GB/s of memory of all threads".into(), 15.0, 1.0, 2000.0);
    add("GB/s of memory of a thread".into(), 10.0, 0.5, 1000.0);
    for size in CACHES {
        add(format!("GB/s at {} KiB", size / 1024.0), 30.0, 0.5, 2000.0);
    }
    for class in classes() {
        let rate = if class.is_product() { 50.0 } else { 5.0 };
        add(format!("GFLOP/s of {}s", class.name()), rate, 0.1, 5000.0);
        add(format!("microseconds of a {}", class.name()), 0.5, 0.01, 100.0);
    }
    for name in FUNCTIONS {
        add(format!("element-wise operations of {name}"), 10.0, 0.5, 5000.0);
    }
    add("share by which many functions slow each other".into(), 0.5, 0.01, 10.0);
    for kind in KINDS {
        add(format!("microseconds of {kind}"), 2.0, 0.05, 200.0);
        add(format!("GB/s of operands of {kind}"), 10.0, 0.1, 5000.0);
        add(format!("GB/s of results of {kind}"), 10.0, 0.1, 5000.0);
    }
    out
}

/// The machine with these values of [`parameters`].
pub fn machine(values: &[f64], threads: usize) -> Machine {
    let mut values = values.iter().copied();
    let mut next = || values.next().unwrap_or(1.0);
    let (run_us, grain_us, memory, speed) = (next(), next(), next(), next());
    let caches = CACHES.map(|size| (size, next()));
    let rates: Vec<_> = classes().map(|class| (class, next(), next())).collect();
    let functions = FUNCTIONS.map(|name| (name.to_string(), next()));
    let crowding = next();
    let collectives =
        KINDS.map(|kind| (kind.to_string(), CollectiveRate { microseconds: next(), read: next(), write: next() }));
    // The peak is that of products; everything else is a share of it.
    let peak = rates[0].1;
    let mut device = Device::new(peak * 1e-3, speed);
    device.caches = caches.into();
    device.functions = functions.into();
    device.crowding = crowding;
    let curve = |rate: f64, microseconds: f64| Curve { efficiency: rate / peak, half_flops: 0.0, microseconds };
    device.curves = rates.iter().map(|&(class, rate, us)| (class, curve(rate, us))).collect();
    device.curves.push((Class::Other, curve(rates[3].1, rates[3].2)));
    let host = Host {
        threads: threads as f64,
        grain_us,
        run_us,
        memory_gigabytes_per_second: memory,
        collectives: collectives.into(),
    };
    let name = format!("CPU engine, {threads} thread{}", if threads == 1 { "" } else { "s" });
    Machine { name, device, host: Some(host), ..Machine::default() }
}

/// The same machine with numbers of a few digits.
pub fn rounded_machine(values: &[f64], threads: usize) -> Machine {
    let values: Vec<f64> = values.iter().map(|&v| rounded(v)).collect();
    let mut machine = machine(&values, threads);
    machine.device.teraflops = rounded(machine.device.teraflops);
    for (_, curve) in &mut machine.device.curves {
        curve.efficiency = rounded(curve.efficiency);
    }
    machine
}

/// A number with four digits.
fn rounded(x: f64) -> f64 {
    let unit = 10_f64.powi(x.abs().log10().floor() as i32 - 3);
    // Through text: a product of rounded numbers has more digits.
    format!("{:.*}", (-unit.log10()).ceil().max(0.0) as usize, (x / unit).round() * unit).parse().unwrap_or(x)
}

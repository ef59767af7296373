//! Predictions compared with published step times: fits the machine to some rows of a table and checks the others.

mod step;
mod tables;

use std::process::ExitCode;

use meshwork_ir::ElementType;
use meshwork_partition::plan::{Class, Curve, Errors, Machine, Parameter, fit};
use step::seconds;
use tables::Row;

/// Runs the comparison: `[--vtrain FOLDER] [--rows]`.
pub fn run(args: &[String]) -> ExitCode {
    let after = |name: &str| args.iter().position(|a| a == name).and_then(|i| args.get(i + 1));
    let detail = args.iter().any(|a| a == "--rows");
    match compare(after("--vtrain").map(String::as_str), detail) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}

fn compare(vtrain: Option<&str>, detail: bool) -> Result<(), String> {
    if let Some(folder) = vtrain {
        for (file, nth) in [("ground_truth_single.csv", 9), ("ground_truth_multi.csv", 4)] {
            let path = format!("{folder}/{file}");
            let text = std::fs::read_to_string(&path).map_err(|e| format!("cannot read {path}: {e}"))?;
            let rows = tables::vtrain(&text, nth).map_err(|e| format!("{path}: {e}"))?;
            let machine = fitted("a100", &rows)?;
            report(&format!("vTrain {file}"), &rows, &machine, detail);
            picks(&rows, &machine);
        }
    }
    let mut megatron = tables::megatron_2021();
    let count = megatron.len();
    megatron.extend(tables::korthikanti());
    let a100 = fitted("a100", &megatron)?;
    report("Megatron 2021, A100", &megatron[..count], &a100, detail);
    report("Korthikanti, A100, the same machine", &megatron[count..], &a100, true);
    let mosaic = tables::mosaic();
    let h100 = fitted("h100", &mosaic)?;
    report("MosaicML FSDP, H100", &mosaic, &h100, detail);
    // MosaicML's attention was another kernel. FlashAttention-2 reaches 335 TFLOP/s of causal attention on an H100
    // (arXiv:2307.08691), which computes half of what is counted here.
    let flash = with_attention(&h100, 2.0 * 335.0 / 989.0);
    report("Llama 3 405B, machine of MosaicML with FlashAttention-2", &tables::llama3(), &flash, true);
    report("Megatron, H100, the same machine", &tables::megatron_h100(), &flash, true);
    Ok(())
}

/// The parameters that are fitted, with physical bounds.
fn parameters(machine: &Machine) -> Vec<Parameter> {
    let named = |name: &str, value: f64, low: f64, high: f64| Parameter { name: name.into(), value, low, high };
    let links: Vec<f64> = machine.links.levels.iter().map(|l| l.link.gigabytes_per_second).collect();
    vec![
        named("share of the peak of large products", 0.7, 0.3, 1.0),
        named("FLOP of a product at half speed", 5e9, 1e7, 3e10),
        named("share of the memory's speed", 0.8, 0.3, 1.0),
        named("microseconds to start a kernel", 60.0, 0.5, 200.0),
        named("GB/s in a node", links[0], links[0] * 0.3, links[0] * 1.25),
        named("microseconds in a node", 20.0, 1.0, 50.0),
        named("GB/s between nodes", links[1], links[1] * 0.2, links[1] * 1.14),
        named("share of arithmetic lost beside communication", 0.1, 0.01, 0.5),
        named("share of the peak of attention that keeps scores on the chip", 0.5, 0.1, 1.0),
    ]
}

fn with(name: &str, values: &[f64]) -> Option<Machine> {
    let mut machine = Machine::named(name)?;
    let &[efficiency, half_flops, memory, microseconds, inside, latency, between, lost, attention] = values else {
        return None;
    };
    machine.device.memory_gigabytes_per_second *= memory;
    // Classes other than products have the peak of vectors; attention is on the units of products.
    let attention = attention * machine.device.peak(Class::Product, ElementType::BF16) / machine.device.teraflops;
    machine.device.curves = vec![
        (Class::Other, Curve { efficiency: attention, half_flops: 0.0, microseconds }),
        (Class::Product, Curve { efficiency, half_flops, microseconds }),
        (Class::Elementwise, Curve { efficiency: 1.0, half_flops: 0.0, microseconds }),
    ];
    machine.links.levels[0].link.gigabytes_per_second = inside;
    machine.links.levels[0].link.latency_us = latency;
    machine.links.levels[0].lost = lost;
    machine.links.levels[1].link.gigabytes_per_second = between;
    Some(machine)
}

/// The machine with another share of the peak for attention.
fn with_attention(machine: &Machine, share: f64) -> Machine {
    let mut machine = machine.clone();
    let ratio = machine.device.peak(Class::Product, ElementType::BF16) / machine.device.teraflops;
    for (class, curve) in &mut machine.device.curves {
        if *class == Class::Other {
            curve.efficiency = share * ratio;
        }
    }
    machine
}

/// The machine `name` fitted to the rows that are for that.
fn fitted(name: &str, rows: &[Row]) -> Result<Machine, String> {
    let start = Machine::named(name).ok_or_else(|| format!("no machine {name}"))?;
    let measured: Vec<f64> = rows.iter().filter(|r| r.fitted).map(|r| r.seconds).collect();
    let predict = |values: &[f64]| -> Vec<f64> {
        let machine = with(name, values).unwrap_or_default();
        rows.iter().filter(|r| r.fitted).map(|row| predicted(row, &machine)).collect()
    };
    let parameters = fit(&parameters(&start), &measured, predict);
    println!("\nfitted {name} to {} of {} rows", measured.len(), rows.len());
    for p in &parameters {
        let value = if p.value < 1e6 { format!("{:.3}", p.value) } else { format!("{:.2e}", p.value) };
        println!("  {value:>9}  {}{}", p.name, if p.is_at_bound() { " (at its bound)" } else { "" });
    }
    let values: Vec<f64> = parameters.iter().map(|p| p.value).collect();
    with(name, &values).ok_or_else(|| format!("no machine {name}"))
}

/// The predicted seconds; without a known size of microbatches, those of the best.
fn predicted(row: &Row, machine: &Machine) -> f64 {
    if row.setup.micro > 0.0 {
        return seconds(&row.model, &row.setup, machine);
    }
    let sizes = [1.0, 2.0, 4.0, 8.0, 16.0].into_iter().filter(|m| m * row.setup.data <= row.setup.batch);
    let times = sizes.map(|micro| seconds(&row.model, &step::Setup { micro, ..row.setup }, machine));
    times.fold(f64::INFINITY, f64::min)
}

fn report(title: &str, rows: &[Row], machine: &Machine, detail: bool) {
    println!("{title}");
    if detail {
        for row in rows {
            let guess = predicted(row, machine);
            let mark = if row.fitted { "fitted" } else { "" };
            let error = 100.0 * (guess / row.seconds - 1.0);
            println!(
                "  {:>10.4} s measured {guess:>10.4} s predicted {error:>6.1} %  {} {mark}",
                row.seconds, row.name
            );
        }
    }
    for (what, fitted) in [("fitted", true), ("held out", false)] {
        let pairs = || rows.iter().filter(|r| r.fitted == fitted).map(|r| (predicted(r, machine), r.seconds));
        let (errors, mean) = (Errors::of(pairs()), pairs().map(|(p, m)| (p / m - 1.0).abs()).sum::<f64>());
        if errors.count > 0 {
            let mean = 100.0 * mean / errors.count as f64;
            let (median, high) = (100.0 * errors.median, 100.0 * errors.percentile_90);
            println!(
                "  {what}: {} rows, mean error {mean:.1} %, median {median:.1} %, 90th percentile {high:.1} %",
                errors.count
            );
        }
    }
}

/// How much slower than the best measured setup the one with the best prediction is, for each model, batch and number of
/// GPUs with several setups.
fn picks(rows: &[Row], machine: &Machine) {
    let key = |r: &Row| {
        let gpus = r.setup.tensor * r.setup.data * r.setup.pipeline;
        [r.model.hidden, r.model.layers, r.setup.batch, gpus].map(|x| x as i64)
    };
    let mut keys: Vec<[i64; 4]> = rows.iter().map(key).collect();
    keys.sort_unstable();
    keys.dedup();
    let mut losses = vec![];
    for k in keys {
        let of = || rows.iter().filter(|r| key(r) == k);
        if of().count() < 2 {
            continue;
        }
        let best = of().map(|r| r.seconds).fold(f64::INFINITY, f64::min);
        let chosen = of().min_by(|a, b| predicted(a, machine).total_cmp(&predicted(b, machine)));
        losses.push((chosen.map_or(0.0, |r| r.seconds / best - 1.0), k));
    }
    losses.sort_by(|a, b| a.0.total_cmp(&b.0));
    let within = losses.iter().filter(|l| l.0 <= 0.05).count();
    let worst = losses.last().map_or(0.0, |l| 100.0 * l.0);
    println!("  picks: {within} of {} within 5 % of the best measured setup, worst {worst:.1} %", losses.len());
    if losses.len() <= 8 {
        for (loss, [hidden, layers, batch, gpus]) in losses {
            println!("    {:.1} % slower than the best: {hidden}x{layers}, batch {batch}, {gpus} GPUs", 100.0 * loss);
        }
        return;
    }
    let mut models: Vec<[i64; 2]> = losses.iter().map(|(_, [hidden, layers, ..])| [*hidden, *layers]).collect();
    models.sort_unstable();
    models.dedup();
    for model in models {
        let own: Vec<f64> = losses.iter().filter(|(_, key)| key[..2] == model).map(|(loss, _)| 100.0 * loss).collect();
        let (mean, most) = (own.iter().sum::<f64>() / own.len() as f64, own.iter().copied().fold(0.0, f64::max));
        let [hidden, layers] = model;
        println!(
            "    {mean:.1} % slower than the best in the mean of {} cases, {most:.1} % at most: {hidden}x{layers}",
            own.len()
        );
    }
}

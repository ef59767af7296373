//! Figures that others published, with their sources.

use super::step::{Model, Recompute, Setup};

/// A row of a table.
pub struct Row {
    pub name: String,
    pub model: Model,
    pub setup: Setup,
    /// Measured seconds of a step.
    pub seconds: f64,
    /// Whether it is for fitting; else it is for checking.
    pub fitted: bool,
}

const DENSE: Setup = Setup {
    tensor: 1.0,
    context: 1.0,
    data: 1.0,
    pipeline: 1.0,
    interleave: 1.0,
    batch: 1.0,
    micro: 1.0,
    recompute: Recompute::Nothing,
    sequence_parallel: false,
    flash: false,
    sharded: false,
    overlapped: false,
    gradient_bytes: 4.0,
};

/// Narayanan et al., Table 1 (arXiv:2104.04473; the picture cases_april2021.png of Megatron-LM v2.5): A100, sequences of 2048,
/// 51,200 words, everything recomputed. TFLOP/s per GPU count the recomputation. Microbatches are not given; the best by
/// prediction is taken. Every second row is for fitting.
pub fn megatron_2021() -> Vec<Row> {
    // heads, hidden, layers, tensor, pipeline, GPUs, batch, TFLOP/s
    let rows = [
        ("1.7B", 24.0, 2304.0, 24.0, 1.0, 1.0, 32.0, 512.0, 137.0),
        ("3.6B", 32.0, 3072.0, 30.0, 2.0, 1.0, 64.0, 512.0, 138.0),
        ("7.5B", 32.0, 4096.0, 36.0, 4.0, 1.0, 128.0, 512.0, 142.0),
        ("18B", 48.0, 6144.0, 40.0, 8.0, 1.0, 256.0, 1024.0, 135.0),
        ("39B", 64.0, 8192.0, 48.0, 8.0, 2.0, 512.0, 1536.0, 138.0),
        ("76B", 80.0, 10240.0, 60.0, 8.0, 4.0, 1024.0, 1792.0, 140.0),
        ("145B", 96.0, 12288.0, 80.0, 8.0, 8.0, 1536.0, 2304.0, 148.0),
        ("310B", 128.0, 16384.0, 96.0, 8.0, 16.0, 1920.0, 2160.0, 155.0),
        ("530B", 128.0, 20480.0, 105.0, 8.0, 35.0, 2520.0, 2520.0, 163.0),
        ("1T", 160.0, 25600.0, 128.0, 8.0, 64.0, 3072.0, 3072.0, 163.0),
    ];
    let row = |(i, &(name, heads, h, layers, tensor, pipeline, gpus, batch, teraflops)): (usize, &_)| {
        let model = Model::gpt(h, heads, layers, 2048.0, 51200.0);
        let tokens: f64 = batch * 2048.0;
        // The paper's count, with the recomputed forward pass.
        let flops = 96.0 * tokens * layers * h * h * (1.0 + 2048.0 / (6.0 * h) + 51200.0 / (16.0 * layers * h));
        let setup = Setup {
            tensor,
            pipeline,
            data: gpus / (tensor * pipeline),
            batch,
            micro: 0.0,
            recompute: Recompute::Everything,
            ..DENSE
        };
        let seconds = flops / (gpus * teraflops * 1e12);
        Row { name: format!("Megatron 2021 {name}, {gpus} A100"), model, setup, seconds, fitted: i.is_multiple_of(2) }
    };
    rows.iter().enumerate().map(row).collect()
}

/// Korthikanti et al., Table 5 (arXiv:2205.05198): A100, seconds with everything recomputed, and with sequence parallelism and
/// only the attention recomputed. The smallest model is for fitting.
pub fn korthikanti() -> Vec<Row> {
    // heads, hidden, layers, pipeline, interleave, batch, micro, full, selective
    let rows = [
        ("22B", 64.0, 6144.0, 48.0, 1.0, 1.0, 4.0, 4.0, 1.42, 1.10),
        ("175B", 96.0, 12288.0, 96.0, 8.0, 3.0, 64.0, 1.0, 18.13, 13.75),
        ("530B", 128.0, 20480.0, 105.0, 35.0, 3.0, 280.0, 1.0, 49.05, 37.83),
        ("1T", 160.0, 25600.0, 128.0, 64.0, 1.0, 512.0, 1.0, 94.42, 71.49),
    ];
    let mut out = vec![];
    for (name, heads, h, layers, pipeline, interleave, batch, micro, full, selective) in rows {
        let model = Model::gpt(h, heads, layers, 2048.0, 51200.0);
        let setup = Setup { tensor: 8.0, pipeline, interleave, batch, micro, ..DENSE };
        let all = Setup { recompute: Recompute::Everything, ..setup };
        let part = Setup { recompute: Recompute::Attention, sequence_parallel: true, ..setup };
        out.push(Row {
            name: format!("Korthikanti {name}, full"),
            model,
            setup: all,
            seconds: full,
            fitted: name == "22B",
        });
        out.push(Row {
            name: format!("Korthikanti {name}, selective"),
            model,
            setup: part,
            seconds: selective,
            fitted: name == "22B",
        });
    }
    out
}

/// MosaicML's FSDP runs (llm-foundry, scripts/train/benchmarking/README.md, "H100 80GB BF16"): tokens per second and GPU.
/// Those on one node are for fitting, those on several for checking.
pub fn mosaic() -> Vec<Row> {
    // sequence, GPUs, micro, accumulated, recomputed, tokens per second and GPU
    let rows = [
        ("70b", 2048.0, 64.0, 8.0, 4.0, true, 1039.0),
        ("70b", 2048.0, 32.0, 2.0, 16.0, true, 882.0),
        ("30b", 8192.0, 8.0, 1.0, 21.0, true, 1384.0),
        ("30b", 4096.0, 8.0, 1.0, 21.0, true, 1802.0),
        ("30b", 2048.0, 32.0, 14.0, 3.0, true, 2308.0),
        ("30b", 2048.0, 16.0, 10.0, 3.0, true, 2263.0),
        ("30b", 2048.0, 8.0, 3.0, 21.0, true, 2002.0),
        ("30b", 1024.0, 8.0, 6.0, 21.0, true, 2084.0),
        ("13b", 4096.0, 8.0, 10.0, 3.0, true, 4717.0),
        ("13b", 2048.0, 64.0, 2.0, 1.0, false, 4800.0),
        ("13b", 2048.0, 32.0, 2.0, 1.0, false, 4811.0),
        ("13b", 2048.0, 16.0, 2.0, 1.0, false, 4767.0),
        ("13b", 2048.0, 8.0, 2.0, 1.0, false, 4792.0),
        ("13b", 1024.0, 8.0, 40.0, 3.0, true, 5502.0),
        ("7b", 4096.0, 8.0, 16.0, 2.0, true, 8611.0),
        ("7b", 2048.0, 8.0, 6.0, 1.0, false, 10643.0),
        ("7b", 1024.0, 8.0, 64.0, 2.0, true, 10203.0),
        ("3b", 4096.0, 8.0, 5.0, 6.0, false, 20964.0),
        ("3b", 2048.0, 64.0, 6.0, 3.0, false, 22525.0),
        ("3b", 2048.0, 32.0, 6.0, 3.0, false, 23021.0),
        ("3b", 2048.0, 16.0, 10.0, 3.0, false, 24142.0),
        ("3b", 1024.0, 8.0, 20.0, 6.0, false, 27046.0),
        ("1b", 4096.0, 8.0, 7.0, 4.0, false, 38535.0),
        ("1b", 2048.0, 64.0, 20.0, 1.0, false, 44402.0),
        ("1b", 2048.0, 32.0, 20.0, 1.0, false, 45130.0),
        ("1b", 2048.0, 16.0, 20.0, 1.0, false, 46037.0),
        ("1b", 2048.0, 8.0, 14.0, 1.0, false, 45455.0),
        ("1b", 1024.0, 8.0, 18.0, 4.0, false, 48910.0),
    ];
    let model = |name: &str, sequence: f64| {
        let (h, heads, layers) = match name {
            "70b" => (8192.0, 64.0, 80.0),
            "30b" => (7168.0, 56.0, 48.0),
            "13b" => (5120.0, 40.0, 40.0),
            "7b" => (4096.0, 32.0, 32.0),
            "3b" => (2560.0, 20.0, 32.0),
            _ => (2048.0, 16.0, 24.0),
        };
        Model::gpt(h, heads, layers, sequence, 50368.0)
    };
    let row = |(name, sequence, gpus, micro, accumulated, recomputed, speed): (&str, f64, f64, f64, f64, bool, f64)| {
        let setup = Setup {
            data: gpus,
            batch: gpus * micro * accumulated,
            micro,
            recompute: if recomputed { Recompute::Everything } else { Recompute::Nothing },
            flash: true,
            sharded: true,
            gradient_bytes: 2.0,
            ..DENSE
        };
        let seconds = micro * accumulated * sequence / speed;
        let title = format!("MosaicML {name}, sequences of {sequence}, {gpus} H100");
        Row { name: title, model: model(name, sequence), setup, seconds, fitted: gpus <= 8.0 }
    };
    rows.into_iter().map(row).collect()
}

/// Llama 3 405B, Table 4 (arXiv:2407.21783): H100, TFLOP/s per GPU of forward and backward passes. The paper
/// does not say how attention is counted; here it is as causal. None is for fitting.
pub fn llama3() -> Vec<Row> {
    // GPUs, context, data, sequence, TFLOP/s
    let rows = [
        (8192.0, 1.0, 64.0, 8192.0, 430.0),
        (16384.0, 1.0, 128.0, 8192.0, 400.0),
        (16384.0, 16.0, 8.0, 131072.0, 380.0),
    ];
    let row = |(gpus, context, data, sequence, teraflops): (f64, f64, f64, f64, f64)| {
        let model = Model {
            hidden: 16384.0,
            heads: 128.0,
            kv_heads: 8.0,
            layers: 126.0,
            ffn: 53248.0,
            gates: 2.0,
            sequence,
            vocabulary: 128256.0,
        };
        let batch = 16.0 * 1024.0 * 1024.0 / sequence;
        let setup = Setup {
            tensor: 8.0,
            context,
            data,
            pipeline: 16.0,
            interleave: 8.0,
            batch,
            micro: 1.0,
            sequence_parallel: true,
            flash: true,
            overlapped: true,
            gradient_bytes: 4.0,
            ..DENSE
        };
        let causal = 6.0 * model.parameters() + 6.0 * model.layers * model.hidden * sequence;
        let seconds = causal * batch * sequence / (gpus * teraflops * 1e12);
        Row {
            name: format!("Llama 3 405B, {gpus} H100, sequences of {sequence}"),
            model,
            setup,
            seconds,
            fitted: false,
        }
    };
    rows.into_iter().map(row).collect()
}

/// Megatron-LM's table of H100 runs (images/model_table.png): sequences of 4096, 131,072 words; only the rows without a
/// pipeline. None is for fitting.
pub fn megatron_h100() -> Vec<Row> {
    // heads, hidden, layers, tensor, batch, TFLOP/s
    let rows = [
        ("1.7B", 16.0, 2048.0, 24.0, 1.0, 192.0, 408.8),
        ("7.1B", 32.0, 4096.0, 30.0, 2.0, 192.0, 465.9),
        ("16B", 48.0, 6144.0, 32.0, 4.0, 192.0, 489.1),
        ("32B", 56.0, 7168.0, 48.0, 8.0, 192.0, 459.6),
    ];
    let row = |(name, heads, h, layers, tensor, batch, teraflops): (&str, f64, f64, f64, f64, f64, f64)| {
        let model = Model::gpt(h, heads, layers, 4096.0, 131072.0);
        let setup = Setup {
            tensor,
            data: 48.0,
            batch,
            micro: 0.0,
            sequence_parallel: tensor > 1.0,
            flash: true,
            overlapped: true,
            gradient_bytes: 4.0,
            ..DENSE
        };
        let seconds = model.flops_per_token() * batch * 4096.0 / (48.0 * tensor * teraflops * 1e12);
        Row { name: format!("Megatron H100 {name}"), model, setup, seconds, fitted: false }
    };
    rows.into_iter().map(row).collect()
}

/// The measured steps of vTrain (github.com/VIA-Research/vTrain, data/, MIT license): A100, Megatron-DeepSpeed, everything
/// recomputed. `text` is one of its files. Every `nth` row is for fitting.
pub fn vtrain(text: &str, nth: usize) -> Result<Vec<Row>, String> {
    let mut out = vec![];
    for (i, line) in text.lines().skip(1).enumerate() {
        let cells: Result<Vec<f64>, _> = line.split(',').map(|cell| cell.trim().parse::<f64>()).collect();
        let cells = cells.map_err(|e| format!("line {}: {e}", i + 2))?;
        // The file of several nodes has the size of the model first.
        let [gpus, batch, micro, hidden, heads, layers, sequence, tensor, data, pipeline, ms] =
            cells[cells.len().saturating_sub(11)..]
        else {
            return Err(format!("line {}: {} cells instead of 11", i + 2, cells.len()));
        };
        let setup = Setup {
            tensor,
            data,
            pipeline,
            batch,
            micro,
            recompute: Recompute::Everything,
            gradient_bytes: 2.0,
            ..DENSE
        };
        let name = format!("vTrain {hidden}x{layers}, {gpus} A100, t{tensor} d{data} p{pipeline} m{micro} b{batch}");
        let model = Model::gpt(hidden, heads, layers, sequence, 51200.0);
        out.push(Row { name, model, setup, seconds: ms * 1e-3, fitted: i.is_multiple_of(nth) });
    }
    Ok(out)
}

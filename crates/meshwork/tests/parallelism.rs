//! Pipelines, experts, long sequences, batches from pieces, and a model that uses three axes at once.

use meshwork::attention::DotProduct;
use meshwork::data::GlobalBatch;
use meshwork::experts::{Routing, mixture};
use meshwork::pipeline::{bubble_share, from_micro_batches, into_micro_batches, pipeline};
use meshwork::prelude::*;
use meshwork::rules::TreePathRule;
use meshwork::sequence::{Mask, attention, ring_attention};
use meshwork::train::{Optimizer, Step, Trainer, Zero};
use meshwork_testing::half_wave as wave;

#[test]
fn a_pipeline_equals_its_stages_in_turn() {
    let stage = |w: Tensor, x: Tensor| x.matmul(&w).tanh();
    let piped = move |w: Tensor, x: Tensor| {
        value_and_grad(|w: Tensor| pipeline("pipe", &w, &into_micro_batches(&x, 6), stage).square().mean_all(), w)
    };
    // The same layers, one after the other on the whole batch.
    let plain = move |w: Tensor, x: Tensor| {
        let through = |w: Tensor| (0..4).fold(x.clone(), |x, i| stage(w.slice(s![i]), x)).square().mean_all();
        value_and_grad(through, w)
    };
    let (w, x) = (wave(&[4, 6, 6], 0.3), wave(&[12, 6], 0.8));
    let (value, slope) = jit(plain).call((&w, &x)).unwrap();
    let line = Mesh::linear("pipe", 4).unwrap();
    let cube = Mesh::new([("pipe", 2), ("data", 2), ("model", 2)]).unwrap();
    let ways = [
        (&line, P!["pipe"], P![]),
        (&cube, P!["pipe"], P!["data"]),
        (&cube, P!["pipe", _, "model"], P!["data"]),
        (&cube, P!["pipe", "data", "model"], P!["data"]),
    ];
    for (mesh, weights, rows) in ways {
        let f = jit(piped).on(mesh).in_shardings([weights.clone(), rows]).out_shardings([P![], weights.clone()]);
        let (a, b) = f.call((&w, &x)).unwrap();
        assert!(a.all_close(&value, 1e-6) && b.all_close(&slope, 1e-5), "{weights} on {mesh}");
        assert!(f.plan((&w, &x)).unwrap().totals().contains_key("collective-permute"));
    }
    assert_eq!(bubble_share(4, 12), 0.2);
    assert_eq!(bubble_share(1, 3), 0.0);
    let there = jit(|x: Tensor| from_micro_batches(&into_micro_batches(&x, 3))).call(&x).unwrap();
    assert_eq!(there.to_vec::<f32>().unwrap(), x.to_vec::<f32>().unwrap());
    let odd = jit(|x: Tensor| into_micro_batches(&x, 5)).call(&x).unwrap_err().to_string();
    assert!(odd.starts_with("into_micro_batches: 12 rows in 5 micro-batches"), "{odd}");
}

#[test]
fn expert_all_to_all() {
    let run = |x: Tensor, router: Tensor, w: Tensor| {
        let loss = |(router, w): (Tensor, Tensor)| {
            let mix = mixture(&Routing::new("expert"), &x, &router, &w, |w, x| x.matmul(&w).tanh());
            (mix.output.square().sum_all() + mix.balance * 0.1, mix.dropped)
        };
        let (value, dropped, slope) = meshwork::value_and_grad_aux(loss, (router, w));
        (value, dropped, slope)
    };
    let (x, router, w) = (wave(&[4, 8, 6], 0.2), wave(&[6, 4], 0.5), wave(&[4, 6, 6], 0.9));
    let (value, dropped, slope) = jit(run).single_device().call((&x, &router, &w)).unwrap();
    let mesh = Mesh::linear("expert", 4).unwrap();
    let f = jit(run).on(&mesh).in_shardings([P!["expert"], P![], P!["expert"]]);
    let (a, b, c) = f.call((&x, &router, &w)).unwrap();
    assert!(a.all_close(&value, 1e-4) && b.all_close(&dropped, 1e-6));
    assert!(c.0.all_close(&slope.0, 1e-4) && c.1.all_close(&slope.1, 1e-4));
    // To the experts and back, and the gradient of what came back; that of the tokens is not asked for.
    assert_eq!(f.plan((&x, &router, &w)).unwrap().totals()["all-to-all"].count, 3);
}

/// With room for all, a mixture is the sum over each token's two best experts, written out.
#[test]
fn a_mixture_is_the_weighted_sum_of_the_best_experts() {
    let (x, router, w) = (wave(&[2, 5, 3], 0.2), wave(&[3, 4], 0.5), wave(&[4, 3, 3], 0.9));
    let routing = Routing { capacity: 4.0, ..Routing::new("expert") };
    let mix = jit(move |x: Tensor, r: Tensor, w: Tensor| mixture(&routing, &x, &r, &w, |w, x| x.matmul(&w)));
    let out = mix.call((&x, &router, &w)).unwrap();
    assert_eq!(out.dropped.item::<f32>().unwrap(), 0.0);
    let dense = jit(|x: Tensor, r: Tensor, w: Tensor| {
        let p = x.matmul(&r).softmax(-1);
        let (best, _) = p.top_k(2);
        let chosen = select(p.ge(best.slice(s![.., .., 1..2]).broadcast_to(p.shape())), &p, p.zeros_like());
        einsum("gse,gsd,edf->gsf", &[&chosen, &x, &w])
    });
    assert!(out.output.all_close(&dense.call((&x, &router, &w)).unwrap(), 1e-5));
    // Without room, tokens come out as zero, and it is said how many.
    let tight = Routing { capacity: 0.1, ..Routing::new("expert") };
    let mix = jit(move |x: Tensor, r: Tensor, w: Tensor| mixture(&tight, &x, &r, &w, |w, x| x.matmul(&w)));
    assert!(mix.call((&x, &router, &w)).unwrap().dropped.item::<f32>().unwrap() > 0.3);
}

#[test]
fn ring_attention_is_attention() {
    let mesh = Mesh::grid(("data", 2), ("seq", 2)).unwrap();
    let forms: [fn() -> DotProduct; 3] =
        [|| Mask::Full.into(), || Mask::Causal.into(), || DotProduct::default().causal().window(3).scale(0.7)];
    // With a head of keys and values for each of queries, and with one for all.
    for (form, groups) in forms.into_iter().zip([2, 2, 1]).chain([(forms[1], 1)]) {
        let (q, k, v) = (wave(&[2, 8, 2, 4], 0.2), wave(&[2, 8, groups, 4], 0.5), wave(&[2, 8, groups, 4], 0.9));
        let whole = move |q: Tensor, k: Tensor, v: Tensor| {
            grad(|(q, k, v)| attention(&q, &k, &v, form()).square().sum_all(), (q, k, v))
        };
        let ring = move |q: Tensor, k: Tensor, v: Tensor| {
            grad(|(q, k, v)| ring_attention("seq", 2, &q, &k, &v, form()).square().sum_all(), (q, k, v))
        };
        let alone = jit(whole).call((&q, &k, &v)).unwrap();
        let spec = || P!["data", "seq"];
        let f = jit(ring).on(&mesh).in_shardings([spec(), spec(), spec()]).out_shardings([spec(), spec(), spec()]);
        let split = f.call((&q, &k, &v)).unwrap();
        let what = format!("{:?}, {groups} groups", form());
        assert!(split.0.all_close(&alone.0, 1e-4), "{what}");
        assert!(split.1.all_close(&alone.1, 1e-4), "{what}");
        assert!(split.2.all_close(&alone.2, 1e-4), "{what}");
        assert!(!f.plan((&q, &k, &v)).unwrap().totals().contains_key("all-gather"), "{what}");
    }
}

#[test]
fn host_local_to_global() {
    let pieces: Vec<Array> = (0..3).map(|p| wave(&[2, 4], p as f64)).collect();
    // The devices in another order than their numbers: rows stay in the order of the pieces.
    let mesh = Mesh::grid(("data", 2), ("model", 2)).unwrap().with_device_ids(vec![3, 1, 0, 2]).unwrap();
    let all: Vec<f32> = pieces.iter().flat_map(|p| p.to_vec::<f32>().unwrap()).collect();
    for batch in [GlobalBatch::new(&mesh), GlobalBatch::new(&mesh).over(&["data"])] {
        let global = batch.assemble(&pieces).unwrap();
        assert_eq!(global.array.to_vec::<f32>().unwrap(), all);
        let back = global.pieces().unwrap();
        assert!(back.iter().zip(&pieces).all(|(a, b)| a.all_close(b, 0.0)));
    }
    // Along another dimension, pieces of different sizes, one of them empty.
    let parts = [wave(&[2, 3], 0.0), Array::zeros([2, 0], F32), wave(&[2, 2], 1.0)];
    let global = GlobalBatch::new(&mesh).along(1).over(&["data"]).assemble(&parts).unwrap();
    assert_eq!(global.array.shape(), [2, 5]);
    assert_eq!(global.array.placement().unwrap().sharding.num_shards(&mesh), [1, 2]);
    assert!(global.pieces().unwrap().iter().zip(&parts).all(|(a, b)| a.all_close(b, 0.0)));
    let error = GlobalBatch::new(&mesh).over(&["rows"]).assemble(&pieces).unwrap_err().to_string();
    assert!(error.contains("\"rows\""), "{error}");
    let error = GlobalBatch::new(&mesh).assemble(&[wave(&[2, 4], 0.0), wave(&[2, 5], 0.0)]).unwrap_err().to_string();
    assert!(error.contains("piece 1 has shape [2, 5] and piece 0 [2, 4]"), "{error}");
}

/// The pieces of a tree, each along its rows.
#[test]
fn trees_of_pieces_to_a_tree_of_arrays() {
    let mesh = Mesh::grid(("data", 2), ("model", 2)).unwrap();
    let piece = |p: i64, rows: i64| (wave(&[rows, 3], p as f64), vec![Array::full([rows], p)]);
    let batch = GlobalBatch::new(&mesh).over(&["data"]).rows(8).assemble_tree(&[piece(0, 3), piece(1, 2)]).unwrap();
    assert_eq!((batch.tree.0.shape(), batch.lengths), (&[8, 3][..], vec![3, 2]));
    assert_eq!(batch.tree.1[0].to_vec::<i64>().unwrap(), [0, 0, 0, 1, 1, 0, 0, 0]);
    assert_eq!(batch.mask.to_vec::<f32>().unwrap().iter().sum::<f32>(), 5.0);
    assert_eq!(batch.tree.0.shards()[2].slice, [4..8, 0..3]);
    let odd = (wave(&[3, 3], 0.0), vec![Array::full([2], 0i64)]);
    let error = GlobalBatch::new(&mesh).assemble_tree(&[odd]).unwrap_err().to_string();
    assert!(error.contains(r#""0" has [3] rows, and "1/0" [2]"#), "{error}");
    let more = (wave(&[2, 3], 0.0), vec![]);
    let error = GlobalBatch::new(&mesh).assemble_tree(&[piece(0, 2), more]).unwrap_err().to_string();
    assert!(error.contains("piece 1 has the arrays"), "{error}");
    assert!(GlobalBatch::new(&mesh).assemble_tree(&Vec::<Array>::new()).is_err());
}

#[test]
fn short_final_batch() {
    let mesh = Mesh::linear("data", 4).unwrap();
    let mean = jit(|x: Tensor, mask: Tensor| (x.square().sum(&[1]) * &mask).sum_all() / mask.sum_all()).on(&mesh);
    let full = GlobalBatch::new(&mesh).rows(8);
    for rows in [8, 5, 1] {
        let x = wave(&[rows, 3], 0.4);
        let batch = full.assemble(std::slice::from_ref(&x)).unwrap();
        assert_eq!(batch.array.shape(), [8, 3]);
        let wanted: f64 = x.to_f64s().unwrap().iter().map(|v| v * v).sum::<f64>() / rows as f64;
        let found = mean.call((&batch.array, &batch.mask)).unwrap().to_f64s().unwrap()[0];
        assert!((found - wanted).abs() < 1e-5, "{rows} rows: {found} and {wanted}");
        assert_eq!(batch.pieces().unwrap()[0].shape(), [rows, 3]);
    }
    let error = full.assemble(&[wave(&[9, 3], 0.0)]).unwrap_err().to_string();
    assert!(error.contains("9 in all; the batch has 8"), "{error}");
}

#[derive(Clone, Debug, Tree)]
struct Blocks<T = Tensor> {
    qkv: T,
    out: T,
    up: T,
    down: T,
}

#[derive(Clone, Debug, Tree)]
struct Gpt<T = Tensor> {
    embed: T,
    position: T,
    blocks: Blocks<T>,
}

const STAGES: i64 = 2;
const HEADS: i64 = 2;
const LENGTH: i64 = 6;
const WIDTH: i64 = 8;
const WORDS: i64 = 12;

fn gpt() -> Gpt<Array> {
    let blocks = Blocks {
        qkv: wave(&[STAGES, WIDTH, 3 * WIDTH], 0.1),
        out: wave(&[STAGES, WIDTH, WIDTH], 0.2),
        up: wave(&[STAGES, WIDTH, 4 * WIDTH], 0.3),
        down: wave(&[STAGES, 4 * WIDTH, WIDTH], 0.4),
    };
    Gpt { embed: wave(&[WORDS, WIDTH], 0.5), position: wave(&[LENGTH, WIDTH], 0.6), blocks }
}

fn block(p: Blocks, x: Tensor) -> Tensor {
    let (rows, head) = (x.dim(0), WIDTH / HEADS);
    let qkv = x.layer_norm(1e-5).matmul(&p.qkv).reshape([rows, LENGTH, 3, HEADS, head]);
    let [q, k, v] = [0, 1, 2].map(|i| qkv.slice(s![.., .., i]));
    let seen = attention(&q, &k, &v, Mask::Causal).reshape([rows, LENGTH, WIDTH]);
    let x = x + seen.matmul(&p.out);
    let hidden = x.layer_norm(1e-5).matmul(&p.up).gelu();
    x + hidden.matmul(&p.down)
}

fn gpt_loss(p: &Gpt, (words, next): &(Tensor, Tensor)) -> Tensor {
    let x = p.embed.take(&words.flatten(), 0).reshape([words.dim(0), LENGTH, WIDTH]) + &p.position;
    let x = from_micro_batches(&pipeline("pipe", &p.blocks, &into_micro_batches(&x, 4), block));
    let logits = x.layer_norm(1e-5).matmul(p.embed.t()).log_softmax(-1);
    -(logits * next.one_hot(WORDS, F32)).sum(&[-1]).mean_all()
}

/// Fully sharded data parallel x tensor parallel x pipeline parallel on 2x2x2 devices: the loss curve of one device.
#[test]
fn gpt_on_three_axes_trains_as_on_one_device() {
    let words = Array::from_fn([8, LENGTH], |i| ((i[0] * 5 + i[1] * i[1] * 3) % WORDS) as i32);
    let next = Array::from_fn([8, LENGTH], |i| ((i[0] * 5 + (i[1] + 1) * (i[1] + 1) * 3) % WORDS) as i32);
    let curve = |step: &Step<Gpt, (Tensor, Tensor)>| {
        let mut state = step.init(&gpt()).unwrap();
        let mut out = vec![];
        for _ in 0..6 {
            let (value, new) = step.step(&state, &(words.clone(), next.clone())).unwrap();
            out.push(value.item::<f32>().unwrap());
            state = new;
        }
        (out, state)
    };
    let optimizer = || Optimizer::adamw(0.01, 0.1).clip(1.0);
    let (alone, _) = curve(&Trainer::new(gpt_loss, optimizer()).build());
    assert!(alone[5] < alone[0] - 0.1, "{alone:?}");
    let mesh = Mesh::new([("pipe", 2), ("data", 2), ("tensor", 2)]).unwrap();
    let rule = TreePathRule::new([
        ("blocks/(qkv|up)$", P!["pipe", _, "tensor"]),
        ("blocks/(out|down)$", P!["pipe", "tensor"]),
        ("embed$", P!["tensor"]),
        ("position$", P![]),
    ]);
    let trainer = Trainer::new(gpt_loss, optimizer()).on(&mesh).params(rule.unwrap()).batch(P!["data"]);
    let step = trainer.zero(Zero::Three, "data").build();
    let (split, state) = curve(&step);
    assert!(alone.iter().zip(&split).all(|(a, b)| (a - b).abs() < 1e-4), "{alone:?}\n{split:?}");
    // Each device holds an eighth of the blocks' matrices, and of both moments.
    for array in [&state.0.blocks.up, &state.1.second.as_ref().unwrap().blocks.up] {
        assert_eq!(array.shard_data(3).unwrap().size() * 8, array.size());
    }
    let plan = step.plan(&state, &(words.clone(), next.clone())).unwrap();
    let axes: Vec<String> = plan.totals_by_axes().keys().map(|(kind, axes)| format!("{kind} {axes}")).collect();
    assert!(axes.contains(&"collective-permute pipe".to_string()), "{axes:?}");
    assert!(axes.contains(&"all-gather data".to_string()), "{axes:?}");
}

//! Loops that exchange halos beside the interior of their blocks: the same results to the bit, and an interior that waits for nothing.

mod common;

use common::stencils::{BODIES, looped, number, update};
use common::{inputs, try_check_on};
use meshwork_ir::op::{CollectiveOp, ControlOp, MovementOp};
use meshwork_ir::{BlockId, Literal, Module, OpId, ValueId, Walk, text};
use meshwork_partition::plan::{Machine, simulate};
use meshwork_partition::{Algorithm, Algorithms, CompileOptions, Compiled, Use, compile};

fn options(when: Use, machine: Machine) -> CompileOptions {
    let algorithms = Algorithms::default().with(Algorithm::OverlappedHalos, when);
    CompileOptions { algorithms, machine, ..CompileOptions::default() }
}

fn equal(a: &Literal, b: &Literal) -> bool {
    a == b
}

/// Checks `source` with halos beside the interior wherever they can be.
fn check(source: &str) -> Compiled {
    let always = options(Use::Always, Machine::default());
    try_check_on(source, &always, inputs, equal).unwrap_or_else(|what| panic!("{what}"))
}

/// Reasons of the collectives that run beside an interior.
fn reasons(program: &Compiled) -> Vec<String> {
    let causes = program.plan.collectives.iter().flat_map(|c| &c.causes);
    let reasons = causes.map(|cause| cause.reason.clone()).filter(|r| r.starts_with("overlapped-halos: "));
    reasons.map(|r| r.to_string()).collect()
}

/// The body of the only loop.
fn body(module: &Module) -> BlockId {
    let is_loop = |op: &OpId| module.op(*op).kind() == ControlOp::While;
    let found = module.all_ops(Walk::PreOrder).into_iter().find(is_loop).expect("a loop");
    module.body_of(found, 1).expect("a body")
}

/// Whether `v` depends on an exchange of its turn.
fn waits(module: &Module, body: BlockId, v: ValueId) -> bool {
    let Some(op) = module.def_op(v).filter(|&op| module.op(op).parent() == Some(body)) else { return false };
    let data = module.op(op);
    data.kind() == CollectiveOp::CollectivePermute || data.operands().iter().any(|&v| waits(module, body, v))
}

/// The elements of the pieces of `v` that do not wait for an exchange.
fn free_elements(module: &Module, body: BlockId, v: ValueId) -> i64 {
    if !waits(module, body, v) {
        return module.ty(v).dims().iter().product();
    }
    let op = module.def_op(v).expect("an operation");
    let data = module.op(op);
    match data.kind() == MovementOp::Concatenate {
        true => data.operands().iter().map(|&v| free_elements(module, body, v)).sum(),
        false => 0,
    }
}

/// Exchanges in the body of the loop.
fn permutes(program: &Compiled) -> usize {
    let module = &program.module;
    let is_permute = |op: &OpId| module.op(*op).kind() == CollectiveOp::CollectivePermute;
    module.op_list(body(module)).into_iter().filter(is_permute).count()
}

/// Checks that of the last result of the loop so many elements do not wait.
fn assert_interior(program: &Compiled, elements: i64, what: &str) {
    let module = &program.module;
    let body = body(module);
    let last = *module.returned(body).last().expect("a carry");
    assert_eq!(free_elements(module, body, last), elements, "{what}\n{}", text::print(module));
}

/// Every spelling, even and uneven blocks.
#[test]
fn every_spelling_on_every_mesh() {
    for (name, spelling) in BODIES {
        for (n, devices) in [(128, 8), (102, 4), (41, 3), (29, 4), (24, 2)] {
            for (turns, elem) in [(2, "i32"), (5, "f32"), (3, "i64")] {
                let (mesh, ty) = (format!(r#""x"={devices}"#), format!("tensor<{n}x{elem}>"));
                let program = check(&looped(&mesh, r#"{"x"}"#, &ty, turns, &spelling(n, elem)));
                let what = format!("{name}, {n} on {devices}");
                assert!(!reasons(&program).is_empty(), "{what}\n{}", text::print(&program.module));
                assert!(program.plan.collectives.iter().all(|c| c.collective.times == turns), "{what}");
                let block = (n + devices - 1) / devices;
                let lost = if name == "roll" { 2 + block * devices - n } else { 2 };
                assert_interior(&program, block - lost, &what);
            }
        }
    }
}

/// Blocks without an interior stay as they are.
#[test]
fn short_blocks_stay() {
    for (n, devices) in [(8, 4), (7, 4), (5, 8), (4, 2), (3, 2), (6, 3), (2, 2)] {
        for (_, spelling) in BODIES {
            let (mesh, ty) = (format!(r#""x"={devices}"#), format!("tensor<{n}xi32>"));
            let program = check(&looped(&mesh, r#"{"x"}"#, &ty, 5, &spelling(n, "i32")));
            assert_eq!(reasons(&program), [""; 0], "{n} on {devices}");
        }
    }
    // The shortest that have one.
    for (n, devices) in [(9, 3), (12, 4), (6, 2)] {
        let program =
            check(&looped(&format!(r#""x"={devices}"#), r#"{"x"}"#, &format!("tensor<{n}xi32>"), 5, &update(n, "i32")));
        assert_interior(&program, 1, "one element");
    }
}

/// Neighbours `shifts` of each element of `u`, zeros outside, added up with different factors.
fn neighbours(dims: [i64; 2], elem: &str, shifts: &[[i64; 2]]) -> String {
    let ty = |dims: [i64; 2]| format!("tensor<{}x{}x{elem}>", dims[0], dims[1]);
    let (t, wide) = (ty(dims), ty(dims.map(|n| n + 4)));
    let fill = number(3, elem);
    let mut body = format!(
        "%fill = stablehlo.constant dense<{fill}> : tensor<{elem}>
        %wide = stablehlo.pad %u, %fill, low = [2, 2], high = [2, 2], interior = [0, 0] : ({t}, tensor<{elem}>) -> {wide}
        %sum0 = stablehlo.add %u, %u : {t}\n"
    );
    for (i, by) in shifts.iter().enumerate() {
        let [(a, b), (c, d)] = [0, 1].map(|d| (2 + by[d], 2 + by[d] + dims[d]));
        let op = if i % 2 == 0 { "subtract" } else { "add" };
        body += &format!(
            "%n{i} = stablehlo.slice %wide [{a}:{b}, {c}:{d}] : ({wide}) -> {t}
            %sum{} = stablehlo.{op} %sum{i}, %n{i} : {t}\n",
            i + 1
        );
    }
    body + &format!("%new = stablehlo.add %sum{}, %x : {t}", shifts.len())
}

const CROSS: [[i64; 2]; 4] = [[-1, 0], [1, 0], [0, -1], [0, 1]];

/// Crosses read no corners, so that all halos are exchanged at once; squares do.
#[test]
fn two_dimensions() {
    let square: Vec<[i64; 2]> = (-1..=1).flat_map(|i| (-1..=1).map(move |j| [i, j])).collect();
    let far = [[-2, 0], [0, 1], [1, -2]];
    let one_sided = [[-1, 0], [0, -2]];
    let mesh = (r#""x"=2, "y"=3"#, r#"{"y"}, {"x"}"#);
    for (dims, elem) in [([24, 18], "i32"), ([23, 17], "f32"), ([19, 13], "i32")] {
        let ty = format!("tensor<{}x{}x{elem}>", dims[0], dims[1]);
        let block = [(dims[0] + 2) / 3, (dims[1] + 1) / 2];
        for (shifts, lost, exchanges) in
            [(&CROSS[..], [2, 2], 4), (&square, [2, 2], 8), (&far, [3, 3], 5), (&one_sided, [1, 2], 2)]
        {
            let source = looped(mesh.0, mesh.1, &ty, 4, &neighbours(dims, elem, shifts));
            let program = check(&source);
            let what = format!("{dims:?} {shifts:?}");
            assert_interior(&program, (block[0] - lost[0]) * (block[1] - lost[1]), &what);
            assert!(
                permutes(&program) <= exchanges,
                "{what}: {}\n{}",
                permutes(&program),
                text::print(&program.module)
            );
            check(&looped(r#""x"=2"#, r#"{}, {"x"}"#, &ty, 3, &neighbours(dims, elem, shifts)));
            check(&looped(r#""x"=4"#, r#"{"x"}, {}"#, &ty, 3, &neighbours(dims, elem, shifts)));
        }
    }
}

/// Three lines, two of them rings.
#[test]
fn three_dimensions() {
    let roll = |name: &str, dims: [i64; 3], d: usize| {
        let (n, mut one, mut most) = (dims[d], dims, dims);
        (one[d], most[d]) = (1, n - 1);
        let ty = |dims: [i64; 3]| format!("tensor<{}x{}x{}xi32>", dims[0], dims[1], dims[2]);
        let (t, one_ty, most_ty) = (ty(dims), ty(one), ty(most));
        let range = |from: [i64; 3], to: [i64; 3]| {
            (0..3).map(|d| format!("{}:{}", from[d], to[d])).collect::<Vec<_>>().join(", ")
        };
        let mut start = [0; 3];
        start[d] = n - 1;
        format!(
            "%{name}a = stablehlo.slice %u [{}] : ({t}) -> {one_ty}
            %{name}b = stablehlo.slice %u [{}] : ({t}) -> {most_ty}
            %{name} = stablehlo.concatenate %{name}a, %{name}b, dim = {d} : ({one_ty}, {most_ty}) -> {t}\n",
            range(start, dims),
            range([0; 3], most)
        )
    };
    for dims in [[8, 9, 6], [7, 8, 5]] {
        let t = format!("tensor<{}x{}x{}xi32>", dims[0], dims[1], dims[2]);
        let body = format!(
            "{}{}
            %s0 = stablehlo.subtract %p, %q : {t}
            %new = stablehlo.add %s0, %u : {t}",
            roll("p", dims, 0),
            roll("q", dims, 2)
        );
        let program = check(&looped(r#""x"=2, "y"=2, "z"=2"#, r#"{"x"}, {"y"}, {"z"}"#, &t, 3, &body));
        assert!(!reasons(&program).is_empty(), "{dims:?}");
    }
}

/// A loop over `%u` and other carries, with a coefficient array from outside.
fn several(mesh: &str, dims: &str, n: i64) -> String {
    let (t, m) = (format!("tensor<{n}xf32>"), n - 2);
    let short = format!("tensor<{m}xf32>");
    let at = format!("{{sdy.sharding = #sdy.sharding<@mesh, [{dims}]>}}");
    format!(
        r#"sdy.mesh @mesh = <[{mesh}]>
        func.func @main(%x: {t} {at}, %y: {t} {at}, %k: {t} {at}) -> ({t} {at}, {t} {at}, tensor<f32>) {{
          %zero = stablehlo.constant dense<0> : tensor<i32>
          %one = stablehlo.constant dense<1> : tensor<i32>
          %turns = stablehlo.constant dense<6> : tensor<i32>
          %start = stablehlo.constant dense<0.5> : tensor<f32>
          %r:5 = stablehlo.while(%i = %zero, %time = %start, %before = %y, %c = %k, %u = %x) : tensor<i32>, tensor<f32>, {t}, {t}, {t}
          cond {{
            %go = stablehlo.compare LT, %i, %turns : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %go : tensor<i1>
          }} do {{
            %left = stablehlo.slice %u [0:{m}] : ({t}) -> {short}
            %mid = stablehlo.slice %u [1:{p}] : ({t}) -> {short}
            %right = stablehlo.slice %u [2:{n}] : ({t}) -> {short}
            %old = stablehlo.slice %before [1:{p}] : ({t}) -> {short}
            %cs = stablehlo.slice %c [2:{n}] : ({t}) -> {short}
            %s0 = stablehlo.add %left, %right : {short}
            %s1 = stablehlo.subtract %s0, %mid : {short}
            %s2 = stablehlo.multiply %s1, %cs : {short}
            %s3 = stablehlo.subtract %s2, %old : {short}
            %ts = stablehlo.broadcast_in_dim %time, dims = [] : (tensor<f32>) -> {short}
            %s4 = stablehlo.add %s3, %ts : {short}
            %new = stablehlo.dynamic_update_slice %u, %s4, %one : ({t}, {short}, tensor<i32>) -> {t}
            %later = stablehlo.add %time, %time : tensor<f32>
            %j = stablehlo.add %i, %one : tensor<i32>
            stablehlo.return %j, %later, %u, %c, %new : tensor<i32>, tensor<f32>, {t}, {t}, {t}
          }}
          return %r#4, %r#2, %r#1 : {t}, {t}, tensor<f32>
        }}"#,
        p = n - 1
    )
}

/// What is read in its place only is not exchanged.
#[test]
fn several_carries_and_an_array_from_outside() {
    for (n, devices) in [(64, 4), (37, 3), (29, 2), (50, 8)] {
        let program = check(&several(&format!(r#""x"={devices}"#), r#"{"x"}"#, n));
        assert_eq!(permutes(&program), 2, "{n}\n{}", text::print(&program.module));
        assert_interior(&program, (n + devices - 1) / devices - 2, "several carries");
    }
}

/// A turn that adds up the whole array needs all devices in every turn.
#[test]
fn sums_of_a_line_stay() {
    let body = format!(
        "%nothing = stablehlo.constant dense<0> : tensor<i32>
        %sum = stablehlo.reduce(%u init: %nothing) applies stablehlo.add across dimensions = [0] : (tensor<32xi32>, tensor<i32>) -> tensor<i32>
        %all = stablehlo.broadcast_in_dim %sum, dims = [] : (tensor<i32>) -> tensor<32xi32>
        {}
        %new = stablehlo.add %inner2, %all : tensor<32xi32>",
        update(32, "i32").replace("%new", "%inner2")
    );
    let program = check(&looped(r#""x"=4"#, r#"{"x"}"#, "tensor<32xi32>", 5, &body));
    assert_eq!(reasons(&program), [""; 0]);
}

fn cross(n: i64) -> String {
    looped(
        r#""x"=2, "y"=2"#,
        r#"{"x"}, {"y"}"#,
        &format!("tensor<{n}x{n}xf32>"),
        50,
        &neighbours([n, n], "f32", &CROSS),
    )
}

/// Where links are slow and blocks large, halos come beside the interior: a run is shorter by the time for which it would wait.
#[test]
fn a_simulated_run_waits_less() {
    let source = cross(4096);
    let module = text::parse(&source).unwrap_or_else(|d| panic!("{}", d.render("test", &source)));
    let machine: Machine = "* 100 1\ndevice=10,100".parse().expect("a machine");
    let on = |algorithms: Algorithms, machine: &Machine| {
        let options = CompileOptions { algorithms, machine: machine.clone(), ..CompileOptions::default() };
        let compiled = compile(&module, &options).unwrap_or_else(|e| panic!("{e}"));
        let run = simulate(&compiled, machine);
        (compiled, run)
    };
    let never = Algorithms::all(&[Algorithm::OverlappedHalos, Algorithm::WideHalos], Use::Never);
    let ((with, fast), (without, slow)) = (on(Algorithms::default(), &machine), on(never, &machine));
    assert_eq!(reasons(&without), [""; 0]);
    assert_eq!(fast.exposed_seconds(), 0.0);
    assert!(slow.exposed_seconds() > 50.0 * 200e-6, "{}", slow.exposed_seconds());
    // What is gained is the waiting that is hidden, and hardly more.
    let gained = (slow.seconds - fast.seconds) / slow.exposed_seconds();
    assert!(gained > 0.9 && gained < 1.01, "{} {}: {gained}", fast.seconds, slow.seconds);
    assert!(fast.communication_seconds > 0.9 * slow.communication_seconds, "as much is sent");
    assert_eq!(
        reasons(&with)[0],
        "overlapped-halos: halos come beside 99% of the work (waiting for them first would take 216.4 us a turn)"
    );
    // Nothing is known about a machine that is not given.
    assert_eq!(reasons(&on(Algorithms::default(), &Machine::default()).0), [""; 0]);
    assert_eq!("overlapped-halos".parse(), Ok(Algorithm::OverlappedHalos));
}

/// Where latency is all there is to wait for, wide halos are better; where they are switched off, nothing hides it either.
#[test]
fn the_shortest_of_three_runs_is_chosen() {
    let source = looped(r#""x"=8"#, r#"{"x"}"#, "tensor<8192xf32>", 100, &update(8192, "f32"));
    let module = text::parse(&source).unwrap_or_else(|d| panic!("{}", d.render("test", &source)));
    let machine: Machine = "* 10 50\ndevice=100,1000".parse().expect("a machine");
    let compiled = compile(&module, &options(Use::Weighed, machine)).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(reasons(&compiled), [""; 0]);
    let reason = &compiled.plan.collectives[0].causes[0].reason;
    assert!(reason.starts_with("wide-halos: "), "{reason}");
}

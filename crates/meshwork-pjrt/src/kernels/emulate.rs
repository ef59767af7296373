//! Runs the PTX of kernels on the host, a warp at a time: what a device would compute, for tests.
//!
//! It knows the instructions that kernels have. Branches must go the same way in all lanes.

use std::collections::HashMap;

const LANES: usize = 32;

/// The values of one register in all lanes.
type Register = [u64; LANES];

struct Instruction {
    guard: Option<String>,
    /// `add.rn.f32` in parts.
    name: Vec<String>,
    operands: Vec<String>,
}

/// A function of a module.
pub(super) struct Function {
    params: Vec<String>,
    code: Vec<Instruction>,
    labels: HashMap<String, usize>,
}

/// The function `name` of a module.
pub(super) fn parse(ptx: &str, name: &str) -> Function {
    let start = ptx.find(&format!(".entry {name}(")).expect("the function");
    let text = &ptx[start..];
    let body = &text[text.find("\n{\n").expect("a body") + 3..text.find("\n}\n").expect("an end") + 1];
    let head = &text[..text.find("\n)").expect("the end of the parameters")];
    let params = head.lines().skip(1).map(|l| l.rsplit(' ').next().unwrap_or("").trim_end_matches(',').to_string());
    let mut function = Function { params: params.collect(), code: vec![], labels: HashMap::new() };
    for line in body.lines().map(str::trim) {
        if let Some(label) = line.strip_suffix(':') {
            function.labels.insert(label.to_string(), function.code.len());
        } else if !line.starts_with(".reg") && !line.is_empty() {
            function.code.push(instruction(line.strip_suffix(';').expect("a semicolon")));
        }
    }
    function
}

fn instruction(line: &str) -> Instruction {
    let (guard, line) = match line.strip_prefix('@') {
        Some(rest) => {
            let (guard, rest) = rest.split_once(' ').expect("an instruction");
            (Some(guard.to_string()), rest)
        }
        None => (None, line),
    };
    let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
    let (mut operands, mut depth) = (vec![String::new()], 0);
    for c in rest.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => operands.push(String::new()),
            ' ' => {}
            _ => operands.last_mut().expect("one").push(c),
        }
    }
    Instruction { guard, name: name.split('.').map(str::to_string).collect(), operands }
}

/// Runs `blocks` blocks of `threads` threads.
///
/// # Safety
///
/// `memory` are buffers that can be read and written, as start and size; nothing else is touched.
pub(super) unsafe fn run(function: &Function, blocks: i64, threads: i64, params: &[u64], memory: &[(u64, usize)]) {
    assert_eq!(function.params.len(), params.len());
    for block in 0..blocks {
        for warp in 0..threads / LANES as i64 {
            let mut machine = Machine { function, params, memory, registers: HashMap::new(), block, warp };
            machine.run();
        }
    }
}

struct Machine<'a> {
    function: &'a Function,
    params: &'a [u64],
    memory: &'a [(u64, usize)],
    registers: HashMap<&'a str, Register>,
    block: i64,
    warp: i64,
}

impl<'a> Machine<'a> {
    fn run(&mut self) {
        let mut at = 0;
        while let Some(next) = self.function.code.get(at) {
            at += 1;
            let active: [bool; LANES] = match &next.guard {
                Some(guard) => self.registers[guard.as_str()].map(|v| v != 0),
                None => [true; LANES],
            };
            match next.name[0].as_str() {
                "ret" => return,
                "bra" => {
                    assert!(active.iter().all(|&a| a == active[0]), "lanes go different ways");
                    if active[0] {
                        at = self.function.labels[&next.operands[0]];
                    }
                }
                "ld" => self.load(next, active),
                "st" => self.store(next, active),
                _ => self.compute(next),
            }
        }
    }

    fn operand(&self, text: &str, kind: &str, lane: usize) -> u64 {
        if text.starts_with('%') {
            return match text {
                "%ctaid.x" => self.block as u64,
                "%tid.x" => self.warp as u64 * LANES as u64 + lane as u64,
                _ => self.registers.get(text).unwrap_or_else(|| panic!("{text} is read before it is written"))[lane],
            };
        }
        let number = if let Some(hex) = text.strip_prefix("0f") {
            assert_eq!(kind, "f32", "{text}");
            u64::from_str_radix(hex, 16).expect("a float")
        } else if let Some(hex) = text.strip_prefix("0d") {
            u64::from_str_radix(hex, 16).expect("a double")
        } else if let Some(hex) = text.strip_prefix("0x") {
            u64::from_str_radix(hex, 16).expect("a number")
        } else {
            text.parse::<i128>().expect("a number") as u64
        };
        if kind.ends_with("32") { number & 0xffff_ffff } else { number }
    }

    fn set(&mut self, name: &'a str, values: Register) {
        self.registers.insert(name, values);
    }

    fn check(&self, at: u64, size: usize) {
        let is_inside =
            self.memory.iter().any(|&(start, bytes)| at >= start && at + size as u64 <= start + bytes as u64);
        assert!(is_inside, "an access beside the arrays");
    }

    fn address(&self, text: &str, lane: usize) -> u64 {
        let inner = text.trim_matches(['[', ']']);
        let (base, offset) = inner.split_once('+').unwrap_or((inner, "0"));
        self.operand(base, "b64", lane).wrapping_add(offset.parse::<u64>().expect("an offset"))
    }

    fn load(&mut self, next: &'a Instruction, active: [bool; LANES]) {
        assert!(active.iter().all(|&a| a));
        let kind = next.name.last().expect("a type").as_str();
        if next.name[1] == "param" {
            let name = next.operands[1].trim_matches(['[', ']']);
            let k = self.function.params.iter().position(|p| p == name).expect("a parameter");
            return self.set(&next.operands[0], [self.params[k]; LANES]);
        }
        let size = bytes(kind);
        for (k, into) in next.operands[0].split(',').enumerate() {
            let mut values = [0; LANES];
            for (lane, value) in values.iter_mut().enumerate() {
                let at = self.address(&next.operands[1], lane) + (k * size) as u64;
                let group = (size * next.operands[0].split(',').count()) as u64;
                assert_eq!(self.address(&next.operands[1], lane) % group, 0, "a load that is not aligned");
                let mut raw = [0; 8];
                self.check(at, size);
                // SAFETY: it is inside a buffer.
                unsafe { std::ptr::copy_nonoverlapping(at as *const u8, raw.as_mut_ptr(), size) };
                let bits = u64::from_le_bytes(raw);
                *value = match kind {
                    "s8" => bits as u8 as i8 as i32 as u32 as u64,
                    "s16" => bits as u16 as i16 as i32 as u32 as u64,
                    _ => bits,
                };
            }
            self.set(into, values);
        }
    }

    fn store(&mut self, next: &Instruction, active: [bool; LANES]) {
        let kind = next.name.last().expect("a type").as_str();
        let size = bytes(kind);
        for (k, from) in next.operands[1].split(',').enumerate() {
            for lane in (0..LANES).filter(|&lane| active[lane]) {
                let at = self.address(&next.operands[0], lane) + (k * size) as u64;
                let raw = self.operand(from, kind, lane).to_le_bytes();
                self.check(at, size);
                // SAFETY: it is inside a buffer.
                unsafe { std::ptr::copy_nonoverlapping(raw.as_ptr(), at as *mut u8, size) };
            }
        }
    }

    fn compute(&mut self, next: &'a Instruction) {
        let name: Vec<&str> = next.name.iter().map(String::as_str).collect();
        let kind = *name.last().expect("a type");
        let operands = &next.operands;
        if let ["shfl", "sync", way, "b32"] = name[..] {
            let from: Register = std::array::from_fn(|lane| self.operand(&operands[1], "b32", lane));
            let values = std::array::from_fn(|lane| match way {
                "up" => from[lane.saturating_sub(1)],
                _ => from[(lane + 1).min(LANES - 1)],
            });
            return self.set(&operands[0], values);
        }
        // Halves of a register: `mov.b64 {a, b}, x` and back.
        if name[0] == "mov" && operands[0].contains(',') {
            for (k, part) in operands[0].split(',').enumerate() {
                let values =
                    std::array::from_fn(|lane| self.operand(&operands[1], kind, lane) >> (32 * k) & 0xffff_ffff);
                self.set(part, values);
            }
            return;
        }
        if name[0] == "mov" && operands[1].contains(',') {
            let (low, high) = operands[1].split_once(',').expect("two");
            let by = if kind == "b64" { 32 } else { 16 };
            let values = std::array::from_fn(|l| self.operand(low, "b32", l) | self.operand(high, "b32", l) << by);
            return self.set(&operands[0], values);
        }
        let values = std::array::from_fn(|lane| {
            let of = |k: usize, kind: &str| self.operand(&operands[k], kind, lane);
            let bits = scalar(&name, kind, operands.len() - 1, &of);
            if kind.ends_with("32")
                && name[0] != "setp"
                && !matches!(name[..], ["mad" | "mul", "wide", _])
                && !is_wide(&name)
            {
                bits & 0xffff_ffff
            } else {
                bits
            }
        });
        self.set(&operands[0], values);
    }
}

/// Whether a conversion gives 64 bits.
fn is_wide(name: &[&str]) -> bool {
    name[0] == "cvt" && name[name.len() - 2].ends_with("64")
}

fn bytes(kind: &str) -> usize {
    match kind {
        "u8" | "s8" => 1,
        "b16" | "u16" | "s16" => 2,
        "b32" => 4,
        "b64" => 8,
        _ => panic!("a load of {kind}"),
    }
}

/// One instruction in one lane.
fn scalar(name: &[&str], kind: &str, count: usize, of: &dyn Fn(usize, &str) -> u64) -> u64 {
    let (op, is_double) = (name[0], kind == "f64");
    if op == "cvt" {
        return convert(name, of);
    }
    if op == "cvta" {
        return of(1, kind);
    }
    if op == "setp" {
        return u64::from(compare(name[1], kind, of(1, kind), of(2, kind)));
    }
    if op == "selp" {
        return if of(3, "pred") != 0 { of(1, kind) } else { of(2, kind) };
    }
    if kind == "pred" {
        let (a, b) = (of(1, kind), if count > 1 { of(2, kind) } else { 0 });
        return match op {
            "and" => a & b,
            "or" => a | b,
            "xor" => a ^ b,
            "not" => a ^ 1,
            "mov" => a,
            _ => panic!("{name:?}"),
        };
    }
    if kind == "f32" || is_double {
        let get =
            |k| if is_double { f64::from_bits(of(k, kind)) } else { f64::from(f32::from_bits(of(k, kind) as u32)) };
        let (a, b) = (get(1), if count > 1 { get(2) } else { 0.0 });
        let single = |f: fn(f32, f32) -> f32| u64::from(f(a as f32, b as f32).to_bits());
        let double = |f: fn(f64, f64) -> f64| f(a, b).to_bits();
        let both = |f: fn(f32, f32) -> f32, g: fn(f64, f64) -> f64| if is_double { double(g) } else { single(f) };
        return match op {
            "mov" => of(1, kind),
            "add" => both(|a, b| a + b, |a, b| a + b),
            "sub" => both(|a, b| a - b, |a, b| a - b),
            "mul" => both(|a, b| a * b, |a, b| a * b),
            "div" => both(|a, b| a / b, |a, b| a / b),
            "max" => both(f32::max, f64::max),
            "min" => both(f32::min, f64::min),
            "neg" => both(|a, _| -a, |a, _| -a),
            "abs" => both(|a, _| a.abs(), |a, _| a.abs()),
            "sqrt" => both(|a, _| a.sqrt(), |a, _| a.sqrt()),
            _ => panic!("{name:?}"),
        };
    }
    integer(name, kind, count, of)
}

fn signed(kind: &str, bits: u64) -> i128 {
    match kind {
        "s32" => i128::from(bits as i32),
        "u32" | "b32" => i128::from(bits as u32),
        "s64" => i128::from(bits as i64),
        "u64" | "b64" | "b16" => i128::from(bits),
        _ => panic!("a number of type {kind}"),
    }
}

fn integer(name: &[&str], kind: &str, count: usize, of: &dyn Fn(usize, &str) -> u64) -> u64 {
    let get = |k| signed(kind, of(k, kind));
    let (a, b) = (get(1), if count > 1 { get(2) } else { 0 });
    let value = match name {
        ["mov", ..] => a,
        ["add", ..] => a + b,
        ["sub", ..] => a - b,
        ["mul", "lo", _] => a * b,
        ["mad", "lo", _] => a * b + get(3),
        ["mad", "wide", _] => a * b + i128::from(of(3, "b64") as i64),
        ["div", ..] => a / b,
        ["rem", ..] => a % b,
        ["min", ..] => a.min(b),
        ["max", ..] => a.max(b),
        ["neg", ..] => -a,
        ["abs", ..] => a.abs(),
        ["and", ..] => a & b,
        ["or", ..] => a | b,
        ["xor", ..] => a ^ b,
        ["not", ..] => !a,
        ["shr", ..] => a >> b,
        ["bfe", "s32"] => {
            let unused = 32 - get(3) as u32;
            i128::from((a as i32) << unused >> unused)
        }
        _ => panic!("{name:?}"),
    };
    value as u64
}

fn compare(order: &str, kind: &str, a: u64, b: u64) -> bool {
    if kind.starts_with('f') {
        let get = |bits: u64| if kind == "f64" { f64::from_bits(bits) } else { f64::from(f32::from_bits(bits as u32)) };
        let (a, b) = (get(a), get(b));
        return match order {
            "eq" => a == b,
            "neu" => a != b,
            "lt" => a < b,
            "le" => a <= b,
            "gt" => a > b,
            "ge" => a >= b,
            "nan" => a.is_nan() || b.is_nan(),
            _ => panic!("setp.{order}"),
        };
    }
    let (a, b) = (signed(kind, a), signed(kind, b));
    match order {
        "eq" => a == b,
        "ne" => a != b,
        "lt" => a < b,
        "le" => a <= b,
        "gt" => a > b,
        "ge" => a >= b,
        _ => panic!("setp.{order}"),
    }
}

fn convert(name: &[&str], of: &dyn Fn(usize, &str) -> u64) -> u64 {
    let (to, from) = (name[name.len() - 2], name[name.len() - 1]);
    let bits = of(1, from);
    let single = || f32::from_bits(bits as u32);
    match (name[1], to, from) {
        ("rn", "bf16", "f32") => {
            let x = single().to_bits();
            let up = 0x7fff + (x >> 16 & 1);
            u64::from(if single().is_nan() { 0x7fff } else { x.wrapping_add(up) >> 16 })
        }
        ("rn", "f16", "f32") => u64::from(to_half(single())),
        ("f32", _, "f16") => u64::from(from_half(bits as u16).to_bits()),
        ("rmi", "f32", "f32") => u64::from(single().floor().to_bits()),
        ("rpi", "f32", "f32") => u64::from(single().ceil().to_bits()),
        ("rni", "f32", "f32") => u64::from(single().round_ties_even().to_bits()),
        ("rmi", "f64", "f64") => f64::from_bits(bits).floor().to_bits(),
        ("rpi", "f64", "f64") => f64::from_bits(bits).ceil().to_bits(),
        ("rni", "f64", "f64") => f64::from_bits(bits).round_ties_even().to_bits(),
        ("f64", _, "f32") => f64::from(single()).to_bits(),
        ("rn", "f32", "f64") => u64::from((f64::from_bits(bits) as f32).to_bits()),
        ("rn", "f32", _) => u64::from((signed(from, bits) as f32).to_bits()),
        ("rn", "f64", _) => (signed(from, bits) as f64).to_bits(),
        ("u32" | "s32", ..) => signed(from, bits) as u32 as u64,
        ("u64" | "s64", ..) => signed(from, bits) as u64,
        _ => panic!("{name:?}"),
    }
}

fn from_half(bits: u16) -> f32 {
    let (exponent, fraction) = (u32::from(bits >> 10 & 31), u32::from(bits & 1023));
    let size = match exponent {
        0 => fraction as f32 / 16_777_216.0,
        31 => f32::INFINITY,
        _ => f32::from_bits((exponent + 112) << 23 | fraction << 13),
    };
    if bits >> 15 == 1 { -size } else { size }
}

/// The nearest `f16`, found among its neighbors by halving.
fn to_half(x: f32) -> u16 {
    if x.is_nan() {
        return 0x7e00;
    }
    let sign = if x.is_sign_negative() { 0x8000 } else { 0 };
    let (size, mut low, mut high) = (x.abs(), 0u16, 0x7c00u16);
    if size >= 65520.0 {
        return sign | 0x7c00;
    }
    while high - low > 1 {
        let middle = (low + high) / 2;
        if from_half(middle) <= size { low = middle } else { high = middle }
    }
    let above = if high == 0x7c00 { 65536.0 } else { f64::from(from_half(high)) };
    let (down, up) = (f64::from(size) - f64::from(from_half(low)), above - f64::from(size));
    sign | if down < up || (down == up && low % 2 == 0) { low } else { high }
}

//! No text makes the parser panic: programs with bytes and pieces changed at random, from a fixed seed.

mod rng;

use meshwork_ir::same;
use meshwork_ir::text::{PrintOptions, parse, print, print_with};
use rng::Rng;

const PROGRAMS: &[&str] = &[
    include_str!("programs/control.mlir"),
    include_str!("programs/dense.mlir"),
    include_str!("programs/ops.mlir"),
    include_str!("programs/place.mlir"),
];

/// Pieces of the grammar, put in at random places.
const PIECES: &[&str] = &[
    "<",
    ">",
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "=",
    "->",
    "::",
    "#",
    "!",
    "@",
    "%",
    "^",
    "\"",
    "\\",
    "?",
    "-",
    "x",
    "0",
    "-1",
    "0x",
    "9223372036854775808",
    "1.5e",
    "dense<",
    "tensor<",
    "loc(",
    "array<i64:",
    "#loc",
    "%0",
    "^bb0",
    "//",
    "é",
    "\0",
    "\n",
    "stablehlo.",
    "sdy.",
    "func.func @",
    "{-#",
    "#-}",
    "tuple<",
    "z_1",
    "unit",
    "attributes",
];

/// A character boundary at or before `at`.
fn boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0)
}

fn mutate(text: &mut String, rng: &mut Rng) {
    let at = boundary(text, rng.below(text.len() + 1));
    match rng.below(5) {
        0 => text.insert_str(at, PIECES[rng.below(PIECES.len())]),
        1 => {
            let end = boundary(text, at + rng.below(12));
            text.replace_range(at..end, "");
        }
        2 => {
            let end = boundary(text, at + 1 + rng.below(6));
            text.replace_range(at..end.max(at), PIECES[rng.below(PIECES.len())]);
        }
        3 => {
            let end = boundary(text, at + rng.below(60));
            let piece = text[at..end.max(at)].to_string();
            let to = boundary(text, rng.below(text.len() + 1));
            text.insert_str(to, &piece);
        }
        _ => text.truncate(at),
    }
}

#[test]
fn mutated_programs_give_a_module_or_an_error() {
    let mut rng = Rng(0x9E37_79B9_7F4A_7C15);
    let mut accepted = 0;
    for round in 0..6000 {
        // Mostly one function's worth of lines, so that a change is near the start of what is read.
        let mut text = PROGRAMS[round % PROGRAMS.len()].to_string();
        for _ in 0..1 + rng.below(3) {
            mutate(&mut text, &mut rng);
        }
        match parse(&text) {
            Ok(module) => {
                accepted += 1;
                let printed = print(&module);
                let again = parse(&printed).unwrap_or_else(|e| panic!("{}\nof\n{text}", e.render("printed", &printed)));
                assert_eq!(printed, print(&again), "of\n{text}");
            }
            Err(error) => assert!(!error.render("text", &text).is_empty()),
        }
    }
    assert!(accepted > 100, "only {accepted} texts were accepted: the mutations are too wild to test printing");
}

/// Where each string between quotes stands in `text`.
fn strings(text: &str) -> Vec<std::ops::Range<usize>> {
    let (mut out, mut open, mut escaped) = (vec![], None, false);
    for (at, byte) in text.bytes().enumerate() {
        match (open, byte) {
            (Some(_), b'\\') => escaped = !escaped,
            (Some(start), b'"') if !escaped => {
                out.push(start..at);
                open = None;
            }
            (None, b'"') => open = Some(at + 1),
            _ => escaped = false,
        }
    }
    out
}

#[test]
fn odd_strings_in_attributes_are_read_back() {
    let mut rng = Rng(0x2545_F491_4F6C_DD1D);
    let mut accepted = 0;
    for round in 0..2000 {
        let module = parse(PROGRAMS[round % PROGRAMS.len()]).unwrap();
        let mut text = print_with(&module, &PrintOptions { generic: true, locations: false });
        let all = strings(&text);
        let odd = ["", " x.a private", "a b", "public", "é\\22", "@f", "0"][rng.below(7)];
        text.replace_range(all[rng.below(all.len())].clone(), odd);
        let Ok(module) = parse(&text) else { continue };
        accepted += 1;
        let printed = print(&module);
        let again = parse(&printed).unwrap_or_else(|e| panic!("{}\nof\n{text}", e.render("printed", &printed)));
        assert_eq!(same(&module, &again), Ok(()), "{printed}\nof\n{text}");
    }
    assert!(accepted > 200, "only {accepted} texts were accepted");
}

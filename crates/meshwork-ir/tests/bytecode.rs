//! Bytecode of the programs in `bytecode/`, written by StableHLO itself (`bytecode/generate.py`): it reads as their text does,
//! and no change of its bytes makes the reader panic.

mod rng;

use meshwork_ir::text::{PrintOptions, parse, print, print_with};
use meshwork_ir::verify::verify;
use meshwork_ir::{Module, Walk, bytecode};
use rng::Rng;

macro_rules! program {
    ($name:literal $(, $version:literal)*) => {
        ($name, include_str!(concat!("bytecode/", $name, ".mlir")),
         &[include_bytes!(concat!("bytecode/", $name, ".mlirbc")).as_slice()
           $(, include_bytes!(concat!("bytecode/", $name, ".", $version, ".mlirbc")).as_slice())*])
    };
}

/// Name, text, and bytecode in several versions of the format.
const PROGRAMS: &[(&str, &str, &[&[u8]])] = &[
    program!("collectives", "1.0"),
    program!("control", "1.0"),
    program!("elementwise", "1.0"),
    program!("locations", "1.0"),
    program!("newest"),
    program!("placements", "1.0"),
    program!("structured", "1.0"),
    program!("types"),
];

fn read(bytes: &[u8]) -> Module {
    bytecode::read(bytes).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn bytecode_reads_as_the_text_it_was_made_of() {
    for (name, text, versions) in PROGRAMS {
        let expected = print(&parse(text).unwrap_or_else(|e| panic!("{}", e.render(name, text))));
        for (i, bytes) in versions.iter().enumerate() {
            assert_eq!(print(&read(bytes)), expected, "{name}, version {i}");
        }
    }
}

#[test]
fn locations_are_kept() {
    let (_, text, versions) = PROGRAMS[3];
    let options = PrintOptions { locations: true, ..PrintOptions::default() };
    let expected = print_with(&parse(text).unwrap(), &options);
    for bytes in versions {
        assert_eq!(print_with(&read(bytes), &options), expected);
    }
    let module = read(versions[0]);
    let adds = module.all_ops(Walk::PreOrder).into_iter().filter(|&op| module.op(op).name() == "stablehlo.add");
    let sources: Vec<_> = adds.map(|op| module.op(op).loc.source().map(|(file, line, _)| (file, line))).collect();
    let [train, model] = ["train.py", "model.py"];
    assert_eq!(
        sources,
        [(train, 12), (train, 12), (train, 12), (model, 3), (model, 3), (model, 1), (model, 1)].map(Some)
    );
}

#[test]
fn files_of_jax_export_hold_bytecode() {
    let file = include_bytes!("bytecode/exported.bin");
    let module = meshwork_ir::read(file).unwrap();
    assert!(verify(&module).is_empty());
    let ty = module.func_type(module.entry().unwrap());
    assert_eq!(ty.to_string(), "(tensor<?x3xf32>, tensor<3x2xf32>) -> tensor<2xf32>");
}

#[test]
fn errors_name_the_source_of_operations() {
    let (_, _, versions) = PROGRAMS[3];
    let mut module = read(versions[0]);
    let add = module.all_ops(Walk::PreOrder).into_iter().find(|&op| module.op(op).name() == "stablehlo.add").unwrap();
    let result = module.op(add).results()[0];
    module.set_ty(result, meshwork_ir::Type::tensor([2], meshwork_ir::ElementType::F32));
    let errors = verify(&module);
    assert!(errors.iter().any(|e| e.message.ends_with("(train.py:12:4)")), "{errors:?}");
}

fn mutate(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let at = rng.below(bytes.len() + 1);
    let end = (at + 1 + rng.below(8)).min(bytes.len());
    match rng.below(20) {
        0 => bytes.truncate(at),
        1 => drop(bytes.drain(at.min(end)..end)),
        2 => bytes.insert(at, rng.below(256) as u8),
        3 => {
            let piece = bytes[at.min(end)..end].to_vec();
            let to = rng.below(bytes.len() + 1);
            bytes.splice(to..to, piece);
        }
        _ if at < bytes.len() => bytes[at] = [rng.below(256) as u8, 0, 1, 0xff, bytes[at] ^ 2][rng.below(5)],
        _ => {}
    }
}

#[test]
fn mutated_bytecode_gives_a_module_or_an_error() {
    let mut rng = Rng(0x2545_F491_4F6C_DD1D);
    let mut accepted = 0;
    for round in 0..20_000 {
        let (name, _, versions) = PROGRAMS[round % PROGRAMS.len()];
        let mut bytes = versions[round % versions.len()].to_vec();
        for _ in 0..1 + rng.below(3) {
            mutate(&mut bytes, &mut rng);
        }
        match bytecode::read(&bytes) {
            Ok(module) => {
                accepted += 1;
                verify(&module);
                assert!(!print(&module).is_empty(), "{name}");
            }
            Err(error) => assert!(!error.message.is_empty()),
        }
    }
    assert!(accepted > 1000, "only {accepted} files were accepted: the mutations are too wild to test what follows");
}

#[test]
fn every_prefix_of_a_file_is_an_error() {
    for (name, _, versions) in PROGRAMS {
        let bytes = versions[0];
        for end in 0..bytes.len() {
            assert!(bytecode::read(&bytes[..end]).is_err(), "{name}, {end} bytes");
        }
    }
}

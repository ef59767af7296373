//! Several processes under `mpirun`, each with a client of its own. XLA's CPU plugin takes the store of the processes but makes
//! clients that know no other process, so programs run in each process by themselves here; on GPUs the clients find each
//! other.
#![cfg(feature = "mpi")]

use meshwork_ir::text;
use meshwork_partition::{CompileOptions, compile};
use meshwork_runtime::{Array, Engine, Runtime};
use meshwork_testing::{ranks, xla};

#[test]
fn every_process_has_its_own_devices() {
    ranks::across(&[2], "every_process_has_its_own_devices", || {
        let Some(engine) = xla::cpu() else { return };
        let runtime = Runtime::init().expect("processes");
        assert_eq!(runtime.size(), 2);
        let source = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
            %y = stablehlo.add %x, %x : tensor<4xf32>
            return %y : tensor<4xf32> }";
        let program =
            compile(&text::parse(source).expect("a program"), &CompileOptions::default()).expect("it compiles");
        let own = runtime.rank() as f32;
        let y = engine.load(&program).expect("it loads").run(vec![Array::from([own; 4])]).expect("it runs");
        assert_eq!(y[0].to_vec::<f32>().expect("f32"), [2.0 * own; 4]);
        assert_eq!(engine.client().all_devices(), engine.client().devices().len());
        // More devices than the plugin knows of.
        let source = "sdy.mesh @mesh = <[\"x\"=64]>
            func.func @main(%x: tensor<64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}]>}) -> tensor<64xf32> {
            %y = stablehlo.add %x, %x : tensor<64xf32>
            return %y : tensor<64xf32> }";
        let program =
            compile(&text::parse(source).expect("a program"), &CompileOptions::default()).expect("it compiles");
        let error = engine.load(&program).map(|_| ()).expect_err("it loads").to_string();
        assert_eq!(error, "the mesh has 64 devices; pjrt:cpu runs at most 20");
    });
}

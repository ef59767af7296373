//! The plugin through its table of calls, as JAX uses it.

use std::ffi::{CStr, c_char};
use std::ptr::null_mut;

use meshwork_pjrt_abi::*;
use meshwork_plugin::GetPjrtApi;

const F32: i32 = 11;

/// All-zero arguments of a call, with their size.
fn args<A: Args>() -> A {
    // SAFETY: all zeros are a valid `A`, which starts with its size.
    unsafe {
        let mut args = std::mem::zeroed::<A>();
        (&raw mut args).cast::<usize>().write(size_of::<A>());
        args
    }
}

/// Calls a slot; the message and code of its error, if there is one.
fn call<A: Args>(slot: Slot<A>, args: &mut A) -> Result<(), (String, i32)> {
    // SAFETY: the plugin's own function on arguments of its own type.
    unsafe {
        let error = slot.unwrap()(args);
        if error.is_null() {
            return Ok(());
        }
        let mut message = self::args::<ErrorMessage>();
        message.error = error;
        api().error_message.unwrap()(&mut message);
        let text = std::slice::from_raw_parts(message.message.cast::<u8>(), message.message_size);
        let text = String::from_utf8_lossy(text).into_owned();
        let mut code = self::args::<ErrorGetCode>();
        code.error = error;
        api().error_get_code.unwrap()(&mut code);
        let mut end = self::args::<ErrorDestroy>();
        end.error = error;
        api().error_destroy.unwrap()(&mut end);
        Err((text, code.code))
    }
}

fn api() -> &'static Api {
    // SAFETY: the table lives as long as the process.
    unsafe { &*GetPjrtApi() }
}

/// A client with two devices.
fn client() -> (*mut Client, Vec<*mut Device>) {
    client_with(None)
}

/// A client with two devices and another option.
fn client_with(option: Option<(&CStr, &CStr)>) -> (*mut Client, Vec<*mut Device>) {
    let mut options = [args::<NamedValue>(), args::<NamedValue>()];
    let [devices, other] = &mut options;
    (devices.name, devices.name_size) = (c"devices".as_ptr(), 7);
    (devices.kind, devices.value, devices.value_size) = (named::INT64, NamedValueData { int64: 2 }, 1);
    if let Some((name, value)) = option {
        (other.name, other.name_size) = (name.as_ptr(), name.count_bytes());
        let text = NamedValueData { string: value.as_ptr() };
        (other.kind, other.value, other.value_size) = (named::STRING, text, value.count_bytes());
    }
    let mut create = args::<ClientCreate>();
    (create.create_options, create.num_options) = (options.as_ptr(), 1 + option.iter().len());
    call(api().client_create, &mut create).unwrap();
    let mut devices = args::<ClientDevices>();
    devices.client = create.client;
    call(api().client_devices, &mut devices).unwrap();
    // SAFETY: the list is as long as it says.
    let devices = unsafe { std::slice::from_raw_parts(devices.devices, devices.num_devices) };
    (create.client, devices.to_vec())
}

fn compile(client: *mut Client, text: &str, options: &[u8]) -> Result<*mut LoadedExecutable, (String, i32)> {
    let mut program = args::<Program>();
    (program.code, program.code_size) = (text.as_ptr().cast_mut().cast(), text.len());
    (program.format, program.format_size) = (c"mlir".as_ptr(), 4);
    let mut compile = args::<ClientCompile>();
    (compile.client, compile.program) = (client, &program);
    (compile.compile_options, compile.compile_options_size) = (options.as_ptr().cast::<c_char>(), options.len());
    call(api().client_compile, &mut compile).map(|()| compile.executable)
}

fn put(client: *mut Client, device: *mut Device, values: &[f32]) -> *mut Buffer {
    let dims = [values.len() as i64];
    let mut put = args::<ClientBufferFromHostBuffer>();
    (put.client, put.device, put.element_type) = (client, device, F32);
    (put.data, put.dims, put.num_dims) = (values.as_ptr().cast(), dims.as_ptr(), 1);
    call(api().client_buffer_from_host_buffer, &mut put).unwrap();
    wait(put.done_with_host_buffer).unwrap();
    put.buffer
}

fn wait(event: *mut Event) -> Result<(), (String, i32)> {
    let mut wait = args::<EventAwait>();
    wait.event = event;
    let outcome = call(api().event_await, &mut wait);
    let mut end = args::<EventDestroy>();
    end.event = event;
    call(api().event_destroy, &mut end).unwrap();
    outcome
}

fn get(buffer: *mut Buffer) -> Result<Vec<f32>, (String, i32)> {
    let mut get = args::<BufferToHostBuffer>();
    get.src = buffer;
    call(api().buffer_to_host_buffer, &mut get)?;
    let mut values = vec![0f32; get.dst_size / 4];
    get.dst = values.as_mut_ptr().cast();
    call(api().buffer_to_host_buffer, &mut get)?;
    wait(get.event)?;
    Ok(values)
}

fn run(program: *mut LoadedExecutable, lists: &[Vec<*mut Buffer>]) -> Result<Vec<*mut Buffer>, (String, i32)> {
    let starts: Vec<*const *mut Buffer> = lists.iter().map(|list| list.as_ptr()).collect();
    let mut outputs = vec![vec![null_mut::<Buffer>()]; lists.len()];
    let places: Vec<*mut *mut Buffer> = outputs.iter_mut().map(|list| list.as_mut_ptr()).collect();
    let mut execute = args::<LoadedExecutableExecute>();
    execute.executable = program;
    (execute.argument_lists, execute.num_devices) = (starts.as_ptr(), lists.len());
    execute.num_args = lists[0].len();
    execute.output_lists = places.as_ptr();
    call(api().loaded_executable_execute, &mut execute)?;
    Ok(outputs.into_iter().map(|list| list[0]).collect())
}

fn is_deleted(buffer: *mut Buffer) -> bool {
    let mut deleted = args::<BufferIsDeleted>();
    deleted.buffer = buffer;
    call(api().buffer_is_deleted, &mut deleted).unwrap();
    deleted.is_deleted != 0
}

const ADD: &str =
    "func.func @main(%a: tensor<3xf32> {tf.aliasing_output = 0 : i32}, %b: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.add %a, %b : tensor<3xf32>
  return %0 : tensor<3xf32>
}";

#[test]
fn a_program_runs_and_takes_donated_arguments() {
    let (client, devices) = client();
    let program = compile(client, ADD, &[]).unwrap();
    let (a, b) = (put(client, devices[0], &[1.0, 2.0, 3.0]), put(client, devices[0], &[10.0, 20.0, 30.0]));
    let sum = run(program, &[vec![a, b]]).unwrap();
    assert_eq!(get(sum[0]).unwrap(), [11.0, 22.0, 33.0]);
    assert!(is_deleted(a) && !is_deleted(b));
    let (message, code) = run(program, &[vec![a, b]]).unwrap_err();
    assert_eq!((message.as_str(), code), ("the buffer has been deleted or donated", Code::InvalidArgument as i32));
}

const SUM: &str = r#"sdy.mesh @mesh = <["x"=2]>
func.func @main(%x: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<f32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %s = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  return %s : tensor<f32>
}"#;

/// `CompileOptionsProto` for two partitions.
const ON_TWO: &[u8] = &[0x1a, 0x05, 0x28, 0x02, 0x98, 0x01, 0x01];

#[test]
fn a_split_program_takes_a_shard_from_each_device() {
    let (client, devices) = client();
    let program = compile(client, SUM, ON_TWO).unwrap();
    let shards = [vec![put(client, devices[0], &[1.0, 2.0])], vec![put(client, devices[1], &[3.0, 4.0])]];
    for sum in run(program, &shards).unwrap() {
        assert_eq!(get(sum).unwrap(), [10.0]);
    }
    let (message, _) = compile(client, SUM, &[]).unwrap_err();
    assert_eq!(message, "a mesh of 2 devices for 1 partitions");
}

#[test]
fn runs_that_wait_for_each_other_are_done_in_order() {
    // Too large to be done by the caller.
    let text = "func.func @main(%a: tensor<524288xf32>) -> tensor<524288xf32> {
      %0 = stablehlo.add %a, %a : tensor<524288xf32>
      return %0 : tensor<524288xf32>
    }";
    let (client, devices) = client();
    let program = compile(client, text, &[]).unwrap();
    let mut x = put(client, devices[1], &vec![1.0; 1 << 19]);
    for _ in 0..10 {
        x = run(program, &[vec![x]]).unwrap()[0];
    }
    assert!(get(x).unwrap().iter().all(|&v| v == 1024.0));
}

#[test]
fn a_failed_run_fails_what_depends_on_it() {
    let text = "func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
      %0 = stablehlo.custom_call @no_such_call(%a) : (tensor<2xf32>) -> tensor<2xf32>
      return %0 : tensor<2xf32>
    }";
    let (client, devices) = client();
    let failing = compile(client, text, &[]).unwrap();
    let adding = compile(client, &ADD.replace("3xf32", "2xf32"), &[]).unwrap();
    let x = put(client, devices[0], &[1.0, 2.0]);
    let bad = run(failing, &[vec![x]]).unwrap()[0];
    let worse = run(adding, &[vec![x, bad]]).unwrap()[0];
    for buffer in [bad, worse] {
        let (message, code) = get(buffer).unwrap_err();
        assert!(message.contains("no_such_call") && code != 0, "{message}");
    }
}

/// What a function of Python does wrong is told where the program is called.
#[test]
fn a_failed_function_fails_the_call() {
    let text = "func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
      %0 = stablehlo.custom_call @meshwork_python_callback(%a) {backend_config = \"1\", has_side_effect = true} : (tensor<2xf32>) -> tensor<2xf32>
      return %0 : tensor<2xf32>
    }";
    let (client, devices) = client();
    let failing = compile(client, text, &[]).unwrap();
    let x = put(client, devices[0], &[1.0, 2.0]);
    let (message, code) = run(failing, &[vec![x]]).unwrap_err();
    assert!(message.contains("nobody answers") && code == Code::Internal as i32, "{message}");
}

#[test]
fn wrong_programs_and_missing_calls_are_errors_by_name() {
    let (client, _) = client();
    let (message, code) = compile(client, "func.func @main(", &[]).unwrap_err();
    assert!(!message.is_empty() && code == Code::InvalidArgument as i32, "{message}");
    let (message, code) = call(api().client_dma_map, &mut args()).unwrap_err();
    assert_eq!((message.as_str(), code), ("Meshwork does not implement the PJRT call ClientDmaMap", 12));
    let (message, _) = call(api().client_devices, &mut args()).unwrap_err();
    assert_eq!(message, "null given where a PJRT_Client is needed");
}

#[test]
fn a_caller_of_an_older_version_gets_the_fields_it_knows() {
    let (client, _) = client();
    let mut devices = args::<ClientDevices>();
    devices.client = client;
    // Without `num_devices`.
    devices.struct_size = size_of::<ClientDevices>() - 8;
    call(api().client_devices, &mut devices).unwrap();
    assert!(!devices.devices.is_null() && devices.num_devices == 0);
}

/// An extent is known at run time only: the engine does not compile it.
const DYNAMIC: &str = "func.func @main(%n: tensor<1xi32>) -> tensor<f32> {
  %d = stablehlo.dynamic_iota %n, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %s = stablehlo.reduce(%d init: %z) applies stablehlo.add across dimensions = [0] : (tensor<?xf32>, tensor<f32>) -> tensor<f32>
  return %s : tensor<f32>
}";

#[test]
fn what_runs_on_the_evaluator_is_refused_if_asked() {
    assert!(compile(client().0, DYNAMIC, &[]).is_ok());
    let (client, _) = client_with(Some((c"fallbacks", c"refuse")));
    assert!(compile(client, ADD, &[]).is_ok());
    let (message, code) = compile(client, DYNAMIC, &[]).unwrap_err();
    assert!(message.starts_with("the program runs on the evaluator: "), "{message}");
    assert_eq!(code, 12);
}

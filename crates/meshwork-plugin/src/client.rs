//! The client: its devices and memories, which live as long as the process, and the engine behind them.

use std::ffi::c_void;
use std::sync::Arc;
use std::time::Duration;

use meshwork_cpu::CpuEngine;
use meshwork_pjrt_abi as abi;
use meshwork_runtime::evaluator::Evaluator;
use meshwork_runtime::{Engine, Fallback, memory::usage};

use crate::border::{Handle, borrow, slice_mut};
use crate::failure::{Failure, Outcome};
use crate::named::{self, Attributes, Value};
use crate::program::Program;
use crate::queue::Queue;

/// What `jax.devices()[0].platform` is.
pub(crate) const PLATFORM: &str = "meshwork";
/// Version of the platform, part of the key of JAX's compilation cache.
pub(crate) const VERSION: &str = concat!("meshwork ", env!("CARGO_PKG_VERSION"));

/// The newest version of StableHLO that the plugin reads: JAX writes programs in this one at most.
const STABLEHLO: &[i64] = &[1, 14, 0];
/// The same for `sdy`.
const SDY: &[i64] = &[0, 0, 2];

/// Kinds of memory that every device has. All are host memory; the first is the default.
pub(crate) const MEMORY_KINDS: [&str; 3] = ["device", "pinned_host", "unpinned_host"];

/// A device; its own description as well.
pub(crate) struct DeviceHandle {
    pub id: usize,
    name: String,
    memories: Vec<*mut abi::Memory>,
}

/// A kind of memory of one device. The first word is the address of a table of functions, or null.
#[repr(C)]
pub(crate) struct MemoryHandle {
    functions: *const c_void,
    pub id: usize,
    pub kind: usize,
    name: String,
    device: [*mut abi::Device; 1],
}

/// The client. It is never freed: handles may outlive it.
pub(crate) struct ClientHandle {
    devices: Vec<*mut abi::Device>,
    memories: Vec<*mut abi::Memory>,
    pub engine: Arc<dyn Engine>,
    pub queue: Queue,
    /// Runs that take longer are reported.
    pub slow: Option<Duration>,
    fallbacks: Fallbacks,
}

impl Handle for DeviceHandle {
    type C = abi::Device;
}

impl Handle for MemoryHandle {
    type C = abi::Memory;
}

impl Handle for ClientHandle {
    type C = abi::Client;
}

impl MemoryHandle {
    pub fn device(&self) -> *mut abi::Device {
        self.device[0]
    }
}

impl ClientHandle {
    pub fn devices(&self) -> &[*mut abi::Device] {
        &self.devices
    }

    pub fn device(&self, id: usize) -> Outcome<*mut abi::Device> {
        let missing = || Failure::invalid(format!("there is no device {id}; the client has {}", self.devices.len()));
        self.devices.get(id).copied().ok_or_else(missing)
    }

    /// Compiles a program for the client's engine.
    pub fn compile(&self, source: &[u8], options: &[u8]) -> Outcome<Program> {
        let program = Program::compile(source, options, &*self.engine)?;
        match (self.fallbacks, &program.executable.fallbacks()[..]) {
            (Fallbacks::Run, _) | (_, []) => Ok(program),
            (Fallbacks::Refuse, left) => {
                let left: Vec<String> = left.iter().map(Fallback::to_string).collect();
                Err(Failure::unimplemented(format!("{} (fallbacks are refused)", left.join("; "))))
            }
        }
    }

    fn new(settings: &Settings) -> ClientHandle {
        let engine: Arc<dyn Engine> = match (settings.engine, settings.threads) {
            (EngineKind::Evaluator, _) => Arc::new(Evaluator),
            (EngineKind::Cpu, Some(threads)) => Arc::new(CpuEngine::new(threads)),
            (EngineKind::Cpu, None) => CpuEngine::shared().clone(),
        };
        let Settings { slow, fallbacks, .. } = *settings;
        let mut client =
            ClientHandle { devices: vec![], memories: vec![], engine, queue: Queue::new(), slow, fallbacks };
        for id in 0..settings.devices {
            let device =
                Box::leak(Box::new(DeviceHandle { id, name: format!("Meshwork device {id}"), memories: vec![] }));
            let handle = (&raw mut *device).cast::<abi::Device>();
            for (kind, name) in MEMORY_KINDS.iter().enumerate() {
                let memory = MemoryHandle {
                    functions: std::ptr::null(),
                    id: id * MEMORY_KINDS.len() + kind,
                    kind,
                    name: format!("{name} of Meshwork device {id}"),
                    device: [handle],
                };
                device.memories.push(memory.give());
            }
            client.memories.extend(&device.memories);
            client.devices.push(handle);
        }
        client
    }
}

/// How a client is made: options of `jax_pjrt_client_create_options` or of the registration, or else variables.
struct Settings {
    devices: usize,
    threads: Option<usize>,
    engine: EngineKind,
    slow: Option<Duration>,
    fallbacks: Fallbacks,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum EngineKind {
    Cpu,
    Evaluator,
}

/// What becomes of programs of which the engine leaves something to the evaluator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fallbacks {
    Run,
    Refuse,
}

impl Settings {
    fn read(given: &[(String, String)], variable: impl Fn(&str) -> Option<String>) -> Outcome<Settings> {
        const KNOWN: [&str; 5] = ["devices", "threads", "engine", "slow_ms", "fallbacks"];
        if let Some((name, _)) = given.iter().find(|(name, _)| !KNOWN.contains(&name.as_str())) {
            return Err(Failure::invalid(format!("no option {name:?}; there are {}", KNOWN.join(", "))));
        }
        let option = |name: &str| {
            let given = given.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone());
            given.or_else(|| variable(&format!("MESHWORK_{}", name.to_uppercase()))).filter(|value| !value.is_empty())
        };
        let number = |name: &str, least: usize| {
            let wrong =
                |value: &str| Failure::invalid(format!("option {name}: {value:?} is no number of at least {least}"));
            let parse = |value: String| value.parse().ok().filter(|&n| n >= least).ok_or_else(|| wrong(&value));
            option(name).map(parse).transpose()
        };
        let engine = match option("engine").as_deref() {
            None | Some("cpu") => EngineKind::Cpu,
            Some("evaluator") => EngineKind::Evaluator,
            Some(other) => {
                return Err(Failure::invalid(format!("option engine: {other:?} is neither cpu nor evaluator")));
            }
        };
        let fallbacks = match option("fallbacks").as_deref() {
            None | Some("run") => Fallbacks::Run,
            Some("refuse") => Fallbacks::Refuse,
            Some(other) => {
                return Err(Failure::invalid(format!("option fallbacks: {other:?} is neither run nor refuse")));
            }
        };
        Ok(Settings {
            devices: number("devices", 1)?.unwrap_or(1),
            threads: number("threads", 1)?,
            engine,
            slow: number("slow_ms", 0)?.map(|ms| Duration::from_millis(ms as u64)),
            fallbacks,
        })
    }
}

pub(crate) fn plugin_initialize(_: &mut abi::PluginInitialize) -> Outcome {
    Ok(())
}

pub(crate) fn plugin_attributes(args: &mut abi::PluginAttributes) -> Outcome {
    static ALL: std::sync::OnceLock<Attributes> = std::sync::OnceLock::new();
    let versions = [
        ("xla_version", Value::Ints(&[2])),
        ("stablehlo_current_version", Value::Ints(STABLEHLO)),
        ("stablehlo_minimum_version", Value::Ints(&[1, 0, 0])),
        ("sdy_current_version", Value::Ints(SDY)),
    ];
    let all = ALL.get_or_init(|| Attributes::new(versions));
    (args.attributes, args.num_attributes) = (all.as_ptr(), all.len());
    Ok(())
}

pub(crate) fn client_create(args: &mut abi::ClientCreate) -> Outcome {
    let given = named::read(args.create_options, args.num_options);
    let settings = Settings::read(&given, |name| std::env::var(name).ok())?;
    args.client = ClientHandle::new(&settings).give();
    Ok(())
}

/// Waits for what was started. The client itself stays.
pub(crate) fn client_destroy(args: &mut abi::ClientDestroy) -> Outcome {
    if let Ok(client) = borrow::<ClientHandle>(args.client) {
        client.queue.drain();
    }
    Ok(())
}

pub(crate) fn client_platform_name(args: &mut abi::ClientPlatformName) -> Outcome {
    (args.platform_name, args.platform_name_size) = (PLATFORM.as_ptr().cast(), PLATFORM.len());
    Ok(())
}

pub(crate) fn client_platform_version(args: &mut abi::ClientPlatformVersion) -> Outcome {
    (args.platform_version, args.platform_version_size) = (VERSION.as_ptr().cast(), VERSION.len());
    Ok(())
}

pub(crate) fn client_process_index(args: &mut abi::ClientProcessIndex) -> Outcome {
    args.process_index = 0;
    Ok(())
}

/// The client stands for the topology of its devices.
pub(crate) fn client_topology_description(args: &mut abi::ClientTopologyDescription) -> Outcome {
    args.topology = args.client.cast();
    Ok(())
}

pub(crate) fn client_devices(args: &mut abi::ClientDevices) -> Outcome {
    let devices = &borrow::<ClientHandle>(args.client)?.devices;
    (args.devices, args.num_devices) = (devices.as_ptr(), devices.len());
    Ok(())
}

pub(crate) fn client_addressable_devices(args: &mut abi::ClientAddressableDevices) -> Outcome {
    let devices = &borrow::<ClientHandle>(args.client)?.devices;
    (args.addressable_devices, args.num_addressable_devices) = (devices.as_ptr(), devices.len());
    Ok(())
}

pub(crate) fn client_lookup_device(args: &mut abi::ClientLookupDevice) -> Outcome {
    args.device = borrow::<ClientHandle>(args.client)?.device(args.id as usize)?;
    Ok(())
}

pub(crate) fn client_lookup_addressable_device(args: &mut abi::ClientLookupAddressableDevice) -> Outcome {
    args.addressable_device = borrow::<ClientHandle>(args.client)?.device(args.local_hardware_id as usize)?;
    Ok(())
}

pub(crate) fn client_addressable_memories(args: &mut abi::ClientAddressableMemories) -> Outcome {
    let memories = &borrow::<ClientHandle>(args.client)?.memories;
    (args.addressable_memories, args.num_addressable_memories) = (memories.as_ptr(), memories.len());
    Ok(())
}

pub(crate) fn client_default_device_assignment(args: &mut abi::ClientDefaultDeviceAssignment) -> Outcome {
    let have = borrow::<ClientHandle>(args.client)?.devices.len();
    let wanted = args.num_replicas as usize * args.num_partitions as usize;
    if wanted > have || wanted > args.default_assignment_size {
        return Err(Failure::invalid(format!("{wanted} devices are needed, the client has {have}")));
    }
    slice_mut(args.default_assignment, wanted).iter_mut().enumerate().for_each(|(i, id)| *id = i as i32);
    Ok(())
}

pub(crate) fn device_get_description(args: &mut abi::DeviceGetDescription) -> Outcome {
    args.device_description = args.device.cast();
    Ok(())
}

pub(crate) fn device_is_addressable(args: &mut abi::DeviceIsAddressable) -> Outcome {
    args.is_addressable = 1;
    Ok(())
}

pub(crate) fn device_local_hardware_id(args: &mut abi::DeviceLocalHardwareId) -> Outcome {
    args.local_hardware_id = borrow::<DeviceHandle>(args.device)?.id as i32;
    Ok(())
}

pub(crate) fn device_addressable_memories(args: &mut abi::DeviceAddressableMemories) -> Outcome {
    let memories = &borrow::<DeviceHandle>(args.device)?.memories;
    (args.memories, args.num_memories) = (memories.as_ptr(), memories.len());
    Ok(())
}

pub(crate) fn device_default_memory(args: &mut abi::DeviceDefaultMemory) -> Outcome {
    args.memory = default_memory(args.device)?;
    Ok(())
}

/// The memory of a device that buffers are in unless another is named.
pub(crate) fn default_memory(device: *mut abi::Device) -> Outcome<*mut abi::Memory> {
    memory_of(device, 0)
}

/// The memory of a device of this kind.
pub(crate) fn memory_of(device: *mut abi::Device, kind: usize) -> Outcome<*mut abi::Memory> {
    Ok(borrow::<DeviceHandle>(device)?.memories[kind])
}

/// All devices share the memory of the host: what is in use is that of the process.
pub(crate) fn device_memory_stats(args: &mut abi::DeviceMemoryStats) -> Outcome {
    // The caller's struct is not cleared.
    args.num_allocs_is_set = 0;
    args.largest_alloc_size_is_set = 0;
    args.bytes_limit_is_set = 0;
    args.bytes_reserved_is_set = 0;
    args.peak_bytes_reserved_is_set = 0;
    args.bytes_reservable_limit_is_set = 0;
    args.largest_free_block_bytes_is_set = 0;
    args.pool_bytes_is_set = 0;
    args.peak_pool_bytes_is_set = 0;
    args.bytes_in_use = usage::live_bytes() as i64;
    (args.peak_bytes_in_use, args.peak_bytes_in_use_is_set) = (usage::peak_bytes() as i64, 1);
    Ok(())
}

pub(crate) fn device_clear_memory_stats(_: &mut abi::DeviceClearMemoryStats) -> Outcome {
    usage::restart();
    Ok(())
}

pub(crate) fn device_get_attributes(args: &mut abi::DeviceGetAttributes) -> Outcome {
    unsafe extern "C" fn nothing(_: *mut c_void) {}
    (args.attributes, args.num_attributes) = (std::ptr::NonNull::dangling().as_ptr(), 0);
    args.attributes_deleter = Some(nothing);
    Ok(())
}

fn described<'a>(description: *mut abi::DeviceDescription) -> Outcome<&'a DeviceHandle> {
    borrow::<DeviceHandle>(description.cast())
}

pub(crate) fn device_description_id(args: &mut abi::DeviceDescriptionId) -> Outcome {
    args.id = described(args.device_description)?.id as i32;
    Ok(())
}

pub(crate) fn device_description_process_index(args: &mut abi::DeviceDescriptionProcessIndex) -> Outcome {
    args.process_index = 0;
    Ok(())
}

pub(crate) fn device_description_attributes(args: &mut abi::DeviceDescriptionAttributes) -> Outcome {
    (args.attributes, args.num_attributes) = (std::ptr::NonNull::dangling().as_ptr(), 0);
    Ok(())
}

pub(crate) fn device_description_kind(args: &mut abi::DeviceDescriptionKind) -> Outcome {
    (args.device_kind, args.device_kind_size) = (PLATFORM.as_ptr().cast(), PLATFORM.len());
    Ok(())
}

pub(crate) fn device_description_debug_string(args: &mut abi::DeviceDescriptionDebugString) -> Outcome {
    let name = &described(args.device_description)?.name;
    (args.debug_string, args.debug_string_size) = (name.as_ptr().cast(), name.len());
    Ok(())
}

pub(crate) fn device_description_to_string(args: &mut abi::DeviceDescriptionToString) -> Outcome {
    let name = &described(args.device_description)?.name;
    (args.to_string, args.to_string_size) = (name.as_ptr().cast(), name.len());
    Ok(())
}

pub(crate) fn memory_id(args: &mut abi::MemoryId) -> Outcome {
    args.id = borrow::<MemoryHandle>(args.memory)?.id as i32;
    Ok(())
}

pub(crate) fn memory_kind(args: &mut abi::MemoryKind) -> Outcome {
    let kind = MEMORY_KINDS[borrow::<MemoryHandle>(args.memory)?.kind];
    (args.kind, args.kind_size) = (kind.as_ptr().cast(), kind.len());
    Ok(())
}

pub(crate) fn memory_kind_id(args: &mut abi::MemoryKindId) -> Outcome {
    args.kind_id = borrow::<MemoryHandle>(args.memory)?.kind as i32;
    Ok(())
}

pub(crate) fn memory_debug_string(args: &mut abi::MemoryDebugString) -> Outcome {
    let name = &borrow::<MemoryHandle>(args.memory)?.name;
    (args.debug_string, args.debug_string_size) = (name.as_ptr().cast(), name.len());
    Ok(())
}

pub(crate) fn memory_to_string(args: &mut abi::MemoryToString) -> Outcome {
    let name = &borrow::<MemoryHandle>(args.memory)?.name;
    (args.to_string, args.to_string_size) = (name.as_ptr().cast(), name.len());
    Ok(())
}

pub(crate) fn memory_addressable_by_devices(args: &mut abi::MemoryAddressableByDevices) -> Outcome {
    let devices = &borrow::<MemoryHandle>(args.memory)?.device;
    (args.devices, args.num_devices) = (devices.as_ptr(), devices.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(given: &[(&str, &str)], variables: &[(&str, &str)]) -> Outcome<Settings> {
        let given: Vec<_> = given.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
        Settings::read(&given, |name| variables.iter().find(|(n, _)| *n == name).map(|(_, v)| v.to_string()))
    }

    #[test]
    fn options_come_before_variables() {
        let s = settings(&[("devices", "3")], &[("MESHWORK_DEVICES", "5"), ("MESHWORK_SLOW_MS", "20")]).unwrap();
        assert_eq!((s.devices, s.engine, s.slow), (3, EngineKind::Cpu, Some(Duration::from_millis(20))));
        assert_eq!(settings(&[], &[("MESHWORK_DEVICES", "5")]).unwrap().devices, 5);
    }

    #[test]
    fn wrong_options_are_refused_by_name() {
        let message = |given: &[(&str, &str)]| settings(given, &[]).err().unwrap().message;
        assert_eq!(message(&[("devices", "0")]), "option devices: \"0\" is no number of at least 1");
        assert_eq!(message(&[("engine", "gpu")]), "option engine: \"gpu\" is neither cpu nor evaluator");
        assert_eq!(
            message(&[("device", "2")]),
            "no option \"device\"; there are devices, threads, engine, slow_ms, fallbacks"
        );
        assert_eq!(message(&[("fallbacks", "no")]), "option fallbacks: \"no\" is neither run nor refuse");
    }
}

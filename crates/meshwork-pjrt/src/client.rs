//! A client: the devices of a plugin.

use std::collections::VecDeque;
use std::ffi::{c_char, c_int, c_void};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use meshwork_mesh::sort_by_key;
use meshwork_pjrt_abi::{self as abi, NamedValue, NamedValueData, named};
use meshwork_runtime::MemoryUse;

use crate::event::Event;
use crate::plugin::{PjrtError, Plugin, blank, call, slice, text};
use crate::processes::{self, Store};
use crate::staging::Staging;

/// A value of a client's option.
#[derive(Clone, PartialEq, Debug)]
pub enum OptionValue {
    /// Text.
    Text(String),
    /// A whole number.
    Int(i64),
    /// A number with a fraction.
    Float(f32),
    /// Yes or no.
    Bool(bool),
    /// Whole numbers.
    Ints(Vec<i64>),
}

impl OptionValue {
    /// What a user wrote: `true`, `3`, `0.5`, or text.
    pub fn parse(value: &str) -> OptionValue {
        match (value.parse(), value.parse(), value.parse()) {
            (Ok(yes), ..) => OptionValue::Bool(yes),
            (_, Ok(n), _) => OptionValue::Int(n),
            (_, _, Ok(x)) => OptionValue::Float(x),
            _ => OptionValue::Text(value.into()),
        }
    }
}

/// How arrays get to the devices and back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Transfers {
    /// The plugin reads and writes the memory of arrays.
    #[default]
    Direct,
    /// Large arrays go through pinned memory, where the plugin can pin some.
    Staged,
}

/// The devices of a plugin, and what runs on them.
pub struct Client {
    pub(crate) plugin: Arc<Plugin>,
    pub(crate) client: *mut abi::Client,
    devices: Vec<Device>,
    /// Devices of this and other processes.
    all_devices: usize,
    /// Pinned memory for transfers, made when it is first needed; `None` if it is not to be used or cannot be had.
    staging: OnceLock<Option<Staging>>,
    /// By which the clients of a job find each other; the plugin has its address.
    _store: Option<Box<Store>>,
    platform: String,
    platform_version: String,
    /// Runs that may not have ended, the oldest first.
    running: Mutex<VecDeque<Vec<Event>>>,
}

/// A device of a client, as it describes itself.
#[derive(Clone, Debug)]
pub struct Device {
    pub(crate) device: *mut abi::Device,
    /// Its number among all devices.
    pub id: i64,
    /// What it is, such as `NVIDIA H200`.
    pub kind: String,
    /// The process that it belongs to.
    pub process: i64,
}

// SAFETY: clients and devices can be used from any thread.
unsafe impl Send for Client {}
// SAFETY: as above.
unsafe impl Sync for Client {}

/// Runs that are started ahead of the first one that has not ended. A plugin that queues more of them fills its pool of
/// threads with runs that wait for each other.
const MOST_RUNNING: usize = 16;

impl Client {
    /// Makes a client with these options.
    pub(crate) fn new(
        plugin: &Arc<Plugin>,
        options: &[(String, OptionValue)],
        store: Option<Store>,
        transfers: Transfers,
    ) -> Result<Arc<Client>, PjrtError> {
        let options: Vec<NamedValue> = options.iter().map(|(name, value)| named_value(name, value)).collect();
        let mut args = abi::ClientCreate { create_options: options.as_ptr(), num_options: options.len(), ..blank() };
        let store = store.map(Box::new);
        if let Some(store) = &store {
            let user_arg = (&raw const **store).cast_mut().cast();
            (args.kv_get_user_arg, args.kv_put_user_arg, args.kv_try_get_user_arg) = (user_arg, user_arg, user_arg);
            args.kv_get_callback = processes::get as *mut c_void;
            args.kv_put_callback = processes::put as *mut c_void;
            args.kv_try_get_callback = processes::try_get as *mut c_void;
        }
        let client = call!(plugin, client_create, args)?.client;
        let mut made = Client {
            plugin: plugin.clone(),
            client,
            devices: vec![],
            all_devices: 0,
            staging: OnceLock::new(),
            _store: store,
            platform: String::new(),
            platform_version: String::new(),
            running: Mutex::default(),
        };
        let name = call!(plugin, client_platform_name, abi::ClientPlatformName { client, ..blank() })?;
        made.platform = text(name.platform_name, name.platform_name_size);
        let version = call!(plugin, client_platform_version, abi::ClientPlatformVersion { client, ..blank() })?;
        made.platform_version = text(version.platform_version, version.platform_version_size);
        let own = call!(plugin, client_addressable_devices, abi::ClientAddressableDevices { client, ..blank() })?;
        let own = slice(own.addressable_devices, own.num_addressable_devices);
        made.devices = own.iter().map(|&device| describe(plugin, device)).collect::<Result<_, _>>()?;
        sort_by_key(&mut made.devices, |d| d.id);
        made.all_devices = call!(plugin, client_devices, abi::ClientDevices { client, ..blank() })?.num_devices;
        if transfers == Transfers::Direct {
            let _ = made.staging.set(None);
        }
        Ok(Arc::new(made))
    }

    /// Pinned memory for transfers, if it is used.
    pub(crate) fn staging(&self) -> Option<&Staging> {
        self.staging.get_or_init(|| Staging::new(self)).as_ref()
    }

    /// The plugin.
    pub fn plugin(&self) -> &Plugin {
        &self.plugin
    }

    /// The devices of this process, in order of their numbers.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// How many devices this and other processes have that it runs programs with.
    pub fn all_devices(&self) -> usize {
        self.all_devices
    }

    /// What the plugin calls its devices: `cpu`, `cuda`, `tpu`.
    pub fn platform(&self) -> &str {
        &self.platform
    }

    /// The version of the platform, in its words.
    pub fn platform_version(&self) -> &str {
        &self.platform_version
    }

    /// The memory of a device.
    pub fn memory(&self, device: &Device) -> Result<MemoryUse, PjrtError> {
        let args = abi::DeviceMemoryStats { device: device.device, ..blank() };
        let stats = call!(self.plugin, device_memory_stats, args)?;
        let known = |value: i64, is_set: u8| (is_set != 0).then_some(value);
        Ok(MemoryUse {
            in_use: stats.bytes_in_use,
            peak: known(stats.peak_bytes_in_use, stats.peak_bytes_in_use_is_set),
            limit: known(stats.bytes_limit, stats.bytes_limit_is_set),
        })
    }

    /// The memory of each device; none if the plugin does not tell.
    pub(crate) fn memory_of_all(&self) -> Vec<MemoryUse> {
        self.devices.iter().filter_map(|device| self.memory(device).ok()).collect()
    }

    /// Notes a run, and waits for an earlier one if too many have not ended.
    pub(crate) fn started(&self, run: Vec<Event>) {
        let oldest = {
            let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            running.push_back(run);
            if running.len() > MOST_RUNNING { running.pop_front() } else { None }
        };
        // What went wrong in it is told to whoever reads its results.
        oldest.into_iter().flatten().for_each(|event| drop(event.wait()));
    }

    /// Waits for all runs.
    pub fn wait(&self) {
        let all = std::mem::take(&mut *self.running.lock().unwrap_or_else(PoisonError::into_inner));
        all.into_iter().flatten().for_each(|event| drop(event.wait()));
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.wait();
        if let Some(Some(mut staging)) = self.staging.take() {
            staging.unmap(self);
        }
        let _ = call!(self.plugin, client_destroy, abi::ClientDestroy { client: self.client, ..blank() });
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Client({}, {} devices)", self.platform, self.devices.len())
    }
}

fn describe(plugin: &Plugin, device: *mut abi::Device) -> Result<Device, PjrtError> {
    let args = abi::DeviceGetDescription { device, ..blank() };
    let device_description = call!(plugin, device_get_description, args)?.device_description;
    let id = call!(plugin, device_description_id, abi::DeviceDescriptionId { device_description, ..blank() })?.id;
    let kind = abi::DeviceDescriptionKind { device_description, ..blank() };
    let kind = call!(plugin, device_description_kind, kind)?;
    let process = abi::DeviceDescriptionProcessIndex { device_description, ..blank() };
    let process = call!(plugin, device_description_process_index, process)?.process_index;
    Ok(Device { device, id: id.into(), kind: text(kind.device_kind, kind.device_kind_size), process: process.into() })
}

fn named_value(name: &str, value: &OptionValue) -> NamedValue {
    let (kind, data, value_size): (c_int, NamedValueData, usize) = match value {
        OptionValue::Text(text) => {
            (named::STRING, NamedValueData { string: text.as_ptr().cast::<c_char>() }, text.len())
        }
        &OptionValue::Int(int64) => (named::INT64, NamedValueData { int64 }, 1),
        &OptionValue::Float(float) => (named::FLOAT, NamedValueData { float }, 1),
        &OptionValue::Bool(bool) => (named::BOOL, NamedValueData { bool }, 1),
        OptionValue::Ints(list) => (named::INT64_LIST, NamedValueData { int64_list: list.as_ptr() }, list.len()),
    };
    NamedValue {
        struct_size: size_of::<NamedValue>(),
        name: name.as_ptr().cast::<c_char>(),
        name_size: name.len(),
        kind,
        value: data,
        value_size,
        ..blank()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_have_the_type_that_they_look_like() {
        assert_eq!(OptionValue::parse("true"), OptionValue::Bool(true));
        assert_eq!(OptionValue::parse("8"), OptionValue::Int(8));
        assert_eq!(OptionValue::parse("0.3"), OptionValue::Float(0.3));
        assert_eq!(OptionValue::parse("bfc"), OptionValue::Text("bfc".into()));
    }
}

//! The topology: what is known of a client's devices without using them.

use meshwork_pjrt_abi as abi;

use crate::border::borrow;
use crate::client::{ClientHandle, PLATFORM, VERSION};
use crate::failure::Outcome;

fn client<'a>(topology: *const abi::TopologyDescription) -> Outcome<&'a ClientHandle> {
    borrow::<ClientHandle>(topology.cast_mut().cast())
}

/// It is the client, which stays.
pub(crate) fn topology_destroy(_: &mut abi::TopologyDescriptionDestroy) -> Outcome {
    Ok(())
}

pub(crate) fn topology_platform_name(args: &mut abi::TopologyDescriptionPlatformName) -> Outcome {
    (args.platform_name, args.platform_name_size) = (PLATFORM.as_ptr().cast(), PLATFORM.len());
    Ok(())
}

pub(crate) fn topology_platform_version(args: &mut abi::TopologyDescriptionPlatformVersion) -> Outcome {
    (args.platform_version, args.platform_version_size) = (VERSION.as_ptr().cast(), VERSION.len());
    Ok(())
}

/// Devices are their own descriptions.
pub(crate) fn topology_get_device_descriptions(args: &mut abi::TopologyDescriptionGetDeviceDescriptions) -> Outcome {
    let devices = client(args.topology)?.devices();
    (args.descriptions, args.num_descriptions) = (devices.as_ptr().cast(), devices.len());
    Ok(())
}

pub(crate) fn topology_attributes(args: &mut abi::TopologyDescriptionAttributes) -> Outcome {
    (args.attributes, args.num_attributes) = (std::ptr::NonNull::dangling().as_ptr(), 0);
    Ok(())
}

pub(crate) fn topology_fingerprint(args: &mut abi::TopologyDescriptionFingerprint) -> Outcome {
    args.fingerprint = client(args.topology)?.devices().len() as u64;
    Ok(())
}

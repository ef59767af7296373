//! The extension for layouts: orders of dimensions in memory, as `{1,0}` from minor to major. Row-major is the default.

use std::ffi::c_void;
use std::sync::Arc;

use meshwork_pjrt_abi as abi;

use crate::border::{Handle, borrow, destroy, slot};
use crate::buffer::{BufferHandle, Shape};
use crate::copy::minor_to_major;
use crate::executable::ExecutableHandle;
use crate::failure::{Failure, Outcome};

/// A layout as text.
struct LayoutHandle {
    text: String,
}

impl Handle for LayoutHandle {
    type C = abi::Layout;
}

impl LayoutHandle {
    fn of(order: &[i64]) -> LayoutHandle {
        let order: Vec<String> = order.iter().map(i64::to_string).collect();
        LayoutHandle { text: format!("{{{}}}", order.join(",")) }
    }
}

/// The order that a `mhlo.layout_mode` asks for; `None` if it leaves the choice.
pub(crate) fn asked_order(mode: &str) -> Outcome<Option<Vec<i64>>> {
    if matches!(mode, "default" | "auto") {
        return Ok(None);
    }
    let inner = mode.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let unknown =
        || Failure::unimplemented(format!("the layout {mode:?}: there are only orders of dimensions, as {{0,1}}"));
    let inner = inner.ok_or_else(unknown)?;
    let numbers = inner.split(',').filter(|n| !n.is_empty()).map(|n| n.trim().parse());
    numbers.collect::<Result<_, _>>().map(Some).map_err(|_| unknown())
}

/// Layouts of arguments or results, which callers only borrow.
pub(crate) struct Layouts {
    pointers: Vec<*mut abi::Layout>,
}

impl Layouts {
    pub fn new(shapes: &[Arc<Shape>]) -> Layouts {
        Layouts { pointers: shapes.iter().map(|s| LayoutHandle::of(&s.order).give()).collect() }
    }
}

impl Drop for Layouts {
    fn drop(&mut self) {
        self.pointers.iter().for_each(|&layout| destroy::<LayoutHandle>(layout));
    }
}

fn layout_destroy(args: &mut abi::LayoutDestroy) -> Outcome {
    destroy::<LayoutHandle>(args.layout);
    Ok(())
}

fn layout_serialize(args: &mut abi::LayoutSerialize) -> Outcome {
    unsafe extern "C" fn nothing(_: *mut c_void) {}
    let text = &borrow::<LayoutHandle>(args.layout)?.text;
    (args.serialized_bytes, args.serialized_bytes_size) = (text.as_ptr().cast(), text.len());
    args.serialized_layout = std::ptr::null_mut();
    args.serialized_layout_deleter = Some(nothing);
    Ok(())
}

fn of_client(args: &mut abi::LayoutOfClient) -> Outcome {
    args.layout = LayoutHandle::of(&minor_to_major(args.num_dims)).give();
    Ok(())
}

fn of_topology(args: &mut abi::LayoutOfTopology) -> Outcome {
    args.layout = LayoutHandle::of(&minor_to_major(args.num_dims)).give();
    Ok(())
}

fn of_buffer(args: &mut abi::LayoutOfBuffer) -> Outcome {
    args.layout = LayoutHandle::of(&borrow::<BufferHandle>(args.buffer)?.shape.order).give();
    Ok(())
}

fn of_outputs(args: &mut abi::LayoutsOfExecutable) -> Outcome {
    let layouts = &borrow::<ExecutableHandle>(args.executable)?.output_layouts.pointers;
    (args.layouts, args.num) = (layouts.as_ptr().cast_mut(), layouts.len());
    Ok(())
}

fn of_parameters(args: &mut abi::LayoutsOfExecutable) -> Outcome {
    let layouts = &borrow::<ExecutableHandle>(args.executable)?.input_layouts.pointers;
    (args.layouts, args.num) = (layouts.as_ptr().cast_mut(), layouts.len());
    Ok(())
}

pub(crate) fn extension(next: *mut abi::ExtensionBase) -> abi::LayoutsExtension {
    let base = abi::ExtensionBase { struct_size: size_of::<abi::LayoutsExtension>(), kind: abi::LAYOUTS, next };
    abi::LayoutsExtension {
        base,
        destroy: slot(layout_destroy),
        serialize: slot(layout_serialize),
        client_default: slot(of_client),
        buffer: slot(of_buffer),
        topology_default: slot(of_topology),
        executable_outputs: slot(of_outputs),
        executable_parameters: slot(of_parameters),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_orders_of_dimensions() {
        assert_eq!(asked_order("{0,2,1}"), Ok(Some(vec![0, 2, 1])));
        assert_eq!((asked_order("{}"), asked_order("auto")), (Ok(Some(vec![])), Ok(None)));
        assert!(asked_order("{1,0:T(8,128)}").unwrap_err().message.contains("only orders of dimensions"));
    }
}

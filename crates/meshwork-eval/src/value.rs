//! Run-time values: tensors shared by reference, tokens and tuples, and the meter that counts live bytes.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use super::fault::Fault;
use meshwork_ir::{ElementType, Literal, TensorType};

/// What a program value is at run time. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) enum Val {
    /// A tensor.
    Tensor(Arc<Held>),
    /// Orders side effects; carries nothing.
    Token,
    /// Several values: of a tuple type, or of an asynchronous operation that has been started.
    Tuple(Vec<Val>),
}

/// A literal that a device holds, counted in its [`Meter`] while it lives.
#[derive(Debug)]
pub(crate) struct Held {
    literal: Literal,
    meter: Arc<Meter>,
}

impl Held {
    pub(crate) fn new(literal: Literal, meter: &Arc<Meter>) -> Held {
        meter.add(literal.bytes().len() as i64);
        Held { literal, meter: meter.clone() }
    }
}

impl Deref for Held {
    type Target = Literal;

    fn deref(&self) -> &Literal {
        &self.literal
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.meter.add(-(self.literal.bytes().len() as i64));
    }
}

/// Bytes of live tensors of one device, now and at the peak.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    live: AtomicI64,
    peak: AtomicI64,
}

impl Meter {
    fn add(&self, bytes: i64) {
        let now = self.live.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak.fetch_max(now, Ordering::Relaxed);
    }

    /// The most bytes that were live at once.
    pub(crate) fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed).max(0) as u64
    }
}

impl Val {
    /// A tensor that no device holds yet.
    pub(crate) fn loose(literal: Literal) -> Val {
        Val::Tensor(Arc::new(Held::new(literal, &Arc::default())))
    }

    /// The tensor.
    pub(crate) fn tensor(&self) -> Result<&Literal, Fault> {
        match self {
            Val::Tensor(t) => Ok(t),
            Val::Token => Err(Fault::invalid("a token where a tensor is needed")),
            Val::Tuple(_) => Err(Fault::invalid("a tuple where a tensor is needed")),
        }
    }

    /// Appends all tensors in it, depth first; tokens are left out.
    pub(crate) fn flatten(&self, out: &mut Vec<Literal>) {
        match self {
            Val::Token => {}
            Val::Tuple(parts) => parts.iter().for_each(|part| part.flatten(out)),
            Val::Tensor(held) => out.push(Literal::clone(held)),
        }
    }
}

/// No evaluation makes a tensor larger than this many bytes.
const LARGEST: usize = 1 << 36;

/// From this size on, memory is reserved on trial before a tensor is allocated.
const LARGE: usize = 1 << 28;

/// Bytes of a tensor of type `ty`, or an error if it would not fit in memory: an allocation that fails ends the
/// process, so it must be checked before.
pub(crate) fn check_size(ty: &TensorType) -> Result<usize, Fault> {
    let elements = match ty.num_elements().map(usize::try_from) {
        Some(Ok(n)) => n,
        None if !ty.is_static() => return Err(Fault::unsupported(format!("{ty} has extents that are not known"))),
        None => return Err(Fault::unsupported(format!("{ty} has more than 2^63 - 1 elements"))),
        Some(Err(_)) => return Err(Fault::invalid(format!("{ty} has a negative extent"))),
    };
    match elements.checked_mul(ty.elem.storage_bytes()) {
        Some(n) if n > LARGEST => {
            Err(Fault::unsupported(format!("a {ty} of {n} bytes is more than the {LARGEST} allowed")))
        }
        Some(n) if n >= LARGE && Vec::<u8>::new().try_reserve_exact(n).is_err() => {
            Err(Fault::unsupported(format!("there is no memory for a {ty} of {n} bytes")))
        }
        Some(n) => Ok(n),
        None => Err(Fault::unsupported(format!("{ty} has more than 2^64 - 1 bytes"))),
    }
}

/// A literal of zeros, or an error if it would not reasonably fit in memory.
pub(crate) fn allocate(dims: &[i64], elem: ElementType) -> Result<Literal, Fault> {
    let ty = TensorType::new(dims.iter().copied(), elem);
    let bytes = check_size(&ty)?;
    Literal::from_bytes(dims.iter().copied(), elem, vec![0; bytes])
        .ok_or_else(|| Fault::invalid(format!("{ty} has a negative extent")))
}

/// A literal with every element equal to the one element of `value`.
pub(crate) fn filled(dims: &[i64], value: &Literal) -> Result<Literal, Fault> {
    let mut out = allocate(dims, value.elem())?;
    for i in 0..out.len() {
        out.set_element(i, value.element(0));
    }
    Ok(out)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An `i64` literal.
    pub(crate) fn i64s(dims: &[i64], values: &[i64]) -> Literal {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Literal::from_bytes(dims.iter().copied(), ElementType::I64, bytes).expect("count fits")
    }

    /// An `f64` literal.
    pub(crate) fn f64s(dims: &[i64], values: &[f64]) -> Literal {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Literal::from_bytes(dims.iter().copied(), ElementType::F64, bytes).expect("count fits")
    }

    /// The elements of an `f64` literal.
    pub(crate) fn to_f64s(x: &Literal) -> Vec<f64> {
        x.bytes().chunks_exact(8).map(|c| f64::from_le_bytes(c.try_into().expect("eight bytes"))).collect()
    }

    #[test]
    fn meter_counts_live_bytes() {
        let meter = Arc::new(Meter::default());
        let a = Val::Tensor(Arc::new(Held::new(i64s(&[3], &[1, 2, 3]), &meter)));
        let b = a.clone();
        drop(Held::new(i64s(&[1], &[1]), &meter));
        assert_eq!(meter.peak(), 32);
        drop(a);
        assert_eq!(meter.live.load(Ordering::Relaxed), 24);
        assert_eq!(b.tensor().unwrap(), &i64s(&[3], &[1, 2, 3]));
        drop(b);
        assert_eq!(meter.live.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn absurd_sizes_are_errors() {
        assert!(allocate(&[1 << 40, 1 << 40], ElementType::F32).is_err());
        assert!(allocate(&[1 << 60], ElementType::F32).is_err());
        assert_eq!(allocate(&[0, 1 << 60], ElementType::F32).unwrap().len(), 0);
    }
}

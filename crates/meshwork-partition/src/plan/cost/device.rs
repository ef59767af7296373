//! A device: how long one operation takes by its arithmetic and its memory traffic.

use meshwork_ir::op::{BinaryOp, BodyOp, ContractOp, LinalgOp, UnaryOp};
use meshwork_ir::{ElementType, OpKind};

use super::file::number;

/// Operations that run at a rate of their own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// Matrix products.
    Product,
    /// Convolutions. Without figures of their own they have those of products.
    Convolution,
    /// Arithmetic on single elements that takes an instruction or two.
    Elementwise,
    /// Functions of single elements that take many: exponentials, logarithms, sines, divisions, roots.
    Function,
    /// Reductions and windows.
    Reduction,
    /// Reductions of other dimensions than the last, which add row to row. Without figures of their own they have those of
    /// reductions.
    Columns,
    /// Moving data.
    Movement,
    /// Everything else: sorting, transforms, factorizations.
    Other,
}

impl Class {
    /// All of them.
    pub const ALL: [Class; 8] = [
        Class::Product,
        Class::Convolution,
        Class::Elementwise,
        Class::Function,
        Class::Reduction,
        Class::Columns,
        Class::Movement,
        Class::Other,
    ];

    /// Whether it multiplies and sums up, at the peak of the element type.
    pub fn is_product(self) -> bool {
        matches!(self, Class::Product | Class::Convolution)
    }

    /// Its name in machine files.
    pub fn name(self) -> &'static str {
        match self {
            Class::Product => "product",
            Class::Convolution => "convolution",
            Class::Elementwise => "elementwise",
            Class::Function => "function",
            Class::Reduction => "reduction",
            Class::Columns => "columns",
            Class::Movement => "movement",
            Class::Other => "other",
        }
    }

    /// The class of operations of `kind`.
    pub fn of(kind: OpKind) -> Class {
        match kind {
            OpKind::Contract(ContractOp::DotGeneral | ContractOp::Dot) => Class::Product,
            OpKind::Contract(ContractOp::Convolution) => Class::Convolution,
            OpKind::Unary(f) => match f {
                UnaryOp::Abs
                | UnaryOp::Negate
                | UnaryOp::Not
                | UnaryOp::Sign
                | UnaryOp::Floor
                | UnaryOp::Ceil
                | UnaryOp::Real
                | UnaryOp::Imag
                | UnaryOp::IsFinite => Class::Elementwise,
                _ => Class::Function,
            },
            OpKind::Binary(BinaryOp::Divide | BinaryOp::Power | BinaryOp::Remainder | BinaryOp::Atan2) => {
                Class::Function
            }
            OpKind::Binary(_) | OpKind::Mixed(_) => Class::Elementwise,
            OpKind::Body(BodyOp::Reduce | BodyOp::ReduceWindow) => Class::Reduction,
            OpKind::Movement(_) | OpKind::Source(_) | OpKind::Dynamic(_) => Class::Movement,
            OpKind::Linalg(LinalgOp::BatchNormInference) => Class::Elementwise,
            _ => Class::Other,
        }
    }
}

/// How operations of one class come up to the device's peak: `flops` of them take
/// `microseconds + (flops + half_flops) / (peak · efficiency)`, so one of `half_flops` runs at half the speed of a large one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Curve {
    /// The share of the peak that large operations reach.
    pub efficiency: f64,
    /// Arithmetic operations at which half of that is reached.
    pub half_flops: f64,
    /// Microseconds that each takes however small it is.
    pub microseconds: f64,
}

impl Default for Curve {
    fn default() -> Self {
        Curve { efficiency: 1.0, half_flops: 0.0, microseconds: 0.0 }
    }
}

/// How fast a device computes.
#[derive(Clone, PartialEq, Debug)]
pub struct Device {
    /// Arithmetic operations per second, in units of 10¹², for everything that has no peak of its own.
    pub teraflops: f64,
    /// Bytes read and written per second, in units of 10⁹.
    pub memory_gigabytes_per_second: f64,
    /// 10¹² operations per second of products of an element type.
    pub peaks: Vec<(ElementType, f64)>,
    /// How classes of operations come up to the peak, where they do not reach it at once.
    pub curves: Vec<(Class, Curve)>,
    /// Functions of single elements by their names, and as how many element-wise operations they count.
    pub functions: Vec<(String, f64)>,
    /// How much longer functions take in a loop that has many: their numbers do not fit into registers together. The share that
    /// is added where they are very many; two take half of it.
    pub crowding: f64,
    /// Bytes that an operation touches, ascending, and 10⁹ bytes per second at which it does so: caches. Between two
    /// sizes the speed changes with the logarithm; beyond the last it is that of the memory.
    pub caches: Vec<(f64, f64)>,
    /// Bytes of memory, if known.
    pub capacity: Option<f64>,
}

impl Default for Device {
    /// 2·10¹² operations a second and 200 GB/s: what accelerators sustain in single precision for each link of 50 GB/s
    /// that they have. Choices depend on the ratios, here 40 operations and 4 bytes of memory to a byte sent.
    fn default() -> Self {
        Device::new(2.0, 200.0)
    }
}

impl Device {
    /// A device that reaches its peaks with operations of any size.
    pub fn new(teraflops: f64, memory_gigabytes_per_second: f64) -> Device {
        Device {
            teraflops,
            memory_gigabytes_per_second,
            peaks: vec![],
            curves: vec![],
            functions: vec![],
            crowding: 0.0,
            caches: vec![],
            capacity: None,
        }
    }

    /// A device from its speed in 10¹² operations and its memory's in 10⁹ bytes per second, in digits.
    pub fn parse(teraflops: &str, gigabytes_per_second: &str) -> Result<Device, String> {
        match (number(teraflops), number(gigabytes_per_second)) {
            (Some(teraflops), Some(memory_gigabytes_per_second))
                if teraflops > 0.0 && memory_gigabytes_per_second > 0.0 =>
            {
                Ok(Device::new(teraflops, memory_gigabytes_per_second))
            }
            _ => Err(format!("'{teraflops},{gigabytes_per_second}' is not TFLOPS,GBPS, two positive numbers")),
        }
    }

    /// 10¹² operations per second that operations of `class` on elements of type `elem` reach at most.
    pub fn peak(&self, class: Class, elem: ElementType) -> f64 {
        let own = self.peaks.iter().find(|(ty, _)| class.is_product() && *ty == elem);
        own.map_or(self.teraflops, |&(_, peak)| peak)
    }

    /// The highest of its peaks.
    pub fn best_peak(&self) -> f64 {
        self.peaks.iter().map(|&(_, peak)| peak).fold(self.teraflops, f64::max)
    }

    /// How operations of `class` come up to the peak.
    pub fn curve(&self, class: Class) -> Curve {
        let of = |class: Class| self.curves.iter().find(|(c, _)| *c == class).map(|&(_, curve)| curve);
        let alike = match class {
            Class::Convolution => of(Class::Product),
            Class::Columns => of(Class::Reduction),
            _ => None,
        };
        of(class).or(alike).unwrap_or_default()
    }

    /// Seconds for `flops` operations on `bytes` bytes at the peaks: no operation takes less.
    pub fn seconds(&self, flops: f64, bytes: f64) -> f64 {
        (flops / (self.teraflops * 1e12)).max(bytes / (self.memory_gigabytes_per_second * 1e9))
    }

    /// Seconds for a part of a large operation: `flops` operations on `bytes` bytes at the rates that its class reaches.
    pub fn rate_seconds(&self, class: Class, elem: ElementType, flops: f64, bytes: f64) -> f64 {
        let peak = self.peak(class, elem) * self.curve(class).efficiency;
        (flops / (peak * 1e12)).max(bytes / (self.memory_gigabytes_per_second * 1e9))
    }

    /// Seconds for the arithmetic of an operation of `class` on elements of type `elem`, without the fixed part.
    pub fn arithmetic_seconds(&self, class: Class, elem: ElementType, flops: f64) -> f64 {
        if flops <= 0.0 {
            return 0.0;
        }
        let curve = self.curve(class);
        (flops + curve.half_flops) / (self.peak(class, elem) * curve.efficiency * 1e12)
    }

    /// Seconds for a function of `elements` elements, if it is listed by `name`.
    pub fn function_seconds(&self, name: &str, elem: ElementType, elements: f64) -> Option<f64> {
        let &(_, weight) = self.functions.iter().find(|(known, _)| known == name)?;
        Some(self.arithmetic_seconds(Class::Elementwise, elem, weight * elements))
    }

    /// How many times as long each of `count` functions in one loop takes as one alone.
    pub fn crowded(&self, count: f64) -> f64 {
        1.0 + self.crowding * (1.0 - 1.0 / count.max(1.0))
    }

    /// Seconds to load and store `bytes` bytes in the innermost cache.
    pub fn loaded_seconds(&self, bytes: f64) -> f64 {
        self.caches.first().map_or(0.0, |&(_, speed)| bytes / (speed * 1e9))
    }

    /// Seconds for an operation to read and write `bytes` bytes.
    pub fn memory_seconds(&self, bytes: f64) -> f64 {
        self.shared_memory_seconds(bytes, 1)
    }

    /// The same, if `devices` devices that do it share the caches.
    pub fn shared_memory_seconds(&self, bytes: f64, devices: i64) -> f64 {
        bytes / (self.memory_speed(bytes * devices as f64) * 1e9)
    }

    /// 10⁹ bytes per second at which an operation that touches `bytes` bytes does so.
    fn memory_speed(&self, bytes: f64) -> f64 {
        let next = self.caches.iter().position(|&(size, _)| bytes <= size);
        match next {
            None => self.memory_gigabytes_per_second,
            Some(0) => self.caches[0].1,
            Some(i) => {
                let ((low, slow), (high, fast)) = (self.caches[i - 1], self.caches[i]);
                let share = (bytes / low).ln() / (high / low).ln();
                (slow.ln() + share * (fast.ln() - slow.ln())).exp()
            }
        }
    }

    /// Seconds of an operation by itself.
    pub fn op_seconds(&self, class: Class, elem: ElementType, flops: f64, bytes: f64) -> f64 {
        let fixed = self.curve(class).microseconds * 1e-6;
        fixed + self.arithmetic_seconds(class, elem, flops).max(self.memory_seconds(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_takes_as_long_as_arithmetic_or_memory() {
        let device = Device::new(2.0, 100.0);
        assert_eq!(device.seconds(4e12, 1e9), 2.0);
        assert_eq!(device.seconds(1e9, 300e9), 3.0);
        assert_eq!(device.op_seconds(Class::Product, ElementType::F32, 4e12, 1e9), 2.0);
    }

    #[test]
    fn small_products_are_slower() {
        let mut device = Device::new(1.0, 100.0);
        device.peaks.push((ElementType::BF16, 100.0));
        device.curves.push((Class::Product, Curve { efficiency: 0.5, half_flops: 1e9, microseconds: 4.0 }));
        let seconds = |flops| device.op_seconds(Class::Product, ElementType::BF16, flops, 0.0);
        assert!((seconds(1e9) - (4e-6 + 2.0 * 1e9 / 50e12)).abs() < 1e-12);
        assert!((seconds(1e12) / (1e12 / 50e12) - 1.0).abs() < 2e-3);
        // Only products are fast in bf16, and an operation without arithmetic has no half size.
        assert_eq!(device.op_seconds(Class::Elementwise, ElementType::BF16, 1e12, 0.0), 1.0);
    }

    #[test]
    fn memory_is_faster_in_caches() {
        let mut device = Device::new(1.0, 10.0);
        device.caches = vec![(1e4, 100.0), (1e6, 25.0)];
        let speed = |bytes: f64| (bytes / device.memory_seconds(bytes) / 1e9 * 1e6).round() / 1e6;
        assert_eq!([1e3, 1e4, 1e5, 1e6, 2e6].map(speed), [100.0, 100.0, 50.0, 25.0, 10.0]);
    }
}

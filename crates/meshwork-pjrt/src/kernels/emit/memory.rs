//! Elements of arrays, from and to memory.

use meshwork_ir::ElementType;

use super::super::scalar;
use super::super::writer::{Width, Writer};
use super::{Part, Walk};

impl Walk<'_> {
    /// The number of the first element of row `y` of the tile at position `s`.
    pub(super) fn row(&mut self, s: &str, y: i64) -> String {
        let [_, ny, nx] = self.plan.dims;
        let w = &mut *self.w;
        if ny == 1 {
            return w.set(Width::Single, |r| format!("mul.lo.s32 {r}, {s}, {nx};"));
        }
        let y = w.set(Width::Single, |r| format!("add.s32 {r}, {}, {y};", self.tile.y));
        let y = self.loadable(1, y);
        let w = &mut *self.w;
        let row = w.set(Width::Single, |r| format!("mad.lo.s32 {r}, {s}, {ny}, {y};"));
        w.set(Width::Single, |r| format!("mul.lo.s32 {r}, {row}, {nx};"))
    }

    pub(super) fn address(&mut self, base: &str, row: &str, elem: ElementType, q: usize, size: i64) -> String {
        let x = self.groups[&size][q].0.clone();
        let at = self.w.set(Width::Single, |r| format!("add.s32 {r}, {row}, {x};"));
        self.w.set(Width::Double, |r| format!("mad.wide.s32 {r}, {at}, {}, {base};", elem.storage_bytes()))
    }

    pub(super) fn load_group(&mut self, elem: ElementType, address: &str, into: &[String]) -> Option<()> {
        let kind = memory(elem)?;
        let is_half = kind == "b16";
        let parts: Vec<String> =
            if is_half { into.iter().map(|_| self.w.fresh(Width::Half)).collect() } else { into.to_vec() };
        let (vector, list) = vector(&parts);
        self.w.line(format!("ld.global.nc{vector}.{kind} {list}, [{address}];"));
        for (half, into) in parts.iter().zip(into).filter(|_| is_half) {
            let value = scalar::from_half(self.w, elem, half);
            self.w.line(format!("mov.b32 {into}, {value};"));
        }
        Some(())
    }

    /// One element, as expressions have it.
    pub(super) fn load(&mut self, elem: ElementType, address: &str, offset: i64) -> Option<String> {
        let into = self.w.fresh(kept(elem)?);
        let address = if offset == 0 { address.to_string() } else { format!("{address}+{offset}") };
        self.load_group(elem, &address, std::slice::from_ref(&into))?;
        Some(if elem == ElementType::I1 { self.truth(&into) } else { into })
    }

    pub(super) fn truth(&mut self, kept: &str) -> String {
        self.w.set(Width::Truth, |p| format!("setp.ne.s32 {p}, {kept}, 0;"))
    }

    /// A number as it is kept and stored.
    pub(super) fn keep(&mut self, elem: ElementType, value: String) -> Option<String> {
        if elem == ElementType::I1 {
            return Some(self.w.set(Width::Single, |r| format!("selp.s32 {r}, 1, 0, {value};")));
        }
        if value.starts_with('%') {
            return Some(value);
        }
        let suffix = scalar::suffix(elem)?;
        Some(self.w.set(kept(elem)?, |r| format!("mov.{suffix} {r}, {value};")))
    }

    pub(super) fn store(
        &mut self,
        array: usize,
        elem: ElementType,
        row: &str,
        m: i64,
        values: &[String],
    ) -> Option<()> {
        let size = self.group(elem);
        let kind = memory(elem)?;
        let exists = (self.part == Part::Anywhere && self.plan.rows > 1).then(|| {
            let y = self.w.set(Width::Single, |r| format!("add.s32 {r}, {}, {m};", self.tile.y));
            self.w.set(Width::Truth, |p| format!("setp.lt.s32 {p}, {y}, {};", self.plan.dims[1]))
        });
        for (q, values) in values.chunks(size as usize).enumerate() {
            // A lane that stores nothing may have an address outside of the array.
            let address = self.address(&self.args.to[array].clone(), row, elem, q, size);
            let mut stores = self.groups[&size][q].1.clone();
            if let Some(exists) = &exists {
                stores = self.w.set(Width::Truth, |p| format!("and.pred {p}, {stores}, {exists};"));
            }
            let half =
                |w: &mut Writer, v: &String| w.set(Width::Half, |h| format!("cvt.rn.{}.f32 {h}, {v};", elem.text()));
            let parts: Vec<String> = match kind {
                "b16" => values.iter().map(|v| half(self.w, v)).collect(),
                _ => values.to_vec(),
            };
            let (vector, list) = vector(&parts);
            self.w.line(format!("@{stores} st.global{vector}.{kind} [{address}], {list};"));
        }
        Some(())
    }
}

/// The register in which an element is kept between levels.
pub(super) fn kept(elem: ElementType) -> Option<Width> {
    let width = scalar::width(elem)?;
    Some(if width == Width::Truth { Width::Single } else { width })
}

/// The type of an element in memory.
fn memory(elem: ElementType) -> Option<&'static str> {
    use ElementType::*;
    Some(match elem {
        F32 | I32 | UI32 => "b32",
        F64 | I64 | UI64 => "b64",
        BF16 | F16 => "b16",
        I1 | UI8 => "u8",
        I8 => "s8",
        I16 => "s16",
        UI16 => "u16",
        _ => return None,
    })
}

/// How several registers are loaded or stored at once.
fn vector(parts: &[String]) -> (String, String) {
    match parts {
        [one] => (String::new(), one.clone()),
        _ => (format!(".v{}", parts.len()), format!("{{{}}}", parts.join(", "))),
    }
}

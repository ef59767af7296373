//! Kernel bodies as text, one operation a line.

use std::fmt;

use super::ir::{Access, Body, Extent, Op, Ty};

impl fmt::Display for Ty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Ty::Pred => "pred",
            other => other.elem().text(),
        })
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lower = |x: &dyn fmt::Debug| format!("{x:?}").to_lowercase();
        match *self {
            Op::Const(Ty::F32, bits) => write!(f, "const f32 {:?}", f32::from_bits(bits as u32)),
            Op::Const(Ty::F64, bits) => write!(f, "const f64 {:?}", f64::from_bits(bits)),
            Op::Const(ty, bits) if ty.is_signed() => {
                let unused = 64 - 8 * ty.size() as u32;
                write!(f, "const {ty} {}", (bits as i64) << unused >> unused)
            }
            Op::Const(ty, bits) => write!(f, "const {ty} {bits}"),
            Op::Load(arg) => write!(f, "load a{arg}"),
            Op::LoadAt(arg, a) => write!(f, "load a{arg} at %{a}"),
            Op::LoadTemp(temp, ty) => write!(f, "load t{temp} {ty}"),
            Op::Scalar(scalar, ty) => write!(f, "scalar s{scalar} {ty}"),
            Op::Index(dim, ty) => write!(f, "index {dim} {ty}"),
            Op::Unary(k, a) => write!(f, "{} %{a}", lower(&k)),
            Op::Binary(k, a, b) => write!(f, "{} %{a} %{b}", lower(&k)),
            Op::Compare(k, a, b) => write!(f, "{} %{a} %{b}", lower(&k)),
            Op::Select(p, a, b) => write!(f, "select %{p} %{a} %{b}"),
            Op::MulAdd(a, b, c) => write!(f, "muladd %{a} %{b} %{c}"),
            Op::Far(k, a, b) => write!(f, "far {} %{a} %{b}", lower(&k)),
            Op::FarApart(k, a, b, c) => write!(f, "far {} %{a} %{b} %{c}", lower(&k)),
            Op::Convert(ty, a) => write!(f, "convert {ty} %{a}"),
            Op::Bitcast(ty, a) => write!(f, "bitcast {ty} %{a}"),
            Op::Round(elem, a) => write!(f, "round {elem} %{a}"),
            Op::Store(arg, a) => write!(f, "store a{arg} %{a}"),
            Op::StoreAt(arg, a, b) => write!(f, "store a{arg} at %{a} %{b}"),
            Op::StoreTemp(temp, a) => write!(f, "store t{temp} %{a}"),
            Op::SetScalar(scalar, a) => write!(f, "set s{scalar} %{a}"),
            Op::Reduce(k, scalar, a) => write!(f, "reduce {} s{scalar} %{a}", lower(&k)),
        }
    }
}

impl fmt::Display for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, a) in self.args.iter().enumerate() {
            let access = match a.access {
                Access::Unit => "unit",
                Access::Listed => "listed",
                Access::Zero => "zero",
                Access::Fixed => "fixed",
                Access::Pair => "pair",
                Access::Triple => "triple",
                Access::Strided => "strided",
            };
            writeln!(f, "a{i}: {} {access}{}", a.elem, if a.output { " out" } else { "" })?;
        }
        for (i, t) in self.temps.iter().enumerate() {
            writeln!(f, "t{i}: {t}")?;
        }
        for (i, phase) in self.phases.iter().enumerate() {
            let extent = match phase.extent {
                Extent::Row => "row",
                Extent::Once => "once",
            };
            writeln!(f, "phase {i} {extent}")?;
            for (at, op) in phase.ops.iter().enumerate() {
                if op.is_effect() {
                    writeln!(f, "  {op}")?;
                } else {
                    writeln!(f, "  %{at} = {op}")?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::ir::*;
    use meshwork_ir::ElementType;

    #[test]
    fn a_body_as_text() {
        let arg = |elem, access, output| Arg { elem, access, output };
        let body = Body {
            args: vec![
                arg(ElementType::F32, Access::Unit, false),
                arg(ElementType::BF16, Access::Zero, false),
                arg(ElementType::I1, Access::Strided, true),
            ],
            temps: vec![Ty::I8],
            scalars: 1,
            phases: vec![
                Phase {
                    extent: Extent::Row,
                    ops: vec![
                        Op::Load(0),
                        Op::Const(Ty::F32, f64::to_bits(0.0) | u64::from(1.5f32.to_bits())),
                        Op::Compare(Cmp::Lt, 0, 1),
                        Op::Store(2, 2),
                        Op::Const(Ty::I8, 0xFF),
                        Op::StoreTemp(0, 4),
                        Op::Reduce(Combine::Max, 0, 0),
                    ],
                },
                Phase {
                    extent: Extent::Once,
                    ops: vec![Op::Scalar(0, Ty::F32), Op::MulAdd(0, 0, 0), Op::SetScalar(0, 1)],
                },
            ],
        };
        let want = "\
a0: f32 unit
a1: bf16 zero
a2: i1 strided out
t0: i8
phase 0 row
  %0 = load a0
  %1 = const f32 1.5
  %2 = lt %0 %1
  store a2 %2
  %4 = const i8 -1
  store t0 %4
  reduce max s0 %0
phase 1 once
  %0 = scalar s0 f32
  %1 = muladd %0 %0 %0
  set s0 %1
";
        assert_eq!(body.to_string(), want);
    }
}

//! Attributes, locations and types of MLIR itself.

use std::sync::Arc;

use super::cursor::{Cursor, Read, unsupported};
use super::dense;
use super::table::{Piece, Table};
use crate::{Attr, Dense, DenseData, ElementType, FunctionType, Loc, LocKind, TensorType, Type};

impl<'a> Table<'a> {
    pub(super) fn builtin_attr(&mut self, c: &mut Cursor<'a>) -> Read<Piece> {
        let at = c.at();
        let attr = match c.varint()? {
            0 => Attr::Array(c.list(|c| self.next_attr(c))?.into()),
            1 => self.next_dict(c)?,
            2 => self.next_string(c)?,
            3 => {
                let text = self.next_string(c)?;
                Attr::Opaque(format!("{text} : {}", self.next_type(c)?).into())
            }
            4 => Attr::Symbol(self.next_string_attr(c)?.as_ref().into()),
            5 => {
                let mut symbol = self.next_string_attr(c)?.to_string();
                for _ in 0..c.count()? {
                    match self.next_attr(c)? {
                        Attr::Symbol(inner) => symbol.extend(["::@", &inner]),
                        other => return Err(c.error(format_args!("expected a symbol, found {other}"))),
                    }
                }
                Attr::Symbol(symbol.into())
            }
            6 => Attr::Type(self.next_type(c)?),
            7 => Attr::Unit,
            8 | 9 => match self.next_type(c)? {
                Type::Scalar(elem) => dense::number(c, elem)?,
                other => return Err(unsupported(at, format_args!("a number of type {other}"))),
            },
            code @ (10..=15 | 22) => return Ok(Piece::Loc(self.loc(code, c)?)),
            16 => {
                let ty = self.next_type(c)?;
                let resource = self.next_resource(c)?;
                let Type::Tensor(ty) = ty else { return Err(c.error(format_args!("elements of type {ty}"))) };
                let data = match resource.bytes {
                    None => DenseData::Resource(resource.name.into()),
                    Some(bytes) => DenseData::from_raw(bytes, &ty).ok_or_else(|| {
                        let (name, size) = (resource.name, bytes.len());
                        c.error(format_args!("the {size} bytes of resource '{name}' do not make a {ty}"))
                    })?,
                };
                Attr::Dense(Arc::new(Dense { ty, data }))
            }
            17 => {
                let Type::Scalar(elem) = self.next_type(c)? else { return Err(c.error("an array of no numbers")) };
                let count = c.index()?;
                let bytes = c.blob()?;
                dense::array(c, elem, count, bytes)?
            }
            18 => {
                let ty = self.next_type(c)?;
                dense::dense(c, &ty)?
            }
            code => return Err(unsupported(at, format_args!("builtin attribute {code}"))),
        };
        Ok(Piece::Attr(attr))
    }

    fn loc(&mut self, code: u64, c: &mut Cursor<'a>) -> Read<Loc> {
        let place = |c: &Cursor<'_>, n: u64| u32::try_from(n).map_err(|_| c.error(format_args!("line or column {n}")));
        Ok(match code {
            10 => LocKind::CallSite { callee: self.next_loc(c)?, caller: self.next_loc(c)? }.into(),
            11 => {
                let file = self.next_string_attr(c)?;
                let (line, col) = (c.varint()?, c.varint()?);
                LocKind::File { file, line: place(c, line)?, col: place(c, col)?, to: None }.into()
            }
            12 => LocKind::Fused(c.list(|c| self.next_loc(c))?, None).into(),
            13 => {
                let parts = c.list(|c| self.next_loc(c))?;
                LocKind::Fused(parts, Some(self.next_attr(c)?.to_string().into())).into()
            }
            14 => {
                let name = self.next_string_attr(c)?;
                LocKind::Name { name, child: Some(self.next_loc(c)?).filter(Loc::is_known) }.into()
            }
            15 => Loc::Unknown,
            // A range: line, column, and the end, of which the line is left out where it is the same.
            _ => {
                let file = self.next_string_attr(c)?;
                let numbers = c.list(|c| {
                    let n = c.varint()?;
                    place(c, n)
                })?;
                let (line, col, to) = match numbers[..] {
                    [] => (0, 0, None),
                    [line] => (line, 0, None),
                    [line, col] => (line, col, None),
                    [line, col, end] => (line, col, Some((line, end))),
                    [line, col, end_line, end] => (line, col, Some((end_line, end))),
                    _ => return Err(c.error("a range of more than four numbers")),
                };
                LocKind::File { file, line, col, to }.into()
            }
        })
    }

    pub(super) fn builtin_type(&mut self, c: &mut Cursor<'a>) -> Read<Type> {
        let at = c.at();
        Ok(match c.varint()? {
            0 => {
                let raw = c.varint()?;
                let sign = match raw & 3 {
                    0 => "",
                    1 => "s",
                    2 => "u",
                    _ => return Err(c.error("an integer type that is signed and unsigned")),
                };
                let text = format!("{sign}i{}", raw >> 2);
                ElementType::from_text(&text).map_or(Type::Opaque(text.into()), Type::Scalar)
            }
            1 => Type::Scalar(ElementType::Index),
            2 => {
                let (inputs, results) = (self.next_types(c)?, self.next_types(c)?);
                Type::Function(Arc::new(FunctionType { inputs, results }))
            }
            3 => Type::Scalar(ElementType::BF16),
            4 => Type::Scalar(ElementType::F16),
            5 => Type::Scalar(ElementType::F32),
            6 => Type::Scalar(ElementType::F64),
            7 => Type::Opaque("f80".into()),
            8 => Type::Opaque("f128".into()),
            9 => complex(&self.next_type(c)?),
            12 => Type::None,
            13 => self.tensor(c, None)?,
            14 => {
                let encoding = self.next_attr(c)?;
                self.tensor(c, Some(encoding))?
            }
            15 => Type::Tuple(self.next_types(c)?.into()),
            18 => Type::Opaque(format!("tensor<*x{}>", self.next_type(c)?).into()),
            code => return Err(unsupported(at, format_args!("builtin type {code}"))),
        })
    }

    /// Extents and element type of a tensor.
    pub(super) fn tensor(&mut self, c: &mut Cursor<'a>, encoding: Option<Attr>) -> Read<Type> {
        let dims = c.signed_list()?;
        if let Some(bad) = dims.iter().find(|&&d| d < 0 && d != crate::DYNAMIC) {
            return Err(c.error(format_args!("an extent of {bad}")));
        }
        let elem = self.next_type(c)?;
        let encoding = encoding.map(|attr| attr.to_string().into());
        Ok(match elem {
            Type::Scalar(elem) => TensorType { dims: dims.into_iter().collect(), elem, encoding }.into(),
            other => {
                let dims = dims.iter().map(|d| if *d == crate::DYNAMIC { "?x".into() } else { format!("{d}x") });
                let dims: String = dims.collect();
                let encoding = encoding.map_or(String::new(), |text| format!(", {text}"));
                Type::Opaque(format!("tensor<{dims}{other}{encoding}>").into())
            }
        })
    }
}

/// `complex<part>`.
pub(super) fn complex(part: &Type) -> Type {
    let text = format!("complex<{part}>");
    ElementType::from_text(&text).map_or(Type::Opaque(text.into()), Type::Scalar)
}

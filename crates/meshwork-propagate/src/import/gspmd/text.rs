//! The text of a GSPMD sharding.
//!
//! ```text
//! {replicated}  {manual}  {unreduced}  {maximal device=3}
//! {devices=[2,4]<=[8]}                                        tiles in device order
//! {devices=[4,2]<=[2,4]T(1,0)}                                in the order of a transposed grid
//! {devices=[2,2]0,2,1,3}                                      in an order that is listed
//! {devices=[2,1,4]<=[8] last_tile_dim_replicate}              four copies of each tile
//! {devices=[1,2,4]<=[8] last_tile_dims={manual, replicated}}  what the last dimensions of the grid are for
//! {{replicated}, {manual}}                                    one for each of several results
//! ```

/// A sharding as it is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Text {
    /// A copy on every device.
    Replicated,
    /// What each device holds is its own.
    Manual,
    /// Parts on all devices that add up.
    Unreduced,
    /// On one device.
    Maximal(i64),
    /// Tiles on a grid of devices.
    Tiled(Grid),
    /// One for each of several values.
    Tuple(Vec<Text>),
}

/// A grid of devices: its first dimensions split those of the value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grid {
    /// Extents of the grid.
    pub dims: Vec<i64>,
    /// Which device stands where.
    pub order: Order,
    /// What the last dimensions are for.
    pub last: Vec<Use>,
}

/// The devices of a grid, row by row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Order {
    /// All devices in order, as an array of these extents, transposed.
    Iota(Vec<i64>, Vec<usize>),
    /// As listed.
    List(Vec<i64>),
}

/// What a dimension of a grid is for that does not split the value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// Copies.
    Replicated,
    /// Each device has its own.
    Manual,
    /// Parts that add up.
    Unreduced,
}

/// Reads a sharding; `None` if it is not one that is known.
pub fn parse(text: &str) -> Option<Text> {
    let mut cursor = Cursor { rest: text.trim() };
    let read = cursor.sharding()?;
    cursor.rest.is_empty().then_some(read)
}

/// The list of integers after `name=` in the configuration of a custom call.
pub fn listed(config: &str, name: &str) -> Option<Vec<i64>> {
    let at = config.find(&format!("{name}="))?;
    Cursor { rest: &config[at + name.len() + 1..] }.bracketed('[', ']')
}

struct Cursor<'a> {
    rest: &'a str,
}

impl Cursor<'_> {
    fn eat(&mut self, token: &str) -> bool {
        let rest = self.rest.trim_start().strip_prefix(token);
        rest.map(|rest| self.rest = rest).is_some()
    }

    fn expect(&mut self, token: &str) -> Option<()> {
        self.eat(token).then_some(())
    }

    fn number(&mut self) -> Option<i64> {
        let rest = self.rest.trim_start();
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let number = rest[..end].parse().ok()?;
        self.rest = &rest[end..];
        Some(number)
    }

    fn numbers(&mut self) -> Option<Vec<i64>> {
        let mut out = vec![self.number()?];
        while self.eat(",") {
            out.push(self.number()?);
        }
        Some(out)
    }

    fn bracketed(&mut self, open: char, close: char) -> Option<Vec<i64>> {
        self.expect(open.encode_utf8(&mut [0; 4]))?;
        let out = self.numbers()?;
        self.expect(close.encode_utf8(&mut [0; 4]))?;
        Some(out)
    }

    fn sharding(&mut self) -> Option<Text> {
        self.expect("{")?;
        if self.rest.trim_start().starts_with('{') {
            let mut all = vec![self.sharding()?];
            while self.eat(",") {
                all.push(self.sharding()?);
            }
            self.expect("}")?;
            return Some(Text::Tuple(all));
        }
        let read = if self.eat("replicated") {
            Text::Replicated
        } else if self.eat("manual") {
            Text::Manual
        } else if self.eat("unreduced") {
            Text::Unreduced
        } else if self.eat("maximal") {
            self.expect("device=")?;
            Text::Maximal(self.number()?)
        } else if self.eat("devices=") {
            Text::Tiled(self.grid()?)
        } else {
            return None;
        };
        self.metadata()?;
        self.expect("}")?;
        Some(read)
    }

    fn grid(&mut self) -> Option<Grid> {
        let dims = self.bracketed('[', ']')?;
        let order = if self.eat("<=") {
            let extents = self.bracketed('[', ']')?;
            let transposed =
                if self.eat("T") { self.bracketed('(', ')')? } else { (0..extents.len() as i64).collect() };
            Order::Iota(extents, transposed.into_iter().map(|d| d as usize).collect())
        } else {
            Order::List(self.numbers()?)
        };
        let last = if self.eat("last_tile_dim_replicate") {
            vec![Use::Replicated]
        } else if self.eat("last_tile_dims={") {
            self.uses()?
        } else {
            vec![]
        };
        let grid = Grid { dims, order, last };
        grid.is_consistent().then_some(grid)
    }

    fn uses(&mut self) -> Option<Vec<Use>> {
        let mut out = vec![];
        while !self.eat("}") {
            if !out.is_empty() {
                self.expect(",")?;
            }
            out.push(if self.eat("replicated") {
                Use::Replicated
            } else if self.eat("manual") {
                Use::Manual
            } else if self.eat("unreduced") {
                Use::Unreduced
            } else {
                return None;
            });
        }
        Some(out)
    }

    /// Skips where the sharding came from.
    fn metadata(&mut self) -> Option<()> {
        if !self.eat("metadata={") {
            return Some(());
        }
        let mut depth = 1;
        let end = self.rest.find(|c| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            depth == 0
        })?;
        self.rest = &self.rest[end + 1..];
        Some(())
    }
}

impl Grid {
    /// Number of devices, if it is one.
    pub fn devices(&self) -> Option<i64> {
        product(&self.dims)
    }

    /// Whether each device stands somewhere once.
    fn is_consistent(&self) -> bool {
        let Some(devices) = self.devices() else { return false };
        if self.last.len() > self.dims.len() {
            return false;
        }
        let mut seen: Vec<i64> = match &self.order {
            Order::Iota(extents, transposed) => {
                let mut sorted = transposed.clone();
                sorted.sort_unstable();
                return product(extents) == Some(devices) && sorted.into_iter().eq(0..extents.len());
            }
            Order::List(list) => list.clone(),
        };
        seen.sort_unstable();
        seen.into_iter().eq(0..devices)
    }
}

fn product(extents: &[i64]) -> Option<i64> {
    let positive = extents.iter().all(|&n| n > 0);
    extents.iter().try_fold(1i64, |n, &m| n.checked_mul(m)).filter(|&n| positive && n <= MAX_DEVICES)
}

/// More devices than any mesh has.
const MAX_DEVICES: i64 = 1 << 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(dims: &[i64], order: Order, last: &[Use]) -> Option<Text> {
        Some(Text::Tiled(Grid { dims: dims.to_vec(), order, last: last.to_vec() }))
    }

    #[test]
    fn every_form_is_read() {
        let iota = |n: &[i64], t: &[usize]| Order::Iota(n.to_vec(), t.to_vec());
        assert_eq!(parse("{replicated}"), Some(Text::Replicated));
        assert_eq!(parse(" {manual} "), Some(Text::Manual));
        assert_eq!(parse("{unreduced}"), Some(Text::Unreduced));
        assert_eq!(parse("{maximal device=3}"), Some(Text::Maximal(3)));
        assert_eq!(parse("{devices=[2,4]<=[8]}"), grid(&[2, 4], iota(&[8], &[0]), &[]));
        assert_eq!(parse("{devices=[2,4]<=[4,2]T(1,0)}"), grid(&[2, 4], iota(&[4, 2], &[1, 0]), &[]));
        assert_eq!(parse("{devices=[2,2]0,2,1,3}"), grid(&[2, 2], Order::List(vec![0, 2, 1, 3]), &[]));
        let copies = grid(&[2, 1, 4], iota(&[8], &[0]), &[Use::Replicated]);
        assert_eq!(parse("{devices=[2,1,4]<=[8] last_tile_dim_replicate}"), copies);
        let both = grid(&[1, 2, 4], iota(&[8], &[0]), &[Use::Manual, Use::Replicated]);
        assert_eq!(parse("{devices=[1,2,4]<=[8] last_tile_dims={manual, replicated}}"), both);
        let tuple = Text::Tuple(vec![Text::Replicated, Text::Manual]);
        assert_eq!(parse("{{replicated}, {manual}}"), Some(tuple));
        let named = r#"{devices=[2]<=[2] metadata={op_name="a{b}c"}}"#;
        assert_eq!(parse(named), grid(&[2], iota(&[2], &[0]), &[]));
    }

    #[test]
    fn what_is_not_a_sharding_is_refused() {
        for text in [
            "",
            "{",
            "{replicated",
            "{replicated} x",
            "{devices=[2,2]0,1,2}",
            "{devices=[2,2]0,1,2,2}",
            "{devices=[2,2]<=[8]}",
            "{devices=[2,4]<=[4,2]T(1,1)}",
            "{devices=[0]<=[0]}",
            "{devices=[2]<=[2] last_tile_dims={manual, replicated}}",
            "{devices=[2]<=[2] shard_as 1}",
            "{devices=[99999999999,99999999999]<=[4]}",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn lists_in_configurations() {
        assert_eq!(listed("unspecified_dims=[0,2]", "unspecified_dims"), Some(vec![0, 2]));
        assert_eq!(listed("", "unspecified_dims"), None);
    }
}

//! Grids of devices as digits of the device number, and the mesh whose axes they are.
//!
//! A device number is written in mixed radix: a digit of size `n` and stride `s` is `(device / s) % n`. Each dimension of
//! a grid is a list of such digits. The mesh has an axis for every piece between neighboring strides that occur anywhere.

use meshwork_mesh::{AxisRef, Mesh, MeshError};

use super::text::{Grid, Order};

/// A digit of the device number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Digit {
    pub stride: i64,
    pub size: i64,
}

/// The digits of each dimension of `grid`, major to minor; `None` if its order is not one of digits.
pub fn digits(grid: &Grid) -> Option<Vec<Vec<Digit>>> {
    match &grid.order {
        Order::Iota(extents, transposed) => cut(order_of(extents, transposed), &grid.dims),
        Order::List(list) => of_list(list, &grid.dims),
    }
}

/// The digits of an array of all devices with these extents, in the order of its transposed dimensions.
fn order_of(extents: &[i64], transposed: &[usize]) -> Vec<Digit> {
    let mut stride = extents.iter().product::<i64>();
    let strides = extents.iter().map(|&size| {
        stride /= size;
        Digit { stride, size }
    });
    let all: Vec<Digit> = strides.collect();
    transposed.iter().map(|&d| all[d]).collect()
}

/// Cuts a list of digits into dimensions of these extents.
fn cut(mut order: Vec<Digit>, dims: &[i64]) -> Option<Vec<Vec<Digit>>> {
    let mut out = vec![];
    for &extent in dims.iter().rev() {
        let (mut left, mut own) = (extent, vec![]);
        while left > 1 {
            let digit = order.pop()?;
            if left % digit.size == 0 {
                own.push(digit);
                left /= digit.size;
            } else if digit.size % left == 0 {
                own.push(Digit { size: left, ..digit });
                order.push(Digit { stride: digit.stride * left, size: digit.size / left });
                left = 1;
            } else {
                return None;
            }
        }
        own.retain(|d| d.size > 1);
        own.reverse();
        out.push(own);
    }
    out.reverse();
    Some(out)
}

/// The digits of a grid whose devices are listed row by row.
fn of_list(list: &[i64], dims: &[i64]) -> Option<Vec<Vec<Digit>>> {
    let mut step = list.len();
    let mut out = vec![];
    for &extent in dims {
        step /= extent as usize;
        let line: Vec<i64> = (0..extent as usize).map(|i| list[i * step]).collect();
        out.push(of_line(&line)?);
    }
    // Numbers are sums over the dimensions, or else a dimension alone does not tell.
    let number = |mut at: usize| {
        let mut sum = 0;
        for (extent, digits) in dims.iter().zip(&out).rev() {
            sum += value(digits, at as i64 % extent);
            at /= *extent as usize;
        }
        sum
    };
    (0..list.len()).all(|at| number(at) == list[at]).then_some(out)
}

/// The digits, major to minor, whose value at `i` is `line[i]`.
fn of_line(line: &[i64]) -> Option<Vec<Digit>> {
    if line[0] != 0 {
        return None;
    }
    let (mut digits, mut step) = (vec![], 1);
    while step < line.len() {
        let (stride, left) = (line[step], line.len() / step);
        let run = (1..left).take_while(|&i| line[i * step] == stride * i as i64).count() + 1;
        let size = (1..=run).rev().find(|&n| left.is_multiple_of(n))?;
        if size == 1 || stride <= 0 {
            return None;
        }
        digits.insert(0, Digit { stride, size: size as i64 });
        step *= size;
    }
    (0..line.len()).all(|i| value(&digits, i as i64) == line[i]).then_some(digits)
}

/// The part of the device number at `index` along a dimension of these digits.
fn value(digits: &[Digit], mut index: i64) -> i64 {
    let mut sum = 0;
    for digit in digits.iter().rev() {
        sum += index % digit.size * digit.stride;
        index /= digit.size;
    }
    sum
}

/// Where digits start and end: the cuts of the device number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cuts {
    /// Each divides the next; the first is 1, the last the number of devices.
    cuts: Vec<i64>,
}

impl Cuts {
    /// No cuts but the ends.
    pub fn new(devices: i64) -> Cuts {
        let mut cuts = vec![1, devices];
        cuts.dedup();
        Cuts { cuts }
    }

    /// The number of devices.
    pub fn devices(&self) -> i64 {
        self.cuts[self.cuts.len() - 1]
    }

    /// Adds the cuts of `digits`; false, and no change, if no mesh has all of them.
    pub fn add(&mut self, digits: &[Vec<Digit>]) -> bool {
        let mut cuts = self.cuts.clone();
        cuts.extend(digits.iter().flatten().flat_map(|d| [d.stride, d.stride * d.size]));
        cuts.sort_unstable();
        cuts.dedup();
        let fits = cuts.windows(2).all(|w| w[1] % w[0] == 0) && cuts[cuts.len() - 1] == self.devices();
        if fits {
            self.cuts = cuts;
        }
        fits
    }

    /// The mesh with an axis for each piece.
    pub fn mesh(&self) -> Result<Mesh, MeshError> {
        let sizes = self.cuts.windows(2).rev().map(|w| w[1] / w[0]).enumerate();
        Mesh::new(sizes.map(|(i, size)| (name(i), size)))
    }

    /// All axes.
    pub fn all(&self) -> Vec<AxisRef> {
        (0..self.cuts.len() - 1).map(|i| AxisRef::full(name(i))).collect()
    }

    /// The axes that `digits` are, major to minor.
    pub fn axes(&self, digits: &[Digit]) -> Vec<AxisRef> {
        let last = self.cuts.len() - 1;
        let inside = |d: &Digit| {
            let (from, to) = (d.stride, d.stride * d.size);
            (0..last).rev().filter(move |&i| self.cuts[i] >= from && self.cuts[i + 1] <= to)
        };
        digits.iter().flat_map(inside).map(|i| AxisRef::full(name(last - 1 - i))).collect()
    }
}

fn name(axis: usize) -> String {
    format!("axis_{axis}")
}

#[cfg(test)]
mod tests {
    use super::super::text::{Text, parse};
    use super::*;

    fn of(text: &str) -> Option<Vec<Vec<Digit>>> {
        let Some(Text::Tiled(grid)) = parse(text) else { panic!("{text}") };
        digits(&grid)
    }

    fn at(stride: i64, size: i64) -> Digit {
        Digit { stride, size }
    }

    #[test]
    fn iotas_and_lists_have_the_same_digits() {
        for (iota, list, want) in [
            ("{devices=[2,4]<=[8]}", "{devices=[2,4]0,1,2,3,4,5,6,7}", vec![vec![at(4, 2)], vec![at(1, 4)]]),
            ("{devices=[2,4]<=[4,2]T(1,0)}", "{devices=[2,4]0,2,4,6,1,3,5,7}", vec![vec![at(1, 2)], vec![at(2, 4)]]),
            (
                "{devices=[4,2]<=[2,2,2]T(2,0,1)}",
                "{devices=[4,2]0,2,4,6,1,3,5,7}",
                vec![vec![at(1, 2), at(4, 2)], vec![at(2, 2)]],
            ),
            ("{devices=[3,2]<=[6]}", "{devices=[3,2]0,1,2,3,4,5}", vec![vec![at(2, 3)], vec![at(1, 2)]]),
        ] {
            assert_eq!(of(iota).as_ref(), Some(&want), "{iota}");
            assert_eq!(of(list), Some(want), "{list}");
        }
    }

    #[test]
    fn orders_that_are_not_digits_are_refused() {
        assert_eq!(of("{devices=[2,2]0,1,3,2}"), None);
        assert_eq!(of("{devices=[4]1,2,3,0}"), None);
        assert_eq!(of("{devices=[3,2]<=[2,3]T(1,0)}"), Some(vec![vec![at(1, 3)], vec![at(3, 2)]]));
        assert_eq!(of("{devices=[2,3]<=[2,3]T(1,0)}"), None);
    }

    #[test]
    fn a_mesh_has_an_axis_between_neighboring_cuts() {
        let mut cuts = Cuts::new(8);
        let rows = of("{devices=[4,2]<=[8]}").unwrap();
        assert!(cuts.add(&of("{devices=[2,4]<=[8]}").unwrap()));
        assert!(cuts.add(&rows));
        let axes: Vec<(String, i64)> =
            cuts.mesh().unwrap().axes().iter().map(|a| (a.name.to_string(), a.size)).collect();
        assert_eq!(axes, [("axis_0".into(), 2), ("axis_1".into(), 2), ("axis_2".into(), 2)]);
        assert_eq!(cuts.axes(&rows[0]), ["axis_0", "axis_1"].map(AxisRef::full));
        let mut six = Cuts::new(6);
        assert!(six.add(&of("{devices=[2,3]<=[6]}").unwrap()));
        assert!(!six.add(&of("{devices=[3,2]<=[6]}").unwrap()));
    }
}

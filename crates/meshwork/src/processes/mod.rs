//! Host arrays between processes, in the style of MPI: who has them says to whom they go.
//!
//! ```
//! use meshwork::prelude::*;
//!
//! let runtime = Runtime::init()?;
//! // Rank 0 has the numbers; every rank gets a share, though 103 is not divisible.
//! let all = (runtime.rank() == 0).then(|| Array::from_fn([103], |i| i[0] as f64));
//! let mine = runtime.scatter_array(0, all.as_ref())?;
//! let doubled: Vec<f64> = mine.to_vec::<f64>()?.iter().map(|x| 2.0 * x).collect();
//! let gathered = runtime.gather_array(0, &Array::from(doubled))?;
//! if let Some(all) = gathered {
//!     assert_eq!(all.to_vec::<f64>()?[102], 204.0);
//! }
//! # Ok::<(), meshwork::Error>(())
//! ```
//!
//! The number of elements need not divide, and what is wrong with the arrays of one process is the same error on all.
//! [`Communicator::split`] makes groups of processes, [`Communicator::tagged`] gives messages a number, and
//! [`Communicator::threads`] runs the same code on threads of one process.

mod message;

pub use meshwork_runtime::{Communicator, Receiving, Scan, Sending};

use self::message::{array_of, failed, join, parts, read, write};
use crate::error::Result;
use meshwork_ir::Literal;
use meshwork_runtime::{Array, ReduceOp, Runtime};

/// Calls on host arrays that ranks make: all processes ([`Runtime`]) or a group of ranks ([`Communicator`]). A process on
/// its own can make them too. What is cut is cut along the first dimension, and counts are of its rows.
///
/// ```
/// use meshwork::prelude::*;
/// use meshwork::processes::Communicator;
/// use meshwork::ReduceOp;
///
/// let on_each = Communicator::threads(3, |ranks| {
///     let x = Array::from([ranks.rank() as i64, 10]);
///     let sum = ranks.all_reduce_array(ReduceOp::Sum, &x)?;
///     let up_to_here = ranks.scan_array(ReduceOp::Sum, &x)?;
///     Ok::<_, Error>((sum.to_vec::<i64>()?, up_to_here.to_vec::<i64>()?))
/// });
/// for (rank, result) in on_each.into_iter().enumerate() {
///     assert_eq!(result?, (vec![3, 30], vec![[0, 1, 3][rank], 10 * (rank as i64 + 1)]));
/// }
/// # Ok::<(), Error>(())
/// ```
pub trait HostArrays {
    /// The ranks.
    fn communicator(&self) -> Communicator;

    /// Each rank gets its share of the array that `root` has, cut as evenly as can be. The others give none.
    fn scatter_array(&self, root: usize, array: Option<&Array>) -> Result<Array> {
        let ranks = self.communicator();
        scatter(&ranks, "scatter_array", root, array, |rows| Ok(even(rows, ranks.size())))
    }

    /// Each rank gets `counts[rank]` rows of the array that `root` has. The others give none.
    fn scatterv_array(&self, root: usize, array: Option<(&Array, &[usize])>) -> Result<Array> {
        let ranks = self.communicator();
        let counts = array.map(|(_, counts)| counts).unwrap_or_default();
        scatter(&ranks, "scatterv_array", root, array.map(|(array, _)| array), |rows| {
            fitting(counts, rows, ranks.size()).map(|()| counts.to_vec())
        })
    }

    /// `root` gets the arrays of all, one after the other, with any number of rows each; the others get none.
    fn gather_array(&self, root: usize, array: &Array) -> Result<Option<Array>> {
        let ranks = self.communicator();
        let literal = joinable(&ranks, "gather_array", array)?;
        ranks.gather(root, &write(literal))?.map(|all| join(&all)).transpose()
    }

    /// As [`gather_array`](HostArrays::gather_array), and `root` says how many rows it expects of each. Others are an error
    /// on all.
    fn gatherv_array(&self, root: usize, array: &Array, counts: Option<&[usize]>) -> Result<Option<Array>> {
        let (ranks, call) = (self.communicator(), "gatherv_array");
        let literal = joinable(&ranks, call, array)?;
        let rows = ranks.all_gather(&literal.dims()[0].to_le_bytes())?;
        let rows: Vec<usize> = rows.iter().map(|b| number(b)).collect();
        let wrong = (ranks.rank() == root).then(|| match counts {
            None => format!("{call}: rank {root} is the root and gives no counts"),
            Some(counts) => format!("{call}: rank {root} expects {counts:?} rows, the ranks have {rows:?}"),
        });
        let wrong = wrong.filter(|_| counts != Some(&rows[..]));
        ranks.agree(call, wrong.as_deref().map_or(Ok(""), Err))?;
        ranks.gather(root, &write(literal))?.map(|all| join(&all)).transpose()
    }

    /// All get the arrays of all, one after the other.
    fn all_gather_array(&self, array: &Array) -> Result<Array> {
        let ranks = self.communicator();
        let literal = joinable(&ranks, "all_gather_array", array)?;
        join(&ranks.all_gather(&write(literal))?)
    }

    /// Rank `r` gets part `r` of the array of each, one after the other; each array is cut as evenly as can be.
    fn all_to_all_array(&self, array: &Array) -> Result<Array> {
        let ranks = self.communicator();
        let literal = joinable(&ranks, "all_to_all_array", array)?;
        let counts = even(literal.dims()[0] as usize, ranks.size());
        join(&ranks.all_to_all(&parts(literal, &counts))?)
    }

    /// As [`all_to_all_array`](HostArrays::all_to_all_array), with `counts[r]` rows for rank `r`.
    fn all_to_allv_array(&self, array: &Array, counts: &[usize]) -> Result<Array> {
        let (ranks, call) = (self.communicator(), "all_to_allv_array");
        let literal = joinable(&ranks, call, array)?;
        let fit = fitting(counts, literal.dims()[0] as usize, ranks.size());
        let fit = fit.map_err(|why| format!("{call}: rank {}: {why}", ranks.rank()));
        ranks.agree(call, fit.as_ref().map(|()| "").map_err(|why| &why[..]))?;
        join(&ranks.all_to_all(&parts(literal, counts))?)
    }

    /// All get the array that `root` has. The others give none.
    fn broadcast_array(&self, root: usize, array: Option<&Array>) -> Result<Array> {
        let ranks = self.communicator();
        let message = of_root(&ranks, "broadcast_array", root, array, |literal| Ok(write(literal)))?;
        read(&ranks.broadcast(root, &message.unwrap_or_default())?)
    }

    /// `root` gets the combination, element by element, of the arrays of all, which have one shape and type; the others get
    /// none.
    fn reduce_array(&self, root: usize, how: ReduceOp, array: &Array) -> Result<Option<Array>> {
        let ranks = self.communicator();
        let literal = alike(&ranks, "reduce_array", array)?;
        let sum = ranks.reduce(root, literal.elem(), how, literal.bytes())?;
        sum.map(|sum| array_of(literal.dims(), literal.elem(), sum)).transpose()
    }

    /// All get the combination, element by element, of the arrays of all, which have one shape and type.
    fn all_reduce_array(&self, how: ReduceOp, array: &Array) -> Result<Array> {
        let ranks = self.communicator();
        let literal = alike(&ranks, "all_reduce_array", array)?;
        let sum = ranks.all_reduce(literal.elem(), how, literal.bytes())?;
        array_of(literal.dims(), literal.elem(), sum)
    }

    /// Each rank gets its share, as even as can be, of the combination of the arrays of all.
    fn reduce_scatter_array(&self, how: ReduceOp, array: &Array) -> Result<Array> {
        let (ranks, call) = (self.communicator(), "reduce_scatter_array");
        alike(&ranks, call, array)?;
        let literal = joinable(&ranks, call, array)?;
        let rows = even(literal.dims()[0] as usize, ranks.size());
        let mut dims = literal.dims().to_vec();
        let row = dims[1..].iter().product::<i64>() as usize;
        let counts: Vec<usize> = rows.iter().map(|&r| r * row).collect();
        let part = ranks.reduce_scatter(literal.elem(), how, literal.bytes(), &counts)?;
        dims[0] = rows[ranks.rank()] as i64;
        array_of(&dims, literal.elem(), part)
    }

    /// The combination of the arrays of the ranks up to this one.
    fn scan_array(&self, how: ReduceOp, array: &Array) -> Result<Array> {
        let ranks = self.communicator();
        let literal = alike(&ranks, "scan_array", array)?;
        let sum = ranks.scan(literal.elem(), how, literal.bytes(), Scan::Inclusive)?;
        array_of(literal.dims(), literal.elem(), sum.unwrap_or_default())
    }

    /// The combination of the arrays of the ranks before this one; rank 0 gets none.
    fn exclusive_scan_array(&self, how: ReduceOp, array: &Array) -> Result<Option<Array>> {
        let ranks = self.communicator();
        let literal = alike(&ranks, "exclusive_scan_array", array)?;
        let sum = ranks.scan(literal.elem(), how, literal.bytes(), Scan::Exclusive)?;
        sum.map(|sum| array_of(literal.dims(), literal.elem(), sum)).transpose()
    }

    /// Sends an array to another rank, without waiting for it to be received.
    fn send_array(&self, to: usize, array: &Array) -> Result<()> {
        Ok(self.communicator().send(to, &write(array.literal()?))?)
    }

    /// Waits for the array that another rank sends.
    fn receive_array(&self, from: usize) -> Result<Array> {
        read(&self.communicator().receive(from)?)
    }

    /// Sends an array to one rank and waits for that of another.
    fn send_receive_array(&self, to: usize, array: &Array, from: usize) -> Result<Array> {
        read(&self.communicator().send_receive(to, &write(array.literal()?), from)?)
    }

    /// Begins to send an array; what it returns says when it has left.
    fn isend_array(&self, to: usize, array: &Array) -> Result<Sending> {
        Ok(self.communicator().isend(to, &write(array.literal()?))?)
    }

    /// Begins to receive an array, and does not wait for it.
    fn irecv_array(&self, from: usize) -> Result<ReceivingArray> {
        Ok(ReceivingArray(self.communicator().irecv(from)?))
    }
}

impl HostArrays for Runtime {
    fn communicator(&self) -> Communicator {
        Runtime::communicator(self)
    }
}

impl HostArrays for Communicator {
    fn communicator(&self) -> Communicator {
        self.clone()
    }
}

/// An array that is expected; see [`HostArrays::irecv_array`] and [`Receiving`].
#[derive(Debug)]
pub struct ReceivingArray(Receiving);

impl ReceivingArray {
    /// Waits for the array.
    pub fn wait(self) -> Result<Array> {
        read(&self.0.wait()?)
    }

    /// The array, if it has come; a second time there is none.
    pub fn test(&mut self) -> Result<Option<Array>> {
        self.0.test()?.map(|message| read(&message)).transpose()
    }
}

fn show(literal: &Literal) -> String {
    format!("{}{:?}", literal.elem(), literal.dims())
}

/// The elements of an array, whose shape and type are the same on all ranks.
fn alike<'a>(ranks: &Communicator, call: &str, array: &'a Array) -> Result<&'a Literal> {
    let literal = array.literal().map_err(|e| format!("{call}: rank {}: {e}", ranks.rank()));
    let shown = literal.as_ref().map(|l| show(l));
    ranks.agree_on(call, shown.as_deref().map_err(|why| &why[..]))?;
    literal.map_err(failed)
}

/// The elements of an array that can be joined with those of all ranks: only their numbers of rows differ.
fn joinable<'a>(ranks: &Communicator, call: &str, array: &'a Array) -> Result<&'a Literal> {
    let literal = array.literal().map_err(|e| format!("{call}: rank {}: {e}", ranks.rank()));
    let shown = literal.as_ref().map(|l| show(l));
    let all = ranks.agree(call, shown.as_deref().map_err(|why| &why[..]))?;
    // A scalar has no rows; of others, what follows the number of rows must be the same.
    let without_rows = |text: &str| {
        let (elem, dims) = text.split_once('[')?;
        let dims = dims.trim_end_matches(']');
        (!dims.is_empty()).then(|| (elem.to_string(), dims.split_once(',').map_or("", |(_, rest)| rest).to_string()))
    };
    let first = without_rows(&all[0]);
    match (0..all.len()).find(|&r| first.is_none() || without_rows(&all[r]) != first) {
        None => literal.map_err(failed),
        Some(rank) => {
            let (one, other) = (&all[0], &all[rank]);
            Err(failed(format!("{call}: rank 0 has {one}, rank {rank} has {other}, which cannot be joined")))
        }
    }
}

/// What the root makes of its array; an array that is missing or does not fit is the same error on all.
fn of_root<T>(
    ranks: &Communicator,
    call: &str,
    root: usize,
    array: Option<&Array>,
    make: impl FnOnce(&Literal) -> std::result::Result<T, String>,
) -> Result<Option<T>> {
    let made = if ranks.rank() != root {
        Ok(None)
    } else {
        match array {
            None => Err(format!("{call}: rank {root} is the root and gives no array")),
            Some(array) => {
                let literal = array.literal().map_err(|e| e.to_string());
                literal.and_then(make).map(Some).map_err(|why| format!("{call}: {why}"))
            }
        }
    };
    ranks.agree(call, made.as_ref().map(|_| "").map_err(|why| &why[..]))?;
    made.map_err(failed)
}

fn scatter(
    ranks: &Communicator,
    call: &str,
    root: usize,
    array: Option<&Array>,
    counts: impl FnOnce(usize) -> std::result::Result<Vec<usize>, String>,
) -> Result<Array> {
    let shares = of_root(ranks, call, root, array, |literal| match literal.dims() {
        [] => Err("a scalar has no dimension to cut; broadcast it".to_string()),
        [rows, ..] => Ok(parts(literal, &counts(*rows as usize)?)),
    })?;
    read(&ranks.scatter(root, &shares.unwrap_or_default())?)
}

/// `rows` rows for `ranks` ranks, as even as can be, the first ones one longer.
fn even(rows: usize, ranks: usize) -> Vec<usize> {
    (0..ranks).map(|r| rows / ranks + usize::from(r < rows % ranks)).collect()
}

/// That there is a count for each rank, and that together they are all rows.
fn fitting(counts: &[usize], rows: usize, ranks: usize) -> std::result::Result<(), String> {
    if counts.len() != ranks {
        return Err(format!("{} counts for {ranks} ranks", counts.len()));
    }
    let sum: usize = counts.iter().sum();
    if sum == rows { Ok(()) } else { Err(format!("the counts {counts:?} are {sum} rows, the array has {rows}")) }
}

/// A number of rows that was sent.
fn number(bytes: &[u8]) -> usize {
    bytes.try_into().map(u64::from_le_bytes).unwrap_or(0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_can_make_all_calls() {
        let runtime = Runtime::init().unwrap();
        let x = Array::from_fn([5], |i| i[0] as f64);
        let same = |y: &Array| assert_eq!(y.literal().unwrap(), x.literal().unwrap());
        let how = ReduceOp::Sum;
        same(&runtime.scatter_array(0, Some(&x)).unwrap());
        same(&runtime.scatterv_array(0, Some((&x, &[5]))).unwrap());
        same(&runtime.gather_array(0, &x).unwrap().unwrap());
        same(&runtime.gatherv_array(0, &x, Some(&[5])).unwrap().unwrap());
        same(&runtime.all_gather_array(&x).unwrap());
        same(&runtime.all_to_all_array(&x).unwrap());
        same(&runtime.all_to_allv_array(&x, &[5]).unwrap());
        same(&runtime.broadcast_array(0, Some(&x)).unwrap());
        same(&runtime.reduce_array(0, how, &x).unwrap().unwrap());
        same(&runtime.all_reduce_array(how, &x).unwrap());
        same(&runtime.reduce_scatter_array(how, &x).unwrap());
        same(&runtime.scan_array(how, &x).unwrap());
        assert!(runtime.exclusive_scan_array(how, &x).unwrap().is_none());
        same(&runtime.send_receive_array(0, &x, 0).unwrap());
        let coming = runtime.irecv_array(0).unwrap();
        runtime.isend_array(0, &x).unwrap().wait().unwrap();
        same(&coming.wait().unwrap());
        let error = runtime.scatter_array(0, None).unwrap_err().to_string();
        assert_eq!(error, "scatter_array: rank 0 is the root and gives no array");
        let error = runtime.receive_array(0).unwrap_err().to_string();
        assert_eq!(error, "rank 0 waits for itself, and has sent itself nothing");
    }
}

//! Pieces whose lengths are known when the program runs: each device of a group sends consecutive pieces of its rows.
//!
//! Every device has the table of all lengths, so receivers know what comes and where it goes. A table that does not fit
//! the rows is refused before anything moves; whoever writes memory checks the table that it goes by.

use meshwork_ir::ElementType;
use meshwork_ir::groups::ragged_fits;

use super::crossing::build::Spread;
use super::device::Device;
use crate::program::{Collective, Program};
use crate::step::{Buf, Fault};
use meshwork_runtime::memory::buffer::Buffer;
use meshwork_runtime::transport::swap::{INLINE, Swap};

/// An exchange of pieces.
pub(crate) struct Ragged {
    groups: Vec<Vec<usize>>,
    operand: (Buf, usize),
    sizes: (Buf, usize),
    /// Whether the table is of `i64`, else of `i32`.
    wide: bool,
    result: Buf,
    rows: usize,
    /// Elements of a row before and after.
    from: usize,
    to: usize,
    /// Bytes of an element.
    bytes: usize,
}

/// The lengths of the pieces of one group.
struct Table {
    sizes: Vec<i64>,
    members: usize,
    rows: usize,
}

impl Table {
    fn size(&self, sender: usize, receiver: usize, row: usize) -> usize {
        self.sizes[(sender * self.members + receiver) * self.rows + row] as usize
    }

    /// Where the piece starts in the sender's row.
    fn start(&self, sender: usize, receiver: usize, row: usize) -> usize {
        (0..receiver).map(|r| self.size(sender, r, row)).sum()
    }

    /// Where it goes in the receiver's row.
    fn target(&self, sender: usize, receiver: usize, row: usize) -> usize {
        (0..sender).map(|s| self.size(s, receiver, row)).sum()
    }

    /// Elements of all pieces from `senders` to `receivers`.
    fn elements(&self, senders: &[usize], receivers: &[usize]) -> usize {
        let pairs = senders.iter().flat_map(|&s| receivers.iter().map(move |&r| (s, r)));
        pairs.flat_map(|(s, r)| (0..self.rows).map(move |row| self.size(s, r, row))).sum()
    }
}

impl Ragged {
    /// The exchange `c`, whose operands are the data and the table.
    pub(crate) fn new(c: &Collective, program: &Program, from: &[i64], to: &[i64], bytes: usize) -> Option<Ragged> {
        let (&[operand, sizes], &[start, sizes_start], &[result]) = (&c.operands[..], &c.starts[..], &c.results[..])
        else {
            return None;
        };
        let wide = program.bufs[sizes.0 as usize].elem == ElementType::I64;
        let groups = c.groups.iter().map(|g| g.iter().map(|&d| d as usize).collect()).collect();
        let ([rows, from], [_, to]) = (from, to) else { return None };
        let (operand, sizes) = ((operand, start), (sizes, sizes_start));
        let (rows, from, to) = (*rows as usize, *from as usize, *to as usize);
        Some(Ragged { groups, operand, sizes, wide, result, rows, from, to, bytes })
    }

    /// The groups.
    pub(crate) fn groups(&self) -> &[Vec<usize>] {
        &self.groups
    }

    /// The table of `group` as `device` has it, checked.
    ///
    /// # Safety
    /// The device is at the exchange.
    unsafe fn table(&self, group: &[usize], device: &Device) -> Result<Table, Fault> {
        let (members, rows) = (group.len(), self.rows);
        let count = members * members * rows;
        // SAFETY: the buffer has an entry for each sender, receiver and row.
        let sizes = unsafe {
            let at = device.ptr(self.sizes.0).add(self.sizes.1);
            let one = |i: usize| match self.wide {
                true => at.cast::<i64>().add(i).read_unaligned(),
                false => i64::from(at.cast::<i32>().add(i).read_unaligned()),
            };
            (0..count).map(one).collect()
        };
        let table = Table { sizes, members, rows };
        let size = |a: usize, b: usize, row: usize| table.sizes[(a * members + b) * rows + row];
        ragged_fits(members, rows, (self.from as i64, self.to as i64), size).map_err(Fault)?;
        Ok(table)
    }

    unsafe fn source(&self, device: &Device, row: usize, at: usize) -> *const u8 {
        // SAFETY: the table was checked: the piece is in the row.
        unsafe { device.ptr(self.operand.0).add(self.operand.1 + (row * self.from + at) * self.bytes).cast_const() }
    }

    unsafe fn place(&self, device: &Device, row: usize, at: usize) -> *mut u8 {
        // SAFETY: as above.
        unsafe { device.ptr(self.result).add((row * self.to + at) * self.bytes) }
    }

    /// Zeros behind what member `receiver` gets.
    unsafe fn fill(&self, table: &Table, receiver: usize, device: &Device) {
        for row in 0..self.rows {
            let end = table.target(table.members, receiver, row);
            // SAFETY: the rest of the row.
            unsafe { self.place(device, row, end).write_bytes(0, (self.to - end) * self.bytes) };
        }
    }

    /// The pieces from one member to another, both here.
    unsafe fn copy(&self, table: &Table, (sender, from): (usize, &Device), (receiver, to): (usize, &Device)) {
        for row in 0..self.rows {
            let (start, target) = (table.start(sender, receiver, row), table.target(sender, receiver, row));
            let bytes = table.size(sender, receiver, row) * self.bytes;
            // SAFETY: operand and result are different buffers; the table was checked.
            unsafe { self.source(from, row, start).copy_to_nonoverlapping(self.place(to, row, target), bytes) };
        }
    }

    /// What member `receiver` of group `number` gets, all members being in this process.
    ///
    /// # Safety
    /// All devices of the group are at the exchange, and nothing else uses its buffers.
    pub(crate) unsafe fn receive(&self, devices: &[Device], number: usize, receiver: usize) -> Result<(), Fault> {
        let group = &self.groups[number];
        let to = &devices[group[receiver]];
        // SAFETY: the caller's promise.
        unsafe {
            let table = self.table(group, to)?;
            for (sender, &device) in group.iter().enumerate() {
                self.copy(&table, (sender, &devices[device]), (receiver, to));
            }
            self.fill(&table, receiver, to);
        }
        Ok(())
    }

    /// The exchange for the groups that are `live`, whose devices are spread over processes.
    ///
    /// # Safety
    /// All devices here of these groups are at the exchange, and nothing else uses its buffers.
    pub(crate) unsafe fn cross(
        &self,
        swap: Swap<'_>,
        devices: &[Device],
        spread: &Spread,
        live: impl Fn(usize) -> bool,
    ) -> Result<(), Fault> {
        let lost = |e: meshwork_runtime::transport::world::ProcessError| Fault(e.to_string());
        let on = |group: &[usize], rank: usize| -> Vec<usize> {
            (0..group.len()).filter(|&i| spread.ranks[group[i]] == rank).collect()
        };
        let mut tables = vec![];
        for (number, group) in self.groups.iter().enumerate().filter(|(i, _)| live(*i)) {
            if let Some(&first) = on(group, spread.rank).first() {
                // SAFETY: the caller's promise.
                tables.push((number, unsafe { self.table(group, &devices[group[first]])? }));
            }
        }
        let processes = spread.ranks.iter().max().map_or(0, |&r| r + 1);
        let peers = (0..processes).filter(|&r| r != spread.rank);
        let total = |sends: bool, peer: usize| -> usize {
            let one = |(number, table): &(usize, Table)| {
                let group = &self.groups[*number];
                let (here, there) = (on(group, spread.rank), on(group, peer));
                if sends { table.elements(&here, &there) } else { table.elements(&there, &here) }
            };
            tables.iter().map(one).sum::<usize>() * self.bytes
        };
        let room = |bytes: usize| Buffer::new(bytes).map_err(|e| Fault(e.to_string()));
        let inline = |bytes: usize| if bytes <= INLINE { bytes } else { 0 };
        // They outlive the messages, whatever fails: what is declared later is dropped earlier.
        let (mut arriving, mut leaving) = (vec![], vec![]);
        let mut swap = swap;
        for peer in peers {
            let (sent, received) = (total(true, peer), total(false, peer));
            if received > 0 {
                let stage = room(received)?;
                let landing = stage.as_ptr();
                arriving.push((peer, stage, received));
                swap.expect(peer, inline(received), Some(received as u64)).map_err(lost)?;
                if received > INLINE {
                    // SAFETY: the stage is as long, and nothing else uses it until the messages have come.
                    unsafe { swap.receive(peer, landing, received).map_err(lost)? };
                }
            }
            if sent > 0 {
                let stage = room(sent)?;
                let (packed, mut at) = (stage.as_ptr(), 0);
                leaving.push(stage);
                self.pieces(
                    &tables,
                    |g| (on(g, spread.rank), on(g, peer)),
                    |device, _, row, (start, _), count| {
                        // SAFETY: the stage has room for all pieces.
                        unsafe {
                            let from = self.source(&devices[device], row, start);
                            from.copy_to_nonoverlapping(packed.add(at), count);
                        }
                        at += count;
                    },
                );
                let fill = |cover: &mut [u8]| {
                    // SAFETY: a short message is as long as its cover has room.
                    unsafe { packed.copy_to_nonoverlapping(cover.as_mut_ptr(), cover.len()) }
                };
                swap.cover(peer, inline(sent), sent as u64, fill).map_err(lost)?;
                if sent > INLINE {
                    // SAFETY: nothing writes the stage any more.
                    unsafe { swap.send(peer, packed, sent).map_err(lost)? };
                }
            }
        }
        for (number, table) in &tables {
            let group = &self.groups[*number];
            let here = on(group, spread.rank);
            for &receiver in &here {
                let to = &devices[group[receiver]];
                // SAFETY: the caller's promise; the table was checked.
                unsafe {
                    for &sender in &here {
                        self.copy(table, (sender, &devices[group[sender]]), (receiver, to));
                    }
                    self.fill(table, receiver, to);
                }
            }
        }
        swap.wait().map_err(lost)?;
        for (peer, stage, bytes) in &arriving {
            let from = if *bytes <= INLINE { swap.inline(*peer).as_ptr() } else { stage.as_ptr().cast_const() };
            let mut at = 0;
            self.pieces(
                &tables,
                |g| (on(g, *peer), on(g, spread.rank)),
                |_, device, row, (_, target), count| {
                    // SAFETY: what has come is as long as all pieces; the table was checked.
                    unsafe { from.add(at).copy_to_nonoverlapping(self.place(&devices[device], row, target), count) };
                    at += count;
                },
            );
        }
        swap.done();
        Ok(())
    }

    /// Visits the pieces between the members that `chosen` names, senders and receivers, in an order that all processes
    /// share: devices, row, where the piece is in both rows, and its bytes.
    fn pieces(
        &self,
        tables: &[(usize, Table)],
        chosen: impl Fn(&[usize]) -> (Vec<usize>, Vec<usize>),
        mut visit: impl FnMut(usize, usize, usize, (usize, usize), usize),
    ) {
        for (number, table) in tables {
            let group = &self.groups[*number];
            let (senders, receivers) = chosen(group);
            for (&s, &r) in senders.iter().flat_map(|s| receivers.iter().map(move |r| (s, r))) {
                for row in 0..self.rows {
                    let places = (table.start(s, r, row), table.target(s, r, row));
                    visit(group[s], group[r], row, places, table.size(s, r, row) * self.bytes);
                }
            }
        }
    }
}

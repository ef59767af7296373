//! A program as text: blocks of nodes, the buffers they read and write.

use std::fmt;

use crate::program::{Block, BufInfo, Node, Program};
use crate::step::Buf;

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_block(f, &self.bufs, &self.main, 0)?;
        for &op in &self.fallbacks {
            writeln!(f, "evaluator: {}", self.module.describe(op))?;
        }
        Ok(())
    }
}

fn list(bufs: &[BufInfo], names: &[Buf]) -> String {
    let one = |b: &Buf| {
        let info = &bufs[b.0 as usize];
        let dims: String = info.dims.iter().map(|d| format!("{d}x")).collect();
        let mark = if info.constant.is_some() { "c" } else { "b" };
        format!("{mark}{}:{dims}{}", b.0, info.elem)
    };
    names.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn write_block(f: &mut fmt::Formatter<'_>, bufs: &[BufInfo], block: &Block, depth: usize) -> fmt::Result {
    let pad = "  ".repeat(depth);
    writeln!(f, "{pad}({})", list(bufs, &block.args))?;
    for node in &block.nodes {
        match node {
            Node::Step(s) => writeln!(f, "{pad}  {} = {} ({})", list(bufs, &s.writes), s.name, list(bufs, &s.reads))?,
            Node::Collective(c) => {
                let start = if c.channel.is_some() { "start " } else { "" };
                writeln!(f, "{pad}  {} = {start}{} ({})", list(bufs, &c.results), c.name, list(bufs, &c.operands))?
            }
            Node::Await(a) => writeln!(f, "{pad}  await {}", list(bufs, &a.results))?,
            Node::While(w) => {
                let trips = w.trips.map_or("?".into(), |t| t.to_string());
                writeln!(f, "{pad}  while {trips} from ({})", list(bufs, &w.init))?;
                write_block(f, bufs, &w.cond, depth + 2)?;
                writeln!(f, "{pad}  do")?;
                write_block(f, bufs, &w.body, depth + 2)?;
            }
            Node::Case(c) => {
                writeln!(f, "{pad}  {} = case {}", list(bufs, &c.results), list(bufs, &[c.index]))?;
                for branch in &c.branches {
                    write_block(f, bufs, branch, depth + 2)?;
                }
            }
        }
    }
    writeln!(f, "{pad}-> {}", list(bufs, &block.results))
}

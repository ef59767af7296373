//! Rematerialisation: what a marked part of the program computed is computed again on the way back.
//!
//! The copy reads the operands and the cotangents through one optimization barrier. So it is another computation than
//! the first one, which common subexpression elimination may not merge with it, and it can not start before the
//! cotangents are there: nothing of the part but its operands has to be kept until then.

use meshwork_ir::{ValueId, ValueMap};

use crate::GradError;
use crate::reverse::{Reverse, Site};

pub(super) fn rule(r: &mut Reverse<'_>, site: &Site) -> Result<(), GradError> {
    let Some(body) = r.module().body_of(site.id, 0) else { return Ok(()) };
    let args = r.module().block(body).args().to_vec();
    let returned = r.module().returned(body).to_vec();
    let held: Vec<ValueId> = site.op.operands().iter().copied().chain(site.cts.iter().flatten().copied()).collect();
    let held = r.optimization_barrier(&held)?;
    let (xs, cts) = held.split_at(args.len());
    let mut map: ValueMap = args.iter().copied().zip(xs.iter().copied()).collect();
    let ops = r.copy_body(body, &mut map);
    let given = returned.iter().zip(&site.cts).filter(|(_, ct)| ct.is_some());
    for ((value, _), &ct) in given.zip(cts) {
        r.give(*map.get(value).unwrap_or(value), ct)?;
    }
    r.walk(&ops)?;
    for (i, &x) in xs.iter().enumerate() {
        if let Some(ct) = r.cotangent(x) {
            r.give(site.x(i), ct)?;
        }
    }
    Ok(())
}

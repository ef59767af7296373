//! Rematerialization: a marked part of the program is recomputed in the backward pass.
//!
//! The copy reads its operands, and the cotangents, through an optimization barrier. So common subexpression elimination
//! does not merge it with the first computation, and it does not start before the cotangents exist: until then, only the
//! operands of the part are stored.

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

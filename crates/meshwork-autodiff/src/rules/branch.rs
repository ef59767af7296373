//! Branches: the backward pass takes the same branch, which recomputes what its derivative needs.

use meshwork_ir::{OpSpec, ValueId, ValueMap};

use crate::GradError;
use crate::activity::captures;
use crate::reverse::{Reverse, Site};

pub(super) fn rule(r: &mut Reverse<'_>, site: &Site) -> Result<(), GradError> {
    let inputs: Vec<ValueId> = captures(r.module(), site.id).into_iter().filter(|&v| r.wants(v)).collect();
    let types = r.types(&inputs);
    let loc = site.op.loc.clone();
    let spec = OpSpec::new(site.op.kind()).operands([site.x(0)]).results(types).loc(loc);
    let back = r.module_mut().create(spec);
    for index in 0..site.op.regions().len() {
        let Some(branch) = r.module().body_of(site.id, index) else { continue };
        let returned = r.module().returned(branch).to_vec();
        let block = r.module_mut().add_body(back, []);
        let mut inner = r.nested(block);
        let mut map = ValueMap::default();
        let ops = inner.copy_body(branch, &mut map);
        for (value, ct) in returned.iter().zip(&site.cts) {
            if let Some(ct) = *ct {
                inner.give(*map.get(value).unwrap_or(value), ct)?;
            }
        }
        inner.walk(&ops)?;
        let given: Result<Vec<ValueId>, _> = inputs.iter().map(|&v| inner.cotangent_or_zeros(v)).collect();
        inner.finish(given?);
    }
    let block = r.block;
    r.module_mut().append(block, back);
    for (&v, given) in inputs.iter().zip(r.module().op(back).results().to_vec()) {
        r.give(v, given)?;
    }
    Ok(())
}

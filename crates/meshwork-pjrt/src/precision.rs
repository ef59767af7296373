//! How exactly products are computed: what programs ask for, and what plugins do where they ask for nothing.

use std::str::FromStr;

use meshwork_ir::op::ContractOp;
use meshwork_ir::{Attr, ElementType, Module, OpId, OpKind, Walk};

use crate::plugin::PjrtError;

/// How products and convolutions are computed that do not say it themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Precision {
    /// As the plugin likes: fast, on most devices with fewer bits than `f32` has.
    #[default]
    Default,
    /// Between the two where the device has something between: on TPUs. CUDA computes it as the default.
    High,
    /// As exactly as the type of the operands is.
    Highest,
}

impl Precision {
    fn name(self) -> &'static str {
        match self {
            Precision::Default => "DEFAULT",
            Precision::High => "HIGH",
            Precision::Highest => "HIGHEST",
        }
    }

    /// Writes it into the products of `module` that say nothing.
    pub(crate) fn set(self, module: &mut Module) {
        if self == Precision::Default {
            return;
        }
        for op in products(module) {
            if is_default(module, op) {
                let both = [(); 2].map(|()| Attr::hlo_enum("precision", self.name()));
                module.op_mut(op).attrs.set("precision_config", Attr::Array(both.into()));
            }
        }
    }
}

impl FromStr for Precision {
    type Err = PjrtError;

    fn from_str(name: &str) -> Result<Precision, PjrtError> {
        let all = [Precision::Default, Precision::High, Precision::Highest];
        let found = all.into_iter().find(|p| p.name().eq_ignore_ascii_case(name));
        found.ok_or_else(|| PjrtError::Spec(format!("precision={name} is none of default, high, highest")))
    }
}

fn products(module: &Module) -> Vec<OpId> {
    let mut ops = module.all_ops(Walk::PreOrder);
    ops.retain(|&op| {
        matches!(
            module.op(op).kind(),
            OpKind::Contract(ContractOp::Dot | ContractOp::DotGeneral | ContractOp::Convolution)
        )
    });
    ops
}

/// Whether a product leaves its precision to the plugin.
fn is_default(module: &Module, op: OpId) -> bool {
    let data = module.op(op);
    let config = data.attr("precision_config").and_then(Attr::as_array).unwrap_or_default();
    data.attr("algorithm").is_none() && config.iter().all(|p| p.as_enum() == Some("DEFAULT"))
}

/// What `platform` does to the products of `module` that do not ask for all bits, in a sentence; `None` if it keeps
/// all bits.
pub(crate) fn rounding(module: &Module, platform: &str) -> Option<String> {
    // On an H200 the error of a product with `HIGH` is that of one with `DEFAULT`.
    let is_exact = if platform == "tpu" { ["HIGH", "HIGHEST"].as_slice() } else { &["HIGHEST"] };
    let is_rounded = |op: &OpId| {
        let data = module.op(*op);
        let config = data.attr("precision_config").and_then(Attr::as_array).unwrap_or_default();
        let keeps = config.iter().filter_map(Attr::as_enum).any(|p| is_exact.contains(&p));
        let elem = data.operands().first().and_then(|&x| module.ty(x).elem());
        elem == Some(ElementType::F32) && data.attr("algorithm").is_none() && !keeps
    };
    let count = products(module).iter().filter(|op| is_rounded(op)).count();
    if count == 0 {
        return None;
    }
    let what = if count == 1 { "1 product of f32 is".into() } else { format!("{count} products of f32 are") };
    let how = match platform {
        "cuda" => "computed in TF32, which keeps 10 bits of the fraction instead of 23",
        "rocm" => {
            "computed as the library of the device likes, on some in TF32 with 10 bits of the fraction instead of 23"
        }
        "tpu" => "computed in bf16, which keeps 7 bits of the fraction instead of 23",
        _ => return None,
    };
    let more = "the option precision=highest of the engine, or precision = [HIGHEST, HIGHEST] on a product, keeps all";
    Some(format!("{what} {how}; {more}"))
}

#[cfg(test)]
mod tests {
    use meshwork_ir::text;

    use super::*;

    const SOURCE: &str = "func.func @main(%x: tensor<4x4xf32>, %h: tensor<4x4xbf16>) -> (tensor<4x4xf32>, tensor<4x4xbf16>) {
        %a = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
        %b = stablehlo.dot_general %a, %x, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST]
            : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
        %c = stablehlo.dot_general %h, %h, contracting_dims = [1] x [0] : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
        return %b, %c : tensor<4x4xf32>, tensor<4x4xbf16> }";

    #[test]
    fn products_that_say_nothing_are_counted() {
        let module = text::parse(SOURCE).unwrap();
        let note = rounding(&module, "cuda").unwrap();
        assert!(note.starts_with("1 product of f32 is computed in TF32, which keeps 10 bits"), "{note}");
        assert_eq!(rounding(&module, "cpu"), None);
    }

    #[test]
    fn a_default_is_written_where_nothing_is_said() {
        let mut module = text::parse(SOURCE).unwrap();
        "high".parse::<Precision>().unwrap().set(&mut module);
        let text = text::print(&module);
        assert_eq!(
            (text.matches("[HIGH, HIGH]").count(), text.matches("[HIGHEST, HIGHEST]").count()),
            (2, 1),
            "{text}"
        );
        assert_eq!(rounding(&module, "tpu"), None);
        assert!(rounding(&module, "cuda").is_some());
        let error = "exact".parse::<Precision>().unwrap_err().to_string();
        assert_eq!(error, "precision=exact is none of default, high, highest");
    }
}

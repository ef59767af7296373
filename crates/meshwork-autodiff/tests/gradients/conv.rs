//! Derivatives of convolutions.

use crate::common::{check, program};

struct Conv {
    input: [i64; 4],
    kernel: [i64; 4],
    output: [i64; 4],
    dims: &'static str,
    window: &'static str,
    feature_groups: i64,
    batch_groups: i64,
}

fn ty(dims: [i64; 4]) -> String {
    format!("tensor<{}xf64>", dims.map(|d| d.to_string()).join("x"))
}

fn test(conv: Conv) {
    let (input, kernel, output) = (ty(conv.input), ty(conv.kernel), ty(conv.output));
    check(&program(
        &format!("(%x: {input}, %k: {kernel}) -> {output}"),
        &format!(
            "%y = $convolution(%x, %k) dim_numbers = {}, window = {{{}}} {{batch_group_count = {} : i64, feature_group_count = {} : i64}} : ({input}, {kernel}) -> {output}
             return %y : {output}",
            conv.dims, conv.window, conv.batch_groups, conv.feature_groups
        ),
    ));
}

const CHANNELS_LAST: &str = "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]";
const CHANNELS_FIRST: &str = "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]";

fn plain(window: &'static str, output: [i64; 2]) -> Conv {
    Conv {
        input: [2, 5, 4, 2],
        kernel: [3, 2, 2, 3],
        output: [2, output[0], output[1], 3],
        dims: CHANNELS_LAST,
        window,
        feature_groups: 1,
        batch_groups: 1,
    }
}

#[test]
fn windows() {
    test(plain("", [3, 3]));
    test(plain("stride = [2, 1], pad = [[1, 1], [0, 1]]", [3, 4]));
    test(plain("stride = [3, 2]", [1, 2]));
    test(plain("lhs_dilate = [2, 1], pad = [[1, 2], [1, 0]]", [10, 4]));
    test(plain("rhs_dilate = [2, 3]", [1, 1]));
    test(plain("reverse = [true, false], pad = [[2, 0], [0, 0]]", [5, 3]));
    test(plain(
        "stride = [2, 2], pad = [[3, 0], [2, 3]], lhs_dilate = [2, 3], rhs_dilate = [1, 2], reverse = [false, true]",
        [5, 7],
    ));
    test(plain("pad = [[-1, 0], [0, -1]]", [2, 2]));
}

#[test]
fn feature_groups() {
    test(Conv {
        input: [2, 4, 4, 3],
        kernel: [6, 2, 2, 2],
        output: [2, 6, 2, 1],
        dims: CHANNELS_FIRST,
        window: "stride = [2, 2], pad = [[0, 1], [0, 0]]",
        feature_groups: 2,
        batch_groups: 1,
    });
    // Depthwise.
    test(Conv {
        input: [1, 4, 4, 3],
        kernel: [2, 2, 1, 6],
        output: [1, 3, 3, 6],
        dims: CHANNELS_LAST,
        window: "",
        feature_groups: 3,
        batch_groups: 1,
    });
}

#[test]
fn batch_groups() {
    test(Conv {
        input: [4, 3, 4, 2],
        kernel: [2, 2, 2, 6],
        output: [2, 2, 3, 6],
        dims: CHANNELS_LAST,
        window: "",
        feature_groups: 1,
        batch_groups: 2,
    });
}

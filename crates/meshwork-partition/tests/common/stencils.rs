//! Loops of stencils, in every spelling.

/// A loop of `turns` turns over `u`, of type `ty`, whose body computes `%new` from `%u`.
pub fn looped(mesh: &str, dims: &str, ty: &str, turns: i64, body: &str) -> String {
    format!(
        r#"sdy.mesh @mesh = <[{mesh}]>
        func.func @main(%x: {ty} {{sdy.sharding = #sdy.sharding<@mesh, [{dims}]>}}) -> ({ty} {{sdy.sharding = #sdy.sharding<@mesh, [{dims}]>}}) {{
          %zero = stablehlo.constant dense<0> : tensor<i32>
          %one = stablehlo.constant dense<1> : tensor<i32>
          %turns = stablehlo.constant dense<{turns}> : tensor<i32>
          %r:2 = stablehlo.while(%i = %zero, %u = %x) : tensor<i32>, {ty}
          cond {{
            %c = stablehlo.compare LT, %i, %turns : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %c : tensor<i1>
          }} do {{
            {body}
            %j = stablehlo.add %i, %one : tensor<i32>
            stablehlo.return %j, %new : tensor<i32>, {ty}
          }}
          return %r#1 : {ty}
        }}"#
    )
}

/// Half of each inner element and a quarter of both its neighbours, as `%inner`.
pub fn interior(n: i64, elem: &str) -> String {
    let (m, long, short) = (n - 2, format!("tensor<{n}x{elem}>"), format!("tensor<{}x{elem}>", n - 2));
    format!(
        "%left = stablehlo.slice %u [0:{m}] : ({long}) -> {short}
        %mid = stablehlo.slice %u [1:{}] : ({long}) -> {short}
        %right = stablehlo.slice %u [2:{n}] : ({long}) -> {short}
        %s0 = stablehlo.add %left, %right : {short}
        %s1 = stablehlo.add %s0, %mid : {short}
        %inner = stablehlo.add %s1, %s1 : {short}",
        n - 1
    )
}

pub fn update(n: i64, elem: &str) -> String {
    format!(
        "{}
        %new = stablehlo.dynamic_update_slice %u, %inner, %one : (tensor<{n}x{elem}>, tensor<{}x{elem}>, tensor<i32>) -> tensor<{n}x{elem}>",
        interior(n, elem),
        n - 2
    )
}

pub fn concatenate(n: i64, elem: &str) -> String {
    format!(
        "{}
        %first = stablehlo.slice %u [0:1] : (tensor<{n}x{elem}>) -> tensor<1x{elem}>
        %last = stablehlo.slice %u [{}:{n}] : (tensor<{n}x{elem}>) -> tensor<1x{elem}>
        %new = stablehlo.concatenate %first, %inner, %last, dim = 0 : (tensor<1x{elem}>, tensor<{}x{elem}>, tensor<1x{elem}>) -> tensor<{n}x{elem}>",
        interior(n, elem),
        n - 1,
        n - 2
    )
}

/// A number as constants of `elem` are written.
pub fn number(n: i64, elem: &str) -> String {
    if elem.starts_with('f') { format!("{n}.0") } else { n.to_string() }
}

pub fn pad(n: i64, elem: &str) -> String {
    let (p, three) = (n + 2, number(3, elem));
    format!(
        "%fill = stablehlo.constant dense<{three}> : tensor<{elem}>
        %wide = stablehlo.pad %u, %fill, low = [1], high = [1], interior = [0] : (tensor<{n}x{elem}>, tensor<{elem}>) -> tensor<{p}x{elem}>
        %left = stablehlo.slice %wide [0:{n}] : (tensor<{p}x{elem}>) -> tensor<{n}x{elem}>
        %right = stablehlo.slice %wide [2:{p}] : (tensor<{p}x{elem}>) -> tensor<{n}x{elem}>
        %s = stablehlo.add %left, %right : tensor<{n}x{elem}>
        %new = stablehlo.subtract %s, %u : tensor<{n}x{elem}>"
    )
}

pub fn roll(n: i64, elem: &str) -> String {
    let (m, ty) = (n - 1, format!("tensor<{n}x{elem}>"));
    format!(
        "%a0 = stablehlo.slice %u [{m}:{n}] : ({ty}) -> tensor<1x{elem}>
        %a1 = stablehlo.slice %u [0:{m}] : ({ty}) -> tensor<{m}x{elem}>
        %left = stablehlo.concatenate %a0, %a1, dim = 0 : (tensor<1x{elem}>, tensor<{m}x{elem}>) -> {ty}
        %b0 = stablehlo.slice %u [1:{n}] : ({ty}) -> tensor<{m}x{elem}>
        %b1 = stablehlo.slice %u [0:1] : ({ty}) -> tensor<1x{elem}>
        %right = stablehlo.concatenate %b0, %b1, dim = 0 : (tensor<{m}x{elem}>, tensor<1x{elem}>) -> {ty}
        %at = stablehlo.iota dim = 0 : tensor<{n}xi32>
        %even = stablehlo.broadcast_in_dim %one, dims = [] : (tensor<i32>) -> tensor<{n}xi32>
        %odd = stablehlo.and %at, %even : tensor<{n}xi32>
        %number = stablehlo.convert %odd : (tensor<{n}xi32>) -> {ty}
        %s0 = stablehlo.add %left, %number : {ty}
        %s1 = stablehlo.subtract %s0, %u : {ty}
        %new = stablehlo.add %s1, %right : {ty}"
    )
}

pub fn convolution(n: i64, elem: &str) -> String {
    let [a, b, c] = [1, 2, -1].map(|n| number(n, elem));
    format!(
        "%img = stablehlo.reshape %u : (tensor<{n}x{elem}>) -> tensor<1x{n}x1x{elem}>
        %ker = stablehlo.constant dense<[[[{a}]], [[{b}]], [[{c}]]]> : tensor<3x1x1x{elem}>
        %res = stablehlo.convolution(%img, %ker) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {{stride = [1], pad = [[1, 1]], lhs_dilate = [1], rhs_dilate = [1], reverse = [false]}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} : (tensor<1x{n}x1x{elem}>, tensor<3x1x1x{elem}>) -> tensor<1x{n}x1x{elem}>
        %new = stablehlo.reshape %res : (tensor<1x{n}x1x{elem}>) -> tensor<{n}x{elem}>"
    )
}

pub fn window(n: i64, elem: &str) -> String {
    let least = number(-1000, elem);
    format!(
        r#"%least = stablehlo.constant dense<{least}> : tensor<{elem}>
        %new = "stablehlo.reduce_window"(%u, %least) <{{window_dimensions = array<i64: 3>, padding = dense<[[2, 0]]> : tensor<1x2xi64>}}> ({{
        ^bb0(%a: tensor<{elem}>, %b: tensor<{elem}>):
          %m = stablehlo.maximum %a, %b : tensor<{elem}>
          stablehlo.return %m : tensor<{elem}>
        }}) : (tensor<{n}x{elem}>, tensor<{elem}>) -> tensor<{n}x{elem}>"#
    )
}

pub type Body = fn(i64, &str) -> String;
pub const BODIES: [(&str, Body); 6] = [
    ("update", update),
    ("concatenate", concatenate),
    ("pad", pad),
    ("roll", roll),
    ("convolution", convolution),
    ("window", window),
];

//! Shardy's text: what it prints is printed, what it reads is read, what it rejects is rejected.

mod common;

use common::placed;
use meshwork_mesh::{
    AxisList, AxisRef, Cursor, DimSharding, Mesh, Sharding, SymbolName, parse_axis, parse_axis_list,
    parse_dim_sharding, parse_mesh, parse_sharding,
};
use proptest::prelude::*;

#[test]
fn shardings_print_as_they_were_read() {
    let texts = [
        r#"<@foo, []>"#,
        r#"<@foo, [], replicated={"b"}>"#,
        r#"<@foo, [{"a"}, {}]>"#,
        r#"<@foo, [{}, {}], replicated={"a", "b"}>"#,
        r#"<@foo, [{}, {}], unreduced={"a", "b"}>"#,
        r#"<@foo, [{}, {}], unreduced=max{"a"}>"#,
        r#"<@foo, [{}, {}], replicated={"a"}, unreduced=min{"b"}>"#,
        r#"<mesh<["x"=2, "y"=2]>, [{"x"}, {}]>"#,
        r#"<mesh<["x"=2], device_ids=[1, 0]>, [{"x"}, {}]>"#,
        r#"<mesh<[], device_ids=[0]>, []>"#,
        r#"<@foo, [{"a", "b", ?}, {?}]>"#,
        r#"<@foo, [{"a":(1)2, "b", "a":(2)2}, {}], replicated={"b":(2)2}>"#,
        r#"<@foo, [{"a"}p0, {"b", ?}p1, {?}p12]>"#,
        r#"<@"a mesh", [{"an axis"}]>"#,
        r#"<@a.b$c_1, [{"q\22", "b\\", "n\0A", "\C3\A9"}]>"#,
    ];
    for text in texts {
        assert_eq!(parse_sharding(text).unwrap().to_string(), text);
    }
}

#[test]
fn other_spellings_are_read() {
    let cases = [
        (
            r#"<@foo, [{}, {}], unreduced={"b"}, replicated={"a"}>"#,
            r#"<@foo, [{}, {}], replicated={"a"}, unreduced={"b"}>"#,
        ),
        (r#"<@foo, [{}], unreduced=sum{"b"}>"#, r#"<@foo, [{}], unreduced={"b"}>"#),
        (r#"<@foo, [{}], unreduced{"b"}>"#, r#"<@foo, [{}], unreduced={"b"}>"#),
        (r#"<mesh<["x"=2], device_ids=[0, 1]>, [{"x"}]>"#, r#"<mesh<["x"=2]>, [{"x"}]>"#),
        (" < @foo,// a mesh\n [ {\"a\" , ? }\tp1 , { } ]\r\n>// end", r#"<@foo, [{"a", ?}p1, {}]>"#),
        (r#"<@foo,[{"a":( 0x2 ) 2,"\61\n\t\"\\"}]>"#, r#"<@foo, [{"a":(2)2, "a\0A\09\22\\"}]>"#),
    ];
    for (text, printed) in cases {
        assert_eq!(parse_sharding(text).unwrap().to_string(), printed);
    }
}

#[test]
fn full_attribute_names_are_read() {
    let sharding = parse_sharding("#sdy.sharding<mesh #sdy.mesh<[]>, [{}]>").unwrap();
    assert_eq!(sharding.to_string(), "<mesh<[]>, [{}]>");
    assert_eq!(parse_mesh("#sdy.mesh<[]>"), Ok(Mesh::empty()));
    assert!(parse_mesh("#sdy.sharding<[]>").is_err());
}

#[test]
fn parts_are_read_and_printed() {
    for text in ["<[]>", "<[], device_ids=[3]>", r#"<["a"=2, "b"=1], device_ids=[1, 0]>"#, r#"<["a"=-1]>"#] {
        assert_eq!(parse_mesh(text).unwrap().to_string(), text);
    }
    for text in [r#"{}"#, r#"{"x"}"#, r#"{"x", "y":(1)2}"#] {
        assert_eq!(AxisList(&parse_axis_list(text).unwrap()).to_string(), text);
    }
    assert_eq!(parse_dim_sharding("{?}p1").unwrap(), DimSharding::open([""; 0]).with_priority(1));
    assert_eq!(parse_axis(r#""x":(4)2"#).unwrap(), AxisRef::sub("x", 4, 2));
    assert_eq!(SymbolName("mesh_0").to_string(), "@mesh_0");
    assert_eq!(SymbolName("0").to_string(), r#"@"0""#);
    assert_eq!(SymbolName("").to_string(), r#"@"""#);
}

#[test]
fn messages_of_the_reader() {
    let cases = [
        ("", 0, "expected '<', found the end of the text"),
        ("<foo, []>", 1, "expected a mesh: '@name' or 'mesh<...>', found 'f'"),
        ("<@ foo, []>", 2, "expected a name right after '@'"),
        ("<@foo [{}]>", 6, "expected ',', found '['"),
        (r#"<@foo, [{"a"}phigh]>"#, 13, "expecting priority in format 'p<number>', got: phigh"),
        (r#"<@foo, [{"a"}p]>"#, 13, "expecting priority in format 'p<number>', got: p"),
        (r#"<@foo, [{"a"}p9999999999999999999]>"#, 13, "expecting integer priority, got: p9999999999999999999"),
        (r#"<@foo, [{"a"}p01]>"#, 13, "priorities with leading zeros are not allowed, got: p01"),
        (r#"<@foo, [{}], replicated{"a"}>"#, 23, "expected '=', found '{'"),
        (r#"<@foo, [{}], unreduced=["a"]>"#, 23, "expected '{', found '['"),
        (r#"<@foo, [{}], unreduced={"a", "b"[]}>"#, 32, "expected '}', found '['"),
        (r#"<@foo, [{}], replicated={"a", b}>"#, 30, "expected string, found 'b'"),
        (r#"<@foo, [{}], replicated={}>"#, 25, "expected string, found '}'"),
        (
            r#"<@foo, [{}],>"#,
            12,
            "expected valid named axis list after comma: 'replicated' or 'unreduced', each once, found '>'",
        ),
        (
            r#"<@foo, [{}], unknown={"a"}>"#,
            13,
            "expected valid named axis list after comma: 'replicated' or 'unreduced', each once, found 'u'",
        ),
        (
            r#"<@foo, [{}], replicated={"a"}, replicated={"b"}>"#,
            31,
            "expected valid named axis list after comma: 'replicated' or 'unreduced', each once, found 'r'",
        ),
        (r#"<@foo, [{"a",}]>"#, 13, "expected string, found '}'"),
        (r#"<@foo, [{"a" ?}]>"#, 13, "expected ',', found '?'"),
        (r#"<@foo, [{?, "a"}]>"#, 10, "expected '}', found ','"),
        (r#"<@foo, [{"a}]>"#, 9, "expected '\"' in string literal"),
        (r#"<@foo, [{"\q"}]>"#, 9, "unknown escape in string literal"),
        (r#"<@foo, [{"\FF"}]>"#, 9, "string literal is not UTF-8"),
        (r#"<@foo, [{"a":(9223372036854775808)2}]>"#, 14, "integer value too large: 9223372036854775808"),
        (r#"<@foo, [{"a":(x)2}]>"#, 14, "expected integer value, found 'x'"),
        (r#"<mesh<["a"=2], device_ids=[]>, []>"#, 27, "expected integer value, found ']'"),
        (r#"<@foo, []> x"#, 11, "expected end of text, found 'x'"),
    ];
    for (text, offset, message) in cases {
        let error = parse_sharding(text).unwrap_err();
        assert_eq!((error.offset, &*error.message), (offset, message), "{text}");
    }
}

#[test]
fn errors_know_their_line() {
    let text = "<@foo,\n // é\n  [é]>";
    let error = parse_sharding(text).unwrap_err();
    assert_eq!(error.line_column(text), (3, 4));
}

#[test]
fn cursor_works_inside_a_larger_text() {
    let text = r#"{sdy.sharding = #sdy.sharding_per_value<[<@m, [{"x"}]>, <@m, []>]>} : f32"#;
    let mut cursor = Cursor::at(text, text.find('[').unwrap());
    assert_eq!(cursor.parse_shardings().unwrap().len(), 2);
    assert_eq!(cursor.rest(), ">} : f32");
    let mut cursor = Cursor::new(r#"[{"x"}, {}] rest"#);
    assert_eq!(cursor.parse_axis_lists().unwrap(), [vec![AxisRef::full("x")], vec![]]);
    assert_eq!((cursor.eat_any_keyword(), cursor.peek()), (Some("rest"), None));
    assert_eq!(Cursor::at("é", 1).peek(), None);
    assert_eq!(Cursor::at("a", 9).position(), 1);
}

#[test]
fn min_and_max_integers_are_read() {
    for value in [i64::MIN, i64::MAX] {
        assert_eq!(Cursor::new(&value.to_string()).parse_integer(), Ok(value));
    }
    assert!(Cursor::new(&format!("{}", i64::MIN as i128 - 1)).parse_integer().is_err());
    assert!(Cursor::new(&"9".repeat(1000)).parse_integer().is_err());
}

proptest! {
    #[test]
    fn generated_shardings_come_back((mesh, sharding, _) in placed()) {
        prop_assert_eq!(&parse_sharding(&sharding.to_string()).unwrap(), &sharding);
        prop_assert_eq!(&mesh.to_string().parse::<Mesh>().unwrap(), &mesh);
        let inline = Sharding { mesh: mesh.into(), ..sharding };
        prop_assert_eq!(parse_sharding(&inline.to_string()).unwrap(), inline);
    }

    #[test]
    fn any_name_comes_back(name in any::<String>()) {
        let sharding = Sharding::data_parallel(&*name, 1, &*name).unwrap();
        prop_assert_eq!(parse_sharding(&sharding.to_string()).unwrap(), sharding);
    }

    #[test]
    fn no_text_panics(text in any::<String>()) {
        let _ = (parse_sharding(&text), parse_mesh(&text), parse_axis(&text));
    }

    #[test]
    fn no_damaged_text_panics(
        (mesh, sharding, _) in placed(), at in any::<prop::sample::Index>(), with in any::<char>(), keep in any::<bool>(),
    ) {
        let sharding = Sharding { mesh: mesh.into(), ..sharding };
        let mut text: Vec<char> = sharding.to_string().chars().collect();
        let at = at.index(text.len());
        if keep { text.insert(at, with) } else { text[at] = with }
        let text: String = text.into_iter().collect();
        if let Ok(read) = parse_sharding(&text) {
            prop_assert_eq!(parse_sharding(&read.to_string()).unwrap(), read);
        }
        let _ = parse_sharding(&text[..text.floor_char_boundary(at)]);
    }
}

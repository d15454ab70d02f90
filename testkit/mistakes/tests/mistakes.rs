//! Each case is one row of the table in the documentation of `optik-controller`.

#[test]
fn controller_mistakes_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/cases/*.rs");
}

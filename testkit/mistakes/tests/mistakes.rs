//! Each case is one row of the table in the documentation of `optik-controller`.

#[test]
fn none_of_them_compiles() {
    trybuild::TestCases::new().compile_fail("tests/cases/*.rs");
}

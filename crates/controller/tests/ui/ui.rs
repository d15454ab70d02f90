//! Mistakes that people make with optimistic concurrency, as `cases/*.rs`. Each must be refused by
//! the compiler, for the reason in the `.stderr` beside it (`TRYBUILD=overwrite` writes it anew).
//! Each case is one row of the table in `docs/controllers.md`.

#[test]
fn controller_mistakes_do_not_compile() {
    trybuild::TestCases::new().compile_fail("cases/*.rs");
}

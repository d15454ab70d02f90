//! Fuzz target: any text compiles as a CEL expression or is rejected, and any expression terminates
//! within its cost limit, on any object.
#![no_main]

use libfuzzer_sys::fuzz_target;
use optik_cel::{
    Activation, CALL_COST_MAX, CelType, DeclType, Environment, EvalError, Program, Value,
};
use optik_object::{Value as Json, parse};
use optik_schema::structural::{Structural, shape_of};
use std::sync::LazyLock;

static SCHEMA: LazyLock<DeclType> = LazyLock::new(|| {
    let text = r#"{"type": "object", "properties": {
        "i": {"type": "integer"}, "d": {"type": "number"}, "s": {"type": "string"},
        "l": {"type": "array", "items": {"type": "string"}},
        "t": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "m": {"type": "object", "additionalProperties": {"type": "integer"}},
        "at": {"type": "string", "format": "date-time"},
        "x": {"x-kubernetes-int-or-string": true}}}"#;
    let schema = parse(text.as_bytes()).expect("a schema").value;
    shape_of(&Structural::from_json(&schema), true, "selfType").expect("a shape")
});

struct Object<'a> {
    json: &'a Json,
    typed: bool,
}

impl<'a> Activation<'a> for Object<'a> {
    fn resolve(&self, _: usize) -> Result<Value<'a>, EvalError> {
        match self.typed {
            true => Value::typed(self.json, &SCHEMA),
            false => Ok(Value::untyped(self.json)),
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    // An object may follow the expression.
    let (source, object) = text.split_once('\0').unwrap_or((text, "{}"));
    let object = parse(object.as_bytes()).map(|parsed| parsed.value);
    let object = object.unwrap_or_default();
    for typed in [true, false] {
        let of = if typed {
            SCHEMA.type_of()
        } else {
            CelType::Dyn
        };
        let names = Environment::default()
            .with_variable("self", of.clone())
            .with_variable("oldSelf", of);
        let Ok(program) = Program::compile(source, &names, typed.then_some(&SCHEMA)) else {
            continue;
        };
        let variables = Object {
            json: &object,
            typed,
        };
        let first = program.run(&variables, CALL_COST_MAX);
        let second = program.run(&variables, CALL_COST_MAX);
        assert_eq!(first.cost, second.cost);
        assert_eq!(
            format!("{:?}", first.result),
            format!("{:?}", second.result)
        );
    }
});

//! Parts of instants and durations.

use super::Function;
use crate::spend::Price;
use crate::time::Part;
use crate::value::{Fault, Result, Value};

pub(crate) fn find(name: &str) -> Option<Function> {
    let run: super::Run = match name {
        "getFullYear" => |args| part(args, Part::Year),
        "getMonth" => |args| part(args, Part::Month),
        "getDayOfYear" => |args| part(args, Part::DayOfYear),
        "getDayOfMonth" => |args| part(args, Part::DayOfMonth),
        "getDate" => |args| part(args, Part::Date),
        "getDayOfWeek" => |args| part(args, Part::DayOfWeek),
        "getHours" => |args| part(args, Part::Hours),
        "getMinutes" => |args| part(args, Part::Minutes),
        "getSeconds" => |args| part(args, Part::Seconds),
        "getMilliseconds" => |args| part(args, Part::Milliseconds),
        _ => return None,
    };
    Some(Function {
        run,
        price: Price::One,
    })
}

fn part<'a>(args: &[Value<'a>], part: Part) -> Result<Value<'a>> {
    let number = match args {
        [Value::Timestamp(at)] => at.part(part, None),
        [Value::Timestamp(at), Value::String(zone)] => at.part(part, Some(zone.as_str())),
        [Value::Duration(nanos)] => {
            let unit = match part {
                Part::Hours => 3_600_000_000_000,
                Part::Minutes => 60_000_000_000,
                Part::Seconds => 1_000_000_000,
                Part::Milliseconds => 1_000_000,
                _ => return Err(Fault::no_overload()),
            };
            Ok(nanos / unit)
        }
        _ => return Err(Fault::no_overload()),
    };
    number.map(Value::Int).map_err(Fault::new)
}

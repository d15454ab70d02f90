//! Accessors of the parts of timestamps and durations.

use super::Function;
use crate::runtime_cost::CallCost;
use crate::time::TimestampField;
use crate::value::{EvalError, Result, Value};

pub(crate) fn find(name: &str) -> Option<Function> {
    let run: super::FunctionImpl = match name {
        "getFullYear" => |args| component(args, TimestampField::Year),
        "getMonth" => |args| component(args, TimestampField::Month),
        "getDayOfYear" => |args| component(args, TimestampField::DayOfYear),
        "getDayOfMonth" => |args| component(args, TimestampField::DayOfMonth),
        "getDate" => |args| component(args, TimestampField::Date),
        "getDayOfWeek" => |args| component(args, TimestampField::DayOfWeek),
        "getHours" => |args| component(args, TimestampField::Hours),
        "getMinutes" => |args| component(args, TimestampField::Minutes),
        "getSeconds" => |args| component(args, TimestampField::Seconds),
        "getMilliseconds" => |args| component(args, TimestampField::Milliseconds),
        _ => return None,
    };
    Some(Function {
        run,
        price: CallCost::Constant,
    })
}

fn component<'a>(args: &[Value<'a>], part: TimestampField) -> Result<Value<'a>> {
    let number = match args {
        [Value::Timestamp(at)] => at.field(part, None),
        [Value::Timestamp(at), Value::String(zone)] => at.field(part, Some(zone.as_str())),
        [Value::Duration(nanos)] => {
            let unit = match part {
                TimestampField::Hours => 3_600_000_000_000,
                TimestampField::Minutes => 60_000_000_000,
                TimestampField::Seconds => 1_000_000_000,
                TimestampField::Milliseconds => 1_000_000,
                _ => return Err(EvalError::no_overload()),
            };
            Ok(nanos / unit)
        }
        _ => return Err(EvalError::no_overload()),
    };
    number.map(Value::Int).map_err(EvalError::new)
}

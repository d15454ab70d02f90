//! The IP and CIDR libraries: IP addresses and networks.

use super::{OpaqueValue, args};
use crate::value::{EvalError, Result, Value};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// An IP network in CIDR notation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    ip: IpAddr,
    bits: u8,
}

impl Cidr {
    fn parse(text: &str) -> std::result::Result<Self, String> {
        let failed = |why: &str| {
            let shown = optik_object::quote(text);
            format!(
                "network address parse error during conversion from string: \
                 netip.ParsePrefix({shown}): {why}"
            )
        };
        let (ip, bits) = text.rsplit_once('/').ok_or_else(|| failed("no '/'"))?;
        let ip: IpAddr = ip.parse().map_err(|_| {
            let shown = optik_object::quote(ip);
            failed(&format!("ParseAddr({shown}): unable to parse IP"))
        })?;
        let good =
            (bits == "0" || !bits.starts_with('0')) && bits.bytes().all(|b| b.is_ascii_digit());
        let number: Option<u8> = good.then(|| bits.parse().ok()).flatten();
        let most = if ip.is_ipv4() { 32 } else { 128 };
        match number {
            Some(bits) if bits <= most => {
                if let IpAddr::V6(ip) = ip
                    && is_mapped(ip)
                {
                    let shown = optik_object::quote(text);
                    return Err(format!("IPv4-mapped IPv6 address {shown} is not allowed"));
                }
                Ok(Self { ip, bits })
            }
            Some(_) => Err(failed("prefix length out of range")),
            None => {
                let shown = optik_object::quote(bits);
                Err(failed(&format!("bad bits after slash: {shown}")))
            }
        }
    }

    /// The number of bytes that the prefix covers.
    pub(crate) const fn size(&self) -> usize {
        (self.bits as usize).div_ceil(8)
    }

    fn masked(self) -> Self {
        let ip = match self.ip {
            IpAddr::V4(ip) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                IpAddr::V4((u32::from(ip) & mask).into())
            }
            IpAddr::V6(ip) => {
                let mask = u128::MAX
                    .checked_shl(128 - u32::from(self.bits))
                    .unwrap_or(0);
                IpAddr::V6((u128::from(ip) & mask).into())
            }
        };
        Self { ip, ..self }
    }

    fn contains(self, ip: IpAddr) -> bool {
        self.ip.is_ipv4() == ip.is_ipv4() && Self { ip, ..self }.masked().ip == self.masked().ip
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.ip, self.bits)
    }
}

fn is_mapped(ip: Ipv6Addr) -> bool {
    ip.to_ipv4_mapped().is_some()
}

fn parse_ip(text: &str) -> Result<IpAddr> {
    let shown = || optik_object::quote(text);
    if let Some((address, zone)) = text.split_once('%')
        && address.parse::<Ipv6Addr>().is_ok()
        && !zone.is_empty()
    {
        let text = format!("IP address {} with zone value is not allowed", shown());
        return Err(EvalError::new(text));
    }
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(ip)) if is_mapped(ip) => {
            let text = format!("IPv4-mapped IPv6 address {} is not allowed", shown());
            Err(EvalError::new(text))
        }
        Ok(ip) => Ok(ip),
        Err(_) => Err(EvalError::new(format!(
            "IP Address {} parse error during conversion from string: ParseAddr({}): unable to \
             parse IP",
            shown(),
            shown()
        ))),
    }
}

pub(crate) fn ip<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    match args {
        [Value::String(text)] => Ok(Value::opaque(OpaqueValue::Ip(parse_ip(text.as_str())?))),
        [Value::Opaque(thing)] => match &**thing {
            OpaqueValue::Cidr(cidr) => Ok(Value::opaque(OpaqueValue::Ip(cidr.ip))),
            _ => Err(EvalError::no_overload()),
        },
        _ => Err(EvalError::no_overload()),
    }
}

pub(crate) fn is_ip<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    args!(args, Value::String(text) => Ok(Value::Bool(parse_ip(text.as_str()).is_ok())))
}

pub(crate) fn is_canonical<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    args!(args, Value::String(text) => {
        let ip = parse_ip(text.as_str())?;
        Ok(Value::Bool(ip.to_string() == text.as_str()))
    })
}

fn map_ip<'a>(args: &[Value<'a>], is: impl Fn(IpAddr) -> Value<'a>) -> Result<Value<'a>> {
    match args {
        [Value::Opaque(thing)] => match &**thing {
            OpaqueValue::Ip(ip) => Ok(is(*ip)),
            _ => Err(EvalError::no_overload()),
        },
        _ => Err(EvalError::no_overload()),
    }
}

pub(crate) fn family<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    map_ip(args, |ip| Value::Int(if ip.is_ipv4() { 4 } else { 6 }))
}

pub(crate) fn is_unspecified<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    map_ip(args, |ip| Value::Bool(ip.is_unspecified()))
}

pub(crate) fn is_loopback<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    map_ip(args, |ip| Value::Bool(ip.is_loopback()))
}

fn link_local_multicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.octets()[..3] == [224, 0, 0],
        IpAddr::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
    }
}

fn link_local_unicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.segments()[0] & 0xffc0 == 0xfe80,
    }
}

pub(crate) fn is_link_local_multicast<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    map_ip(args, |ip| Value::Bool(link_local_multicast(ip)))
}

pub(crate) fn is_link_local_unicast<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    map_ip(args, |ip| Value::Bool(link_local_unicast(ip)))
}

pub(crate) fn is_global_unicast<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    map_ip(args, |ip| {
        let broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
        let other = ip.is_unspecified() || ip.is_loopback() || ip.is_multicast();
        Value::Bool(!(broadcast || other || link_local_unicast(ip)))
    })
}

pub(crate) fn cidr<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    args!(args, Value::String(text) => Ok(Value::opaque(OpaqueValue::Cidr(parse_cidr(text.as_str())?))))
}

fn parse_cidr(text: &str) -> Result<Cidr> {
    Cidr::parse(text).map_err(|why| {
        let prefix = "network address parse error during conversion from string: ";
        EvalError::new(format!("{prefix}{why}"))
    })
}

pub(crate) fn is_cidr<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    args!(args, Value::String(text) => Ok(Value::Bool(Cidr::parse(text.as_str()).is_ok())))
}

fn as_cidr(value: &Value<'_>) -> Result<Cidr> {
    match value {
        Value::Opaque(thing) => match &**thing {
            OpaqueValue::Cidr(cidr) => Ok(*cidr),
            _ => Err(EvalError::no_overload()),
        },
        Value::String(text) => parse_cidr(text.as_str()),
        _ => Err(EvalError::no_overload()),
    }
}

pub(crate) fn contains_ip<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    let [cidr, ip] = args else {
        return Err(EvalError::no_overload());
    };
    let cidr = as_cidr(cidr)?;
    let ip = match ip {
        // Upstream discards the parse error too.
        Value::String(text) => parse_ip(text.as_str()).map_err(|_| EvalError::no_overload())?,
        Value::Opaque(thing) => match &**thing {
            OpaqueValue::Ip(ip) => *ip,
            _ => return Err(EvalError::no_overload()),
        },
        _ => return Err(EvalError::no_overload()),
    };
    Ok(Value::Bool(cidr.contains(ip)))
}

pub(crate) fn contains_cidr<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    args!(args, outer, inner => {
        let outer = as_cidr(outer)?;
        let inner = as_cidr(inner)?;
        Ok(Value::Bool(outer.bits <= inner.bits && outer.contains(inner.ip)))
    })
}

pub(crate) fn prefix_length<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    args!(args, cidr => Ok(Value::Int(i64::from(as_cidr(cidr)?.bits))))
}

pub(crate) fn masked<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    args!(args, cidr => Ok(Value::opaque(OpaqueValue::Cidr(as_cidr(cidr)?.masked()))))
}

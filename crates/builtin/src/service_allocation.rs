//! Service allocation: cluster IPs and node ports.

use crate::validation::{items, text};
use optik_object::{FieldError, Map, Object, Value};
use serde_json::json;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;

/// The ranges to allocate from.
#[derive(Clone, Debug)]
pub struct ServiceRanges {
    /// The service CIDR: its first address and prefix length.
    pub network: (Ipv4Addr, u32),
    pub ports: RangeInclusive<u16>,
}

impl Default for ServiceRanges {
    fn default() -> Self {
        Self {
            network: (Ipv4Addr::new(10, 96, 0, 0), 12),
            ports: 30000..=32767,
        }
    }
}

/// Why a CIDR cannot be used as the service CIDR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceCidrError {
    /// Not of the form `10.96.0.0/12`.
    Malformed,
    /// Only IPv4 is supported.
    Family,
    /// It has too few addresses, or more than a million.
    Size,
}

impl std::error::Error for ServiceCidrError {}

impl std::fmt::Display for ServiceCidrError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Malformed => "must be a CIDR such as 10.96.0.0/12",
            Self::Family => "only IPv4 service CIDRs are supported",
            Self::Size => "prefix length must be between 12 and 30",
        })
    }
}

/// A value that only one service can hold at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServiceAllocation {
    Address(IpAddr),
    Port(u16),
}

impl ServiceRanges {
    /// The default ranges with another service CIDR: `10.96.0.0/12`.
    pub fn from_cidr(text: &str) -> Result<Self, ServiceCidrError> {
        let (address, bits) = text.split_once('/').ok_or(ServiceCidrError::Malformed)?;
        let address: IpAddr = address.parse().map_err(|_| ServiceCidrError::Malformed)?;
        let bits: u32 = bits.parse().map_err(|_| ServiceCidrError::Malformed)?;
        let IpAddr::V4(address) = address else {
            return Err(ServiceCidrError::Family);
        };
        if !(12..=30).contains(&bits) {
            return Err(ServiceCidrError::Size);
        }
        let mask = u32::MAX << (32 - bits);
        let first = Ipv4Addr::from(u32::from(address) & mask);
        Ok(Self {
            network: (first, bits),
            ..Self::default()
        })
    }

    /// The number of allocatable addresses: the first and the last are excluded.
    fn addresses(&self) -> u32 {
        let free_bits = 32_u32.saturating_sub(self.network.1).min(31);
        (1_u32 << free_bits).saturating_sub(2)
    }

    fn address(&self, at: u32) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.network.0).wrapping_add(at + 1))
    }

    /// The cluster IP of the service `kubernetes` (the API server).
    #[must_use]
    pub fn first_address(&self) -> Ipv4Addr {
        self.address(0)
    }

    /// The service CIDR as text: `10.96.0.0/12`.
    #[must_use]
    pub fn cidr(&self) -> String {
        format!("{}/{}", self.network.0, self.network.1)
    }

    fn has(&self, address: IpAddr) -> bool {
        let IpAddr::V4(address) = address else {
            return false;
        };
        let first = u32::from(self.network.0);
        let at = u32::from(address).wrapping_sub(first + 1);
        at < self.addresses()
    }
}

fn spec(object: &Object) -> &Value {
    object.get("spec").unwrap_or(&Value::Null)
}

/// The values that a service holds.
#[must_use]
pub fn held_allocations(object: &Object) -> Vec<ServiceAllocation> {
    let spec = spec(object);
    let mut claims = Vec::new();
    let mut seen = BTreeSet::new();
    if text(&spec["type"]) != "ExternalName" {
        let addresses = items(&spec["clusterIPs"]).iter();
        claims.extend(
            addresses.filter_map(|one| text(one).parse().ok().map(ServiceAllocation::Address)),
        );
    }
    for port in items(&spec["ports"]) {
        let number = port["nodePort"].as_u64().unwrap_or(0);
        if let Ok(port) = u16::try_from(number)
            && number != 0
            && seen.insert(port)
        {
            claims.push(ServiceAllocation::Port(port));
        }
    }
    claims
}

/// Allocates the cluster IP and node ports that a service needs and lacks. Values that the client
/// requests must be free, or held by the service already.
pub fn allocate(
    object: &mut Object,
    ranges: &ServiceRanges,
    own: &[ServiceAllocation],
    is_taken: &dyn Fn(ServiceAllocation) -> bool,
    random: u64,
) -> Result<(), FieldError> {
    let own: BTreeSet<ServiceAllocation> = own.iter().copied().collect();
    let free = |claim: ServiceAllocation| own.contains(&claim) || !is_taken(claim);
    let Some(Value::Object(spec)) = object.members_mut().get_mut("spec") else {
        return Ok(());
    };
    assign_cluster_ips(spec, ranges, &free, random)?;
    assign_node_ports(spec, ranges, &free, random)
}

fn assign_cluster_ips(
    spec: &mut Map,
    ranges: &ServiceRanges,
    free: &dyn Fn(ServiceAllocation) -> bool,
    random: u64,
) -> Result<(), FieldError> {
    let member = |name: &str| spec.get(name).cloned().unwrap_or(Value::Null);
    if member("type") == "ExternalName" || member("clusterIP") == "None" {
        return Ok(());
    }
    let refuse = |shown: Value, address: &str, why: &str| {
        let message = format!("failed to allocate IP {address}: {why}");
        FieldError::invalid("spec.clusterIPs", shown, message)
    };
    let given = member("clusterIPs");
    if let Some(address) = items(&given).first().map(text)
        && let Ok(parsed) = address.parse::<IpAddr>()
    {
        if !ranges.has(parsed) {
            let why = "the provided network does not match the current range";
            return Err(refuse(given.clone(), address, why));
        }
        if !free(ServiceAllocation::Address(parsed)) {
            let why = "provided IP is already allocated";
            return Err(refuse(given.clone(), address, why));
        }
        return Ok(());
    }
    let count = ranges.addresses();
    let start = u32::try_from(random % u64::from(count.max(1))).unwrap_or(0);
    let mut candidates = (0..count).map(|at| ranges.address((start + at) % count));
    let chosen = candidates.find(|address| free(ServiceAllocation::Address((*address).into())));
    let Some(address) = chosen else {
        return Err(FieldError::new(
            "spec.clusterIPs",
            optik_object::FieldErrorKind::Internal,
            "failed to allocate a serviceIP: range is full",
        ));
    };
    let address = address.to_string();
    spec.insert("clusterIP".into(), address.as_str().into());
    spec.insert("clusterIPs".into(), json!([address]));
    Ok(())
}

fn assign_node_ports(
    spec: &mut Map,
    ranges: &ServiceRanges,
    free: &dyn Fn(ServiceAllocation) -> bool,
    random: u64,
) -> Result<(), FieldError> {
    let kind = spec.get("type").cloned().unwrap_or(Value::Null);
    let balanced = kind == "LoadBalancer";
    let unwanted = spec.get("allocateLoadBalancerNodePorts") == Some(&Value::Bool(false));
    if kind != "NodePort" && !balanced {
        return Ok(());
    }
    let Some(Value::Array(ports)) = spec.get_mut("ports") else {
        return Ok(());
    };
    let asked = |port: &Value| port["nodePort"].as_u64().unwrap_or(0);
    let mut used: BTreeSet<u64> = ports.iter().map(asked).filter(|port| *port != 0).collect();
    let count = u64::try_from(ranges.ports.len()).unwrap_or(1).max(1);
    let first = u64::from(*ranges.ports.start());
    // One iterator for all ports, because a candidate that is in use stays in use.
    let mut candidates = (0..count).map(|step| first + (random + step) % count);
    for (at, port) in ports.iter_mut().enumerate() {
        let refuse = |message: String| {
            let path = format!("spec.ports[{at}].nodePort");
            FieldError::invalid(path, asked(port), message)
        };
        let number = asked(port);
        if number != 0 {
            let inside = u16::try_from(number)
                .ok()
                .filter(|one| ranges.ports.contains(one));
            let Some(inside) = inside else {
                let (first, last) = (ranges.ports.start(), ranges.ports.end());
                return Err(refuse(format!(
                    "provided port is not in the valid range. The range of valid ports is \
                     {first}-{last}"
                )));
            };
            if !free(ServiceAllocation::Port(inside)) {
                return Err(refuse("provided port is already allocated".into()));
            }
            continue;
        }
        if balanced && unwanted {
            continue;
        }
        let chosen = candidates.find(|one| {
            let claim = u16::try_from(*one).map(ServiceAllocation::Port);
            !used.contains(one) && claim.is_ok_and(free)
        });
        let Some(chosen) = chosen else {
            return Err(refuse(
                "failed to allocate a nodePort: range is full".into(),
            ));
        };
        used.insert(chosen);
        port["nodePort"] = chosen.into();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(spec: &Value) -> Object {
        Object::try_from(json!({"spec": spec})).unwrap()
    }

    #[test]
    fn service_cidrs_are_parsed_and_checked() {
        for (text, expected) in [
            ("10.96.0.0/12", Ok("10.96.0.0/12")),
            ("10.0.0.9/24", Ok("10.0.0.0/24")),
            ("10.0.0.0", Err(ServiceCidrError::Malformed)),
            ("10.0.0/24", Err(ServiceCidrError::Malformed)),
            ("fd00::/112", Err(ServiceCidrError::Family)),
            ("10.0.0.0/8", Err(ServiceCidrError::Size)),
            ("10.0.0.0/31", Err(ServiceCidrError::Size)),
            ("10.0.0.0/-1", Err(ServiceCidrError::Malformed)),
        ] {
            let read = ServiceRanges::from_cidr(text).map(|ranges| ranges.cidr());
            assert_eq!(read.as_deref(), expected.as_ref().copied(), "{text}");
        }
    }

    #[test]
    fn allocated_ips_and_ports_are_not_reused() {
        let ranges = ServiceRanges {
            network: (Ipv4Addr::new(10, 0, 0, 0), 30),
            ports: 30000..=30001,
        };
        let mut object = service(&json!({"type": "NodePort", "ports": [{"port": 1}, {"port": 2}]}));
        let first = ServiceAllocation::Address(ranges.first_address().into());
        allocate(&mut object, &ranges, &[], &|claim| claim == first, 5).unwrap();
        assert_eq!(object.get("spec").unwrap()["clusterIP"], "10.0.0.2");
        assert_eq!(
            held_allocations(&object),
            [
                ServiceAllocation::Address(Ipv4Addr::new(10, 0, 0, 2).into()),
                ServiceAllocation::Port(30001),
                ServiceAllocation::Port(30000)
            ]
        );
        let mut other = service(&json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"]}));
        let refused = allocate(&mut other, &ranges, &[], &|claim| claim == first, 0).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "spec.clusterIPs: Invalid value: [\"10.0.0.1\"]: failed to allocate IP 10.0.0.1: \
             provided IP is already allocated"
        );
        assert!(allocate(&mut other, &ranges, &[first], &|claim| claim == first, 0).is_ok());
        let mut none = service(&json!({}));
        assert!(allocate(&mut none, &ranges, &[], &|_| true, 0).is_err());
    }
}

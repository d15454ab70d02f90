//! The objects that the benchmark sends: ConfigMaps from a template, stamped with a name and a
//! number.

use super::scan::NUMBER;
use bytes::Bytes;

/// The label of all objects of the benchmark. Its value is the number of the part in which cleanup
/// deletes the object.
pub(crate) const LABEL: &str = "optik-bench";
/// A server may delete a collection one object after the other, so cleanup deletes it in parts.
pub(crate) const PARTS: u64 = 4;

/// A ConfigMap but for its name, version and number.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    /// From the end of the number to the end of the object.
    rest: String,
}

impl Template {
    pub(crate) fn new(data_bytes: usize) -> Self {
        Self {
            rest: format!("\",\"fill\":\"{}\"}}}}", noise(data_bytes)),
        }
    }

    pub(crate) fn object(&self, name: &str, number: u64) -> Bytes {
        self.versioned(name, None, number)
    }

    /// The object with the resourceVersion of the version that it replaces.
    pub(crate) fn versioned(&self, name: &str, version: Option<&str>, number: u64) -> Bytes {
        let mut text = String::with_capacity(self.rest.len() + 256);
        text += "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"";
        text += name;
        if let Some(version) = version {
            text += "\",\"resourceVersion\":\"";
            text += version;
        }
        text += "\",\"labels\":{\"";
        text += LABEL;
        text += "\":\"";
        text += &(part(name)).to_string();
        text += "\"}},\"data\":{\"";
        text += NUMBER;
        text += "\":\"";
        text += &number.to_string();
        text += &self.rest;
        text.into()
    }
}

/// Which part of the clean-up an object belongs to.
fn part(name: &str) -> u64 {
    name.bytes().map(u64::from).sum::<u64>() % PARTS
}

/// Letters that do not compress: neither server shall gain from that.
fn noise(bytes: usize) -> String {
    const LETTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    let mut dice = Dice::new(1);
    let letter = |_| char::from(LETTERS[dice.below(LETTERS.len())]);
    (0..bytes).map(letter).collect()
}

/// A deterministic pseudo-random sequence (SplitMix64), equal in each run.
#[derive(Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number from 0 up to, but not including, `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::super::scan;
    use super::*;

    #[test]
    fn an_object_is_valid_and_holds_what_it_was_given() {
        let template = Template::new(1000);
        let bytes = template.versioned("w1-5", Some("77"), 9);
        let object: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
        assert_eq!(object["metadata"]["name"], "w1-5");
        assert_eq!(object["metadata"]["resourceVersion"], "77");
        assert_eq!(object["data"]["fill"].as_str().map(str::len), Some(1000));
        assert_eq!(scan::number(&bytes), Some(9));
        assert_eq!(scan::resource_version(&bytes), Some("77"));
        let new: serde_json::Value =
            serde_json::from_slice(&template.object("a", 0)).expect("JSON");
        assert!(new["metadata"].get("resourceVersion").is_none());
        let part = new["metadata"]["labels"][LABEL].as_str().expect("a label");
        assert!(part.parse::<u64>().expect("a number") < PARTS);
    }

    #[test]
    fn dice_stay_in_range_and_reach_all_of_it() {
        let mut dice = Dice::new(3);
        let mut seen = [false; 10];
        (0..1000).for_each(|_| seen[dice.below(10)] = true);
        assert_eq!(seen, [true; 10]);
    }
}

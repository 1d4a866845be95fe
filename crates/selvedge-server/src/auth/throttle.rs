//! Slows down those who guess keys or tokens: failed attempts are counted per address.
//!
//! A caller with a valid key never meets this table, whatever others at its address do: the key is looked up first, and only
//! a failure is counted. The table is bounded. Addresses of IPv6 are counted by their first 64 bits, which one customer has.

use axum::http::HeaderMap;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The number of failures of an address that are answered with 401. Further ones are answered with 429.
const FREE_FAILURES: u32 = 10;
/// The time after which one failure is forgotten.
const FORGET_AFTER: Duration = Duration::from_secs(6);
/// The largest number of failures that is counted: after it an address has to wait for a minute.
const FAILURES_MAX: u32 = 19;
/// The maximum number of addresses in the table.
const ADDRESSES_MAX: usize = 10_000;

/// The failed attempts of each address.
#[derive(Default)]
pub struct Throttle {
    table: Mutex<HashMap<IpAddr, Failures>>,
}

#[derive(Clone, Copy)]
struct Failures {
    count: u32,
    at: Instant,
}

impl Failures {
    /// Returns the failures that are not forgotten at `now`.
    fn left(self, now: Instant) -> u32 {
        let forgotten = now.saturating_duration_since(self.at).as_secs() / FORGET_AFTER.as_secs();
        self.count.saturating_sub(u32::try_from(forgotten).unwrap_or(u32::MAX))
    }
}

impl Throttle {
    /// Reports whether an address has failed so often that its next failure is answered with 429.
    pub fn is_suspicious(&self, address: IpAddr, now: Instant) -> bool {
        self.lock().get(&bucket(address)).is_some_and(|failures| failures.left(now) >= FREE_FAILURES)
    }

    /// Counts a failure. Returns the time to wait, if the address has failed too often.
    pub fn count_failure(&self, address: IpAddr, now: Instant) -> Option<Duration> {
        let mut table = self.lock();
        let address = bucket(address);
        if table.len() >= ADDRESSES_MAX && !table.contains_key(&address) {
            table.retain(|_, failures| failures.left(now) > 0);
            if table.len() >= ADDRESSES_MAX {
                // More addresses fail than the table has room for. Forgetting them costs less than refusing to count.
                table.clear();
            }
        }
        let known = table.entry(address).or_insert(Failures { count: 0, at: now });
        let count = known.left(now).saturating_add(1).min(FAILURES_MAX);
        *known = Failures { count, at: now };
        // After this time the next failure is answered with 401 again.
        (count > FREE_FAILURES).then(|| FORGET_AFTER * (count + 1 - FREE_FAILURES))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<IpAddr, Failures>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bucket(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
    }
}

/// A block of addresses in CIDR notation, such as `10.0.0.0/8`. An address alone is a block of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressBlock {
    address: IpAddr,
    bits: u8,
}

impl FromStr for AddressBlock {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("{text:?} is not a block of addresses; write ADDRESS/BITS, for example 10.0.0.0/8");
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.trim().parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), |bits| bits.trim().parse().map_err(|_| wrong()))?;
        if bits > most {
            return Err(wrong());
        }
        Ok(AddressBlock { address, bits })
    }
}

impl AddressBlock {
    /// Reports whether the block has an address.
    pub fn has(self, address: IpAddr) -> bool {
        let bits = u32::from(self.bits);
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(block), IpAddr::V4(address)) => {
                (block.to_bits() ^ address.to_bits()).checked_shr(32 - bits).unwrap_or(0) == 0
            }
            (IpAddr::V6(block), IpAddr::V6(address)) => {
                (block.to_bits() ^ address.to_bits()).checked_shr(128 - bits).unwrap_or(0) == 0
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

/// Returns the address of the client behind trusted proxies: the last one in `X-Forwarded-For` that is not a trusted proxy.
/// A peer that is not trusted is the client itself, whatever it says.
pub fn client_address(peer: Option<SocketAddr>, headers: &HeaderMap, trusted: &[AddressBlock]) -> IpAddr {
    let unknown = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    let is_trusted = |address: IpAddr| trusted.iter().any(|block| block.has(address));
    let mut client = peer.map_or(unknown, |peer| peer.ip().to_canonical());
    if !is_trusted(client) {
        return client;
    }
    let values = headers.get_all("x-forwarded-for").iter().rev();
    let named = values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.rsplit(','));
    for address in named {
        let Ok(address) = address.trim().parse::<IpAddr>() else { break };
        client = address.to_canonical();
        if !is_trusted(client) {
            break;
        }
    }
    client
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_fails_often_has_to_wait_and_is_forgiven_after_a_while() {
        let (throttle, now) = (Throttle::default(), Instant::now());
        let (one, other): (IpAddr, IpAddr) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        for _ in 0..FREE_FAILURES {
            assert_eq!(throttle.count_failure(one, now), None);
        }
        assert!(throttle.is_suspicious(one, now));
        assert_eq!(throttle.count_failure(one, now), Some(2 * FORGET_AFTER));
        assert_eq!(throttle.count_failure(other, now), None, "addresses are counted on their own");
        for _ in 0..100 {
            throttle.count_failure(one, now);
        }
        assert_eq!(throttle.count_failure(one, now), Some(Duration::from_secs(60)), "the wait is bounded");
        let later = now + Duration::from_secs(61);
        assert!(!throttle.is_suspicious(one, later));
        assert_eq!(throttle.count_failure(one, later), None);
    }

    #[test]
    fn the_table_of_addresses_is_bounded() {
        let (throttle, now) = (Throttle::default(), Instant::now());
        for number in 0..3 * ADDRESSES_MAX as u32 {
            throttle.count_failure(IpAddr::V4(number.into()), now);
        }
        assert!(throttle.lock().len() <= ADDRESSES_MAX);
        let [a, b] = ["2001:db8::1", "2001:db8::ffff:1"].map(|text| text.parse().expect(text));
        throttle.count_failure(a, now);
        for _ in 1..FREE_FAILURES {
            throttle.count_failure(b, now);
        }
        assert!(throttle.is_suspicious(a, now), "64 bits of an IPv6 address count as one");
    }

    #[test]
    fn a_forwarded_address_is_believed_only_from_trusted_proxies() {
        let trusted: Vec<AddressBlock> =
            ["10.0.0.0/8", "::1"].map(|text| text.parse().expect(text)).into_iter().collect();
        let client = |peer: &str, forwarded: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("x-forwarded-for", axum::http::HeaderValue::from_static(forwarded));
            client_address(Some(peer.parse().expect(peer)), &headers, &trusted).to_string()
        };
        assert_eq!(client("192.0.2.1:9", "1.2.3.4"), "192.0.2.1");
        assert_eq!(client("10.0.0.1:9", "1.2.3.4"), "1.2.3.4");
        assert_eq!(client("[::1]:9", "6.6.6.6, 1.2.3.4, 10.9.9.9"), "1.2.3.4");
        assert_eq!(client("[::ffff:10.0.0.1]:9", "nonsense"), "10.0.0.1");
    }

    #[test]
    fn blocks_of_addresses_are_parsed_and_compared() {
        let has = |block: &str, address: &str| {
            block.parse::<AddressBlock>().expect(block).has(address.parse().expect(address))
        };
        assert!(has("0.0.0.0/0", "9.9.9.9") && has("::/0", "2001:db8::1") && !has("::/0", "9.9.9.9"));
        assert!(has("192.168.4.0/22", "192.168.7.255") && !has("192.168.4.0/22", "192.168.8.0"));
        assert!(has("10.1.2.3", "10.1.2.3") && !has("10.1.2.3", "10.1.2.4"));
        assert!(has("2001:db8::/32", "2001:db8:1::") && !has("2001:db8::/32", "2001:db9::"));
        for wrong in ["", "10.0.0.0/33", "::/129", "10.0.0/8", "a/8", "10.0.0.0/"] {
            assert!(wrong.parse::<AddressBlock>().is_err(), "{wrong}");
        }
    }
}

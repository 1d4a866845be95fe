//! The addresses that a webhook may be delivered to.
//!
//! A URL is checked when it is configured, and every address of its name when a connection is opened. Without
//! `allow_private` only `https:` and public addresses are allowed: a webhook must not reach services that trust the network
//! of the server.

use axum::http::Uri;
use selvedge_core::{Refusal, webhook};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The host of a URL that was checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The path with the query.
    pub path: String,
    /// The value of the header `host`.
    pub authority: String,
    /// The name or the address, without brackets.
    pub host: String,
    pub port: u16,
    /// True for `https:`.
    pub is_tls: bool,
}

/// Refuses a URL that no webhook may have.
pub fn check_url(pointer: &str, url: &str, allow_private: bool) -> Result<(), Refusal> {
    parse(url, allow_private).map(drop).map_err(|detail| Refusal::field(pointer, detail))
}

/// Parses and checks a URL. The error begins with a verb; it does not contain the URL, whose query may be secret.
pub fn parse(url: &str, allow_private: bool) -> Result<Target, String> {
    webhook::check_url(url)?;
    let uri: Uri = url.parse().map_err(|_| "is not an absolute URL, such as https://example.com/hook")?;
    let is_tls = match uri.scheme_str() {
        Some("https") => true,
        Some("http") if allow_private => false,
        Some("http") => {
            return Err(
                "is not encrypted; use https:, or start the server with --webhook-allow-private".into()
            );
        }
        Some(_) | None => return Err("must begin with https://".into()),
    };
    let authority = uri.authority().ok_or("has no host")?;
    if authority.as_str().contains('@') {
        return Err("has a user name or a password; receivers recognise deliveries by their signature".into());
    }
    let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
    if host.is_empty() {
        return Err("has no host".into());
    }
    if let Ok(ip) = host.parse() {
        check_address(ip, allow_private)?;
    }
    let is_local =
        host.eq_ignore_ascii_case("localhost") || host.to_ascii_lowercase().ends_with(".localhost");
    if is_local && !allow_private {
        return Err(private("localhost"));
    }
    let default_port = if is_tls { 443 } else { 80 };
    let port = match authority.as_str().strip_prefix(authority.host()).and_then(|rest| rest.strip_prefix(':'))
    {
        None | Some("") => default_port,
        Some(port) => port.parse().map_err(|_| "has a port that is not a number from 0 to 65535")?,
    };
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    Ok(Target { path: path.to_owned(), authority: authority.as_str().to_owned(), host, port, is_tls })
}

/// Refuses an address that is not public.
pub fn check_address(ip: IpAddr, allow_private: bool) -> Result<(), String> {
    match allow_private || is_public(ip) {
        true => Ok(()),
        false => Err(private(&ip.to_string())),
    }
}

fn private(address: &str) -> String {
    format!("leads to {address}, which is not a public address; see --webhook-allow-private")
}

/// Reports whether an address is reachable from everywhere, and so from outside of the server's network.
fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let is_special = ip.is_private()
        || ip.is_loopback()
        || ip.is_link_local()
        || ip.is_broadcast()
        || ip.is_documentation()
        || ip.is_multicast()
        // "This network".
        || a == 0
        // Shared by carriers (100.64.0.0/10), where some clouds have their metadata.
        || (a == 100 && b & 0xc0 == 64)
        // Protocol assignments (192.0.0.0/24), and the relay of 6to4 (192.88.99.0/24).
        || (a == 192 && b == 0 && c == 0)
        || (a == 192 && b == 88 && c == 99)
        // Benchmarks (198.18.0.0/15).
        || (a == 198 && b & 0xfe == 18)
        // Reserved (240.0.0.0/4).
        || a >= 240;
    !is_special
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    let segments = ip.segments();
    let embedded = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match segments {
        // IPv4 addresses as IPv6 ones: mapped, and translated by NAT64.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => embedded(high, low),
        // 6to4 and Teredo contain an IPv4 address, too.
        [0x2002, high, low, ..] => embedded(high, low),
        [0x2001, 0, ..] => false,
        // Documentation, benchmarks, and identifiers.
        [0x2001, 0xdb8, ..] | [0x2001, 2, 0, ..] | [0x3fff, 0..=0xfff, ..] => false,
        [0x2001, 0x10..=0x2f, ..] => false,
        // All others outside of 2000::/3: loopback, unspecified, unique local, link local, site local, multicast.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use selvedge_core::webhook::URL_LIMIT;

    #[test]
    fn only_public_addresses_are_allowed() {
        let private = [
            "0.0.0.0",
            "0.1.2.3",
            "10.1.2.3",
            "100.64.0.1",
            "100.100.100.200",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.192",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.9",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::1",
            "100::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "2001:db8::1",
            "2001::1",
            "2002:7f00:1::",
            "2002:a00:1::1",
            "4000::1",
        ];
        for text in private {
            let ip: IpAddr = text.parse().expect(text);
            assert!(check_address(ip, false).is_err(), "{text}");
            assert!(check_address(ip, true).is_ok(), "{text}");
        }
        let public = [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "198.17.0.1",
            "198.20.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00:1450:4001::5",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
        ];
        for text in public {
            assert!(check_address(text.parse().expect(text), false).is_ok(), "{text}");
        }
    }

    #[test]
    fn a_url_has_https_a_host_and_no_credentials() {
        let allowed = parse("https://example.com:8443/hook?token=1", false).expect("is allowed");
        let expected = Target {
            path: "/hook?token=1".into(),
            authority: "example.com:8443".into(),
            host: "example.com".into(),
            port: 8443,
            is_tls: true,
        };
        assert_eq!(allowed, expected);
        assert_eq!(parse("https://example.com", false).expect("is allowed").path, "/");
        assert_eq!(parse("https://[2606:4700::1111]/", false).expect("is allowed").host, "2606:4700::1111");
        let refused = [
            "",
            "example.com",
            "/hook",
            "http://example.com/",
            "ftp://example.com/",
            "https://",
            "https:///x",
            "https://ada:secret@example.com/",
            "https://ada@example.com/",
            "https://example.com/#x",
            "https://127.0.0.1/",
            "https://[::1]/",
            "https://[::ffff:10.0.0.1]/",
            "https://169.254.169.254/latest",
            "https://localhost/",
            "https://a.LOCALHOST/",
            "https://exa mple.com/",
            "https://example.com:99999/",
        ];
        for url in refused {
            assert!(parse(url, false).is_err(), "{url}");
        }
        for url in ["http://127.0.0.1:9/", "https://localhost/", "http://[::1]:80/x"] {
            assert!(parse(url, true).is_ok(), "{url}");
        }
        assert!(parse("https://ada:secret@example.com/", true).is_err_and(|error| !error.contains("secret")));
        assert!(parse(&format!("https://example.com/{}", "x".repeat(URL_LIMIT)), false).is_err());
    }
}

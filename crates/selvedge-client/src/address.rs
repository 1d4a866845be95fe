//! The address of a server, and the paths of requests to it.

use crate::Error;
use hyper::Uri;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The characters of a path segment or a query value that are written as they are.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The address of a server: a scheme, a host, and perhaps a path in front of the API.
#[derive(Clone, Debug)]
pub struct ServerAddress {
    text: String,
    is_tls: bool,
    is_loopback: bool,
}

impl ServerAddress {
    /// Parses an address such as `http://127.0.0.1:7878` or `https://selvedge.example.org`.
    pub fn parse(text: &str) -> Result<ServerAddress, Error> {
        let refuse =
            |detail: &str| Err(Error::Address { server: text.to_owned(), detail: detail.to_owned() });
        let Ok(uri) = text.parse::<Uri>() else { return refuse("it is not a URL") };
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return refuse("it does not begin with http:// or https://"),
        };
        let Some(authority) = uri.authority().filter(|authority| !authority.host().is_empty()) else {
            return refuse("it names no host");
        };
        if authority.as_str().contains('@') {
            return refuse("it contains a user; give the API key separately");
        }
        if uri.query().is_some() {
            return refuse("it contains a query");
        }
        let host = authority.host().trim_matches(['[', ']']);
        let is_loopback = host == "localhost"
            || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
        Ok(ServerAddress { text: text.trim_end_matches('/').to_owned(), is_tls, is_loopback })
    }

    /// Returns the address as text, without a slash at its end.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Reports whether connections use TLS.
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// Reports whether the server is on this machine.
    pub fn is_loopback(&self) -> bool {
        self.is_loopback
    }

    /// Returns the URI of a path with a query.
    pub fn uri(&self, path: &str, query: &[(String, String)]) -> Result<Uri, Error> {
        let mut text = format!("{}{path}", self.text);
        for (index, (name, value)) in query.iter().enumerate() {
            let separator = if index == 0 { '?' } else { '&' };
            text.push(separator);
            text.push_str(&format!("{}={}", encoded(name), encoded(value)));
        }
        text.parse()
            .map_err(|_| Error::Address { server: self.text.clone(), detail: format!("{path} is no path") })
    }
}

/// Returns the path of an API resource, `/v1/…`, from its segments, which are encoded.
pub fn api_path(segments: &[&str]) -> String {
    let mut path = String::from("/v1");
    for segment in segments {
        path.push('/');
        path.push_str(&encoded(segment));
    }
    path
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, PLAIN).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_scheme_and_a_host_and_neither_user_nor_query() {
        let local = ServerAddress::parse("http://127.0.0.1:7878/").expect("the address is valid");
        assert_eq!(
            (local.as_str(), local.is_tls(), local.is_loopback()),
            ("http://127.0.0.1:7878", false, true)
        );
        let remote =
            ServerAddress::parse("https://selvedge.example.org/engine").expect("the address is valid");
        assert_eq!((remote.is_tls(), remote.is_loopback()), (true, false));
        for text in ["", "127.0.0.1:7878", "ftp://host", "http://", "http://ada:key@host", "http://host?a=b"]
        {
            assert!(ServerAddress::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn segments_and_query_values_are_encoded() {
        let address = ServerAddress::parse("http://host/engine").expect("the address is valid");
        let path = api_path(&["lanes", "a/b ü"]);
        let uri = address.uri(&path, &[("tag".into(), "team:a&b".into())]).expect("the URI is valid");
        assert_eq!(uri.to_string(), "http://host/engine/v1/lanes/a%2Fb%20%C3%BC?tag=team%3Aa%26b");
    }
}

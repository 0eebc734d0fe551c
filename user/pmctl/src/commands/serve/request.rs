// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses requests, and checks whether they are allowed.

use std::net::{IpAddr, SocketAddr};

use hyper::header::{HOST, HeaderName, ORIGIN};
use hyper::http::uri::Authority;
use hyper::{HeaderMap, Method, StatusCode, Uri};

/// A page of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServedPage {
    Index,
    Metrics,
    Profile,
    /// Shows only that the server runs.
    Health,
}

/// The header in which browsers tell the origin of a request: a page of the same site, a page of another site, or the
/// user.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The pages by path.
const PAGES: [(&str, ServedPage); 7] = [
    ("/", ServedPage::Index),
    ("/debug/pprof", ServedPage::Index),
    ("/debug/pprof/", ServedPage::Index),
    ("/metrics", ServedPage::Metrics),
    ("/debug/pprof/profile", ServedPage::Profile),
    ("/-/healthy", ServedPage::Health),
    ("/-/ready", ServedPage::Health),
];

/// An answer other than a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    /// The reason, as a message for the user.
    pub(super) reason: String,
    /// The allowed methods, if the method of the request is not among them.
    pub(super) allow: Option<&'static str>,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self {
            status,
            reason,
            allow: None,
        }
    }
}

/// Returns the page of a request, if it is allowed. `listen` is the address of the server.
pub(super) fn requested_page(
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    listen: SocketAddr,
) -> Result<ServedPage, Refusal> {
    if listen.ip().is_loopback() {
        refuse_other_sites(uri, headers)?;
    }
    let path = uri.path();
    let page = PAGES.iter().find(|(known, _)| *known == path);
    let (_, page) = page.ok_or_else(|| {
        let known_paths: Vec<&str> = PAGES.iter().map(|(path, _)| *path).collect();
        let reason = format!(
            "There is no page {path}. There are {}.",
            known_paths.join(", ")
        );
        Refusal::new(StatusCode::NOT_FOUND, reason)
    })?;
    match (method, page) {
        // HEAD is not allowed for a profile, which would be made only to be discarded.
        (&Method::GET, _)
        | (&Method::HEAD, ServedPage::Index | ServedPage::Metrics | ServedPage::Health) => {
            Ok(*page)
        }
        (_, ServedPage::Profile) => Err(refuse_method("GET", "The only method is GET.")),
        _ => Err(refuse_method("GET, HEAD", "The methods are GET and HEAD.")),
    }
}

fn refuse_method(allow: &'static str, reason: &str) -> Refusal {
    Refusal {
        allow: Some(allow),
        ..Refusal::new(StatusCode::METHOD_NOT_ALLOWED, reason)
    }
}

/// Refuses requests that a browser sends for a page of another site. Such a page could read the answer if its host name
/// resolves to this machine, and could otherwise still cause profiles to be made.
fn refuse_other_sites(uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
    // A header may come more than once.
    let all_values = |name: HeaderName, is_allowed: fn(&str) -> bool| {
        let mut values = headers.get_all(name).iter();
        values.all(|value| value.to_str().is_ok_and(is_allowed))
    };
    let authority = uri.authority();
    if !authority.is_none_or(|authority| is_this_machine(authority.as_str()))
        || !all_values(HOST, is_this_machine)
    {
        return Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "Refused: the Host header does not name this machine. Use 127.0.0.1, [::1] or localhost.",
        ));
    }
    let is_own_site = |site: &str| matches!(site, "none" | "same-origin");
    if !all_values(ORIGIN, is_own_origin) || !all_values(SEC_FETCH_SITE, is_own_site) {
        return Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "Refused: a web page of another site sent this request. Open this address itself, or use curl.",
        ));
    }
    Ok(())
}

/// Returns whether the value of an Origin header is a page of this machine.
fn is_own_origin(origin: &str) -> bool {
    let host = origin.split_once("://");
    host.is_some_and(|(_, host)| is_this_machine(host))
}

/// Returns whether a host, with or without a port, is a loopback address or localhost.
fn is_this_machine(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else {
        return false;
    };
    let name = authority.host();
    let address = name.trim_start_matches('[').trim_end_matches(']').parse();
    name.eq_ignore_ascii_case("localhost")
        || address.is_ok_and(|address: IpAddr| address.is_loopback())
}

/// The largest values that a request for a profile may have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) seconds: u32,
    pub(super) hz: u32,
}

/// A request for a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProfileRequest {
    pub(super) seconds: u32,
    pub(super) hz: u32,
    pub(super) event: String,
    /// The profile is to have inlined functions and source lines.
    pub(super) has_lines: bool,
}

impl ProfileRequest {
    /// Parses the query of a request.
    pub(super) fn parse(query: Option<&str>, limits: Limits) -> Result<Self, Refusal> {
        let mut request = Self {
            // The same default as in Go programs.
            seconds: limits.seconds.min(30),
            hz: limits.hz.min(99),
            event: "cycles".to_owned(),
            has_lines: false,
        };
        let bad_request = |reason: String| Refusal::new(StatusCode::BAD_REQUEST, reason);
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            match &*name {
                "seconds" => request.seconds = parse_limited("seconds", &value, limits.seconds)?,
                "hz" => request.hz = parse_limited("hz", &value, limits.hz)?,
                "event" if !value.is_empty() => request.event = value.into_owned(),
                "lines" if matches!(&*value, "0" | "1") => request.has_lines = value == "1",
                "lines" => return Err(bad_request(format!("lines={value}: it takes 1 or 0."))),
                "event" => {
                    return Err(bad_request(
                        "event=: it takes the name of an event.".to_owned(),
                    ));
                }
                // Clients send this parameter for Go's other profiles.
                "debug" => {}
                _ => {
                    let reason = format!(
                        "there is no parameter {name}; there are seconds=, event=, hz= and lines=1."
                    );
                    return Err(bad_request(reason));
                }
            }
        }
        Ok(request)
    }
}

/// Parses a parameter that is a number from 1 to `limit`.
fn parse_limited(name: &str, value: &str, limit: u32) -> Result<u32, Refusal> {
    let number = value.parse().ok();
    number
        .filter(|number| (1..=limit).contains(number))
        .ok_or_else(|| {
            Refusal::new(
                StatusCode::BAD_REQUEST,
                format!(
                    "{name}={value}: it takes a number from 1 to {limit}, the limit that --max-{name} of `pmctl serve` sets."
                ),
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        seconds: 60,
        hz: 999,
    };

    fn request(
        method: &Method,
        uri: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<ServedPage, StatusCode> {
        let listen = SocketAddr::from(([127, 0, 0, 1], 9743));
        request_at(listen, method, uri, headers)
    }

    fn request_at(
        listen: SocketAddr,
        method: &Method,
        uri: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<ServedPage, StatusCode> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().expect("it is well formed"));
        }
        let uri = uri.parse().expect("it is well formed");
        requested_page(method, &uri, &map, listen).map_err(|refusal| refusal.status)
    }

    #[test]
    fn pages_are_found_by_path() {
        let get = |uri| request(&Method::GET, uri, &[("host", "localhost:9743")]);
        assert_eq!(get("/"), Ok(ServedPage::Index));
        assert_eq!(get("/metrics"), Ok(ServedPage::Metrics));
        assert_eq!(get("/metrics?x=y"), Ok(ServedPage::Metrics));
        assert_eq!(
            get("/debug/pprof/profile?seconds=1"),
            Ok(ServedPage::Profile)
        );
        assert_eq!(get("/-/healthy"), Ok(ServedPage::Health));
        assert_eq!(get("/debug/pprof"), Ok(ServedPage::Index));
        assert_eq!(get("/debug/pprof/"), Ok(ServedPage::Index));
        for none in ["/metrics/", "/Metrics", "/debug/", "/../metrics"] {
            assert_eq!(get(none), Err(StatusCode::NOT_FOUND), "{none}");
        }
    }

    #[test]
    fn other_methods_than_get_and_head_are_refused() {
        for method in [Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS] {
            assert_eq!(
                request(&method, "/metrics", &[]),
                Err(StatusCode::METHOD_NOT_ALLOWED)
            );
        }
        assert_eq!(
            request(&Method::HEAD, "/metrics", &[]),
            Ok(ServedPage::Metrics)
        );
        let profile = request(&Method::HEAD, "/debug/pprof/profile", &[]);
        assert_eq!(profile, Err(StatusCode::METHOD_NOT_ALLOWED));
    }

    #[test]
    fn the_allowed_methods_are_listed() {
        let allow = |path: &str| {
            let uri = path.parse().expect("it is well formed");
            let listen = SocketAddr::from(([127, 0, 0, 1], 9743));
            requested_page(&Method::POST, &uri, &HeaderMap::new(), listen)
                .map_err(|refusal| refusal.allow)
        };
        assert_eq!(allow("/metrics"), Err(Some("GET, HEAD")));
        assert_eq!(allow("/debug/pprof/profile"), Err(Some("GET")));
        assert_eq!(allow("/none"), Err(None));
    }

    #[test]
    fn other_names_for_this_machine_are_refused() {
        let host = |host| request(&Method::GET, "/metrics", &[("host", host)]);
        for own in [
            "localhost",
            "LOCALHOST:9743",
            "127.0.0.1:9743",
            "127.1.2.3",
            "[::1]:80",
            "[::1]",
        ] {
            assert_eq!(host(own), Ok(ServedPage::Metrics), "{own}");
        }
        for other in [
            "example.org",
            "example.org:9743",
            "10.0.0.1",
            "localhost.example.org",
            "",
            "a b",
            "127.0.0.1.example.org",
        ] {
            assert_eq!(host(other), Err(StatusCode::FORBIDDEN), "{other}");
        }
        let absolute = request(
            &Method::GET,
            "http://example.org/metrics",
            &[("host", "localhost")],
        );
        assert_eq!(absolute, Err(StatusCode::FORBIDDEN));
        let two_hosts = [("host", "localhost"), ("host", "example.org")];
        let two_hosts = request(&Method::GET, "/metrics", &two_hosts);
        assert_eq!(two_hosts, Err(StatusCode::FORBIDDEN));
        // A server at another address than loopback accepts any name.
        let remote = SocketAddr::from(([10, 0, 0, 1], 9743));
        let remote = request_at(remote, &Method::GET, "/metrics", &[("host", "example.org")]);
        assert_eq!(remote, Ok(ServedPage::Metrics));
    }

    #[test]
    fn requests_of_other_sites_are_refused() {
        let site = |site| {
            request(
                &Method::GET,
                "/metrics",
                &[("host", "localhost"), ("sec-fetch-site", site)],
            )
        };
        assert_eq!(site("none"), Ok(ServedPage::Metrics));
        assert_eq!(site("same-origin"), Ok(ServedPage::Metrics));
        assert_eq!(site("cross-site"), Err(StatusCode::FORBIDDEN));
        assert_eq!(site("same-site"), Err(StatusCode::FORBIDDEN));
        let origin = |origin| request(&Method::GET, "/metrics", &[("origin", origin)]);
        for own in ["http://127.0.0.1:9743", "http://localhost", "http://[::1]"] {
            assert_eq!(origin(own), Ok(ServedPage::Metrics), "{own}");
        }
        for other in [
            "http://example.org",
            "http://localhost.example.org:9743",
            "http://localhost@example.org",
            "null",
            "localhost",
            "",
        ] {
            assert_eq!(origin(other), Err(StatusCode::FORBIDDEN), "{other}");
        }
    }

    #[test]
    fn a_profile_has_limits() {
        let parse =
            |query| ProfileRequest::parse(Some(query), LIMITS).map_err(|refusal| refusal.status);
        let default_request = ProfileRequest {
            seconds: 30,
            hz: 99,
            event: "cycles".to_owned(),
            has_lines: false,
        };
        assert_eq!(
            ProfileRequest::parse(None, LIMITS),
            Ok(default_request.clone())
        );
        assert_eq!(parse(""), Ok(default_request.clone()));
        assert_eq!(parse("debug=0"), Ok(default_request));
        let all = ProfileRequest {
            seconds: 60,
            hz: 999,
            event: "cpu/event=0xc0/u".to_owned(),
            has_lines: true,
        };
        assert_eq!(
            parse("seconds=60&hz=999&event=cpu%2Fevent%3D0xc0%2Fu&lines=1"),
            Ok(all)
        );
        for bad in [
            "seconds=0",
            "seconds=61",
            "seconds=",
            "seconds=-1",
            "seconds=1.5",
            "hz=1000",
            "hz=0",
            "lines=yes",
            "event=",
            "second=1",
            "x",
        ] {
            assert_eq!(parse(bad), Err(StatusCode::BAD_REQUEST), "{bad}");
        }
        let reason = |query: &str| {
            ProfileRequest::parse(Some(query), LIMITS).map_err(|refusal| refusal.reason)
        };
        for lines in ["true", "2", ""] {
            let query = format!("lines={lines}");
            assert_eq!(reason(&query), Err(format!("{query}: it takes 1 or 0.")));
        }
        // Default values are capped by the limits.
        let low = Limits { seconds: 5, hz: 10 };
        let low = ProfileRequest::parse(None, low).map(|wanted| (wanted.seconds, wanted.hz));
        assert_eq!(low, Ok((5, 10)));
    }
}

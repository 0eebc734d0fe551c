// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `pmctl serve`.

use std::net::{Ipv4Addr, SocketAddr};

use clap::Args;

use crate::events::cpus::Cpus;

const SERVE_HELP: &str = "\
Pages:
  /metrics                the counters, for Prometheus
  /debug/pprof/profile    a profile: ?seconds=30&event=cycles&hz=99

Events are those of `pmctl stat -a` that a counter counts. While the server runs, each has a counter on each CPU, which \
other programs can use only for events that count the same. Without -e they are instructions, cycles, branches and branch-misses.

Examples:
  pmctl serve
  pmctl serve -e instructions,cycles,cache-misses
  pmctl serve --cgroups 'kubepods.slice/**,system.slice/*'
  curl -s http://127.0.0.1:9743/metrics
  go tool pprof 'http://127.0.0.1:9743/debug/pprof/profile?seconds=10'";

/// Options of `pmctl serve`.
#[derive(Debug, Args)]
#[command(after_help = SERVE_HELP)]
pub(crate) struct Serve {
    /// Listen at this address and port, or at a port of 127.0.0.1; port 0 takes a free one
    #[arg(short, long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9743", value_parser = parse_address)]
    pub(crate) listen: SocketAddr,

    /// Let --listen be an address that other machines can reach: their users see the counters, and the names of
    /// programs and functions
    #[arg(long)]
    pub(crate) allow_remote: bool,

    /// Count these events, separated by commas; may be repeated
    #[arg(short = 'e', long = "event", value_name = "EVENTS")]
    pub(crate) events: Vec<String>,

    /// Count and sample on these CPUs only, as 0-2,5
    #[arg(short = 'C', long, value_name = "CPUS", value_parser = Cpus::parse)]
    pub(crate) cpu: Option<Cpus>,

    /// Count the events also in each cgroup whose name has this form, separated by commas: `*` stands for any text and `?`
    /// for one byte, both within a level, `**` for any number of levels; may be repeated
    #[arg(long, value_name = "GLOBS", conflicts_with = "cpu")]
    pub(crate) cgroups: Vec<String>,

    /// Count in no more than N cgroups
    #[arg(long, value_name = "N", default_value_t = 1000, requires = "cgroups", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) max_cgroups: u32,

    /// Make no profile longer than SECS seconds
    #[arg(long, value_name = "SECS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(crate) max_seconds: u32,

    /// Take no more than HZ samples per second for a profile
    #[arg(long, value_name = "HZ", default_value_t = 999, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) max_hz: u32,
}

/// Parses a port, or an address and a port. The error is a message for the user.
fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix(':').unwrap_or(text);
    if let Ok(port) = port.parse() {
        return Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    }
    let text = text.replacen("localhost:", "127.0.0.1:", 1);
    text.parse().map_err(|_| {
        "it takes a port, or an address and a port, such as 9743, 127.0.0.1:9743 or [::1]:9743"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_port() {
        let loopback = parse_address("127.0.0.1:80");
        for same in ["localhost:80", "80", ":80"] {
            assert_eq!(parse_address(same), loopback, "{same}");
        }
        assert!(parse_address("[::1]:0").is_ok_and(|address| address.is_ipv6()));
        for bad in ["", ":", "65536", "127.0.0.1", "example.org:80"] {
            assert!(parse_address(bad).is_err(), "{bad}");
        }
    }
}

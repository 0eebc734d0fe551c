// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page that says what there is.

use super::counters::Counters;
use super::names;
use super::request::Limits;

/// Returns the page as HTML.
pub(super) fn index(counters: &Counters, limits: Limits) -> String {
    let events: Vec<String> = counters
        .events()
        .iter()
        .map(|event| {
            let (name, label) = (names::of(event).0, escaped(&event.label));
            format!("<li><code>{label}</code>: <code>{name}_total</code></li>\n")
        })
        .collect();
    let events = events.concat();
    let Limits { seconds, hz } = limits;
    format!(
        "<!DOCTYPE html>
<html lang=\"en\">
<head><meta charset=\"utf-8\"><title>pmctl serve</title></head>
<body>
<h1>pmctl serve</h1>
<p>Exact counts of this machine's CPUs.</p>
<ul>
<li><a href=\"/metrics\">/metrics</a>: the counters, for Prometheus</li>
<li><a href=\"/debug/pprof/profile?seconds=10\">/debug/pprof/profile?seconds=10&amp;event=cycles&amp;hz=99</a>:
a profile of all programs and the kernel, for pprof, Parca and Pyroscope; at most {seconds} seconds and {hz} samples a
second of each CPU, and one at a time</li>
<li><a href=\"/-/healthy\">/-/healthy</a>, <a href=\"/-/ready\">/-/ready</a>: whether it runs</li>
</ul>
<p>Events that are counted, and their metrics:</p>
<ul>
{events}</ul>
</body>
</html>
"
    )
}

/// Returns text as HTML has it.
fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_no_markup() {
        assert_eq!(
            escaped("cpu/name=<b>&\"/"),
            "cpu/name=&lt;b&gt;&amp;&quot;/"
        );
    }
}

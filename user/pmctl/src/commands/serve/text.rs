// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metrics as text, in `OpenMetrics` 1.0 or in Prometheus' older format.

use std::fmt::{self, Write};

/// A format of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextFormat {
    OpenMetrics,
    Prometheus,
}

impl TextFormat {
    /// Returns the format that an `Accept` header asks for: `OpenMetrics` if the header names it with at least the quality of
    /// plain text, otherwise Prometheus' own.
    pub(super) fn from_accept_header(header: Option<&str>) -> Self {
        let quality_of = |content_type: &str| {
            let ranges = header.unwrap_or_default().split(',');
            let qualities = ranges.filter_map(|range| {
                let mut words = range.split(';').map(str::trim);
                let is_same = words.next()?.eq_ignore_ascii_case(content_type);
                let quality = words.find_map(|word| word.strip_prefix("q="));
                is_same.then(|| quality.map_or(1.0, |q| q.parse().unwrap_or(0.0)))
            });
            qualities.fold(0.0, f64::max)
        };
        let open_metrics = quality_of("application/openmetrics-text");
        if open_metrics > 0.0 && open_metrics >= quality_of("text/plain") {
            Self::OpenMetrics
        } else {
            Self::Prometheus
        }
    }

    /// Returns the content type.
    pub(super) const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MetricKind {
    Counter,
    Gauge,
    Info,
}

impl MetricKind {
    /// Returns the suffix of the names of the metric's samples.
    const fn suffix(self) -> &'static str {
        match self {
            Self::Counter => "_total",
            Self::Gauge => "",
            Self::Info => "_info",
        }
    }

    /// Returns the name of the type in a format.
    const fn type_name(self, format: TextFormat) -> &'static str {
        match (self, format) {
            (Self::Counter, _) => "counter",
            (Self::Info, TextFormat::OpenMetrics) => "info",
            (Self::Gauge, _) | (Self::Info, TextFormat::Prometheus) => "gauge",
        }
    }
}

/// A page of metrics that is being written.
pub(super) struct MetricsText {
    text: String,
    format: TextFormat,
    /// The metric whose samples are written at present.
    name: &'static str,
    kind: MetricKind,
}

impl MetricsText {
    pub(super) fn new(format: TextFormat) -> Self {
        Self {
            text: String::with_capacity(4096),
            format,
            name: "",
            kind: MetricKind::Gauge,
        }
    }

    /// Begins a metric. `name` is without the suffix `_total`, and `help` without a full stop.
    pub(super) fn metric(&mut self, name: &'static str, kind: MetricKind, help: &str) -> &mut Self {
        (self.name, self.kind) = (name, kind);
        // In Prometheus' format, a metric has the same name as its samples.
        let suffix = match self.format {
            TextFormat::OpenMetrics => "",
            TextFormat::Prometheus => kind.suffix(),
        };
        let type_name = kind.type_name(self.format);
        self.push(format_args!(
            "# HELP {name}{suffix} {help}.\n# TYPE {name}{suffix} {type_name}\n"
        ));
        self
    }

    /// Writes a sample of the metric that was begun last.
    pub(super) fn sample(
        &mut self,
        labels: &[(&str, &dyn fmt::Display)],
        value: impl fmt::Display,
    ) -> &mut Self {
        let (name, suffix) = (self.name, self.kind.suffix());
        self.push(format_args!("{name}{suffix}"));
        for (index, (label, text)) in labels.iter().enumerate() {
            let separator = if index == 0 { '{' } else { ',' };
            self.push(format_args!("{separator}{label}=\""));
            let _ = write!(LabelEscaper(&mut self.text), "{text}");
            self.text.push('"');
        }
        let end = if labels.is_empty() { "" } else { "}" };
        self.push(format_args!("{end} {value}\n"));
        self
    }

    /// Ends the page, and returns its text.
    pub(super) fn end(mut self) -> String {
        if self.format == TextFormat::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }

    fn push(&mut self, text: fmt::Arguments<'_>) {
        // Writing to a `String` can't fail.
        let _ = self.text.write_fmt(text);
    }
}

/// Writes the value of a label, with quotes, backslashes and line ends escaped.
struct LabelEscaper<'a>(&'a mut String);

impl Write for LabelEscaper<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for letter in text.chars() {
            match letter {
                '"' => self.0.push_str("\\\""),
                '\\' => self.0.push_str("\\\\"),
                '\n' => self.0.push_str("\\n"),
                letter => self.0.push(letter),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(format: TextFormat) -> String {
        let mut page = MetricsText::new(format);
        page.metric("a_events", MetricKind::Counter, "Number of events")
            .sample(&[("cpu", &0), ("event", &"x\\\"\n")], u64::MAX)
            .sample(&[("cpu", &1), ("event", &"y")], 0);
        page.metric("a_build", MetricKind::Info, "What it is")
            .sample(&[("version", &"1")], 1);
        page.metric("a_seconds", MetricKind::Gauge, "Time")
            .sample(&[], 1.5);
        page.end()
    }

    #[test]
    fn openmetrics_has_types_without_suffix_and_an_end() {
        assert_eq!(
            page(TextFormat::OpenMetrics),
            "# HELP a_events Number of events.\n# TYPE a_events counter\n\
             a_events_total{cpu=\"0\",event=\"x\\\\\\\"\\n\"} 18446744073709551615\n\
             a_events_total{cpu=\"1\",event=\"y\"} 0\n\
             # HELP a_build What it is.\n# TYPE a_build info\na_build_info{version=\"1\"} 1\n\
             # HELP a_seconds Time.\n# TYPE a_seconds gauge\na_seconds 1.5\n# EOF\n"
        );
    }

    #[test]
    fn prometheus_has_the_names_of_samples() {
        assert_eq!(
            page(TextFormat::Prometheus),
            "# HELP a_events_total Number of events.\n# TYPE a_events_total counter\n\
             a_events_total{cpu=\"0\",event=\"x\\\\\\\"\\n\"} 18446744073709551615\n\
             a_events_total{cpu=\"1\",event=\"y\"} 0\n\
             # HELP a_build_info What it is.\n# TYPE a_build_info gauge\na_build_info{version=\"1\"} 1\n\
             # HELP a_seconds Time.\n# TYPE a_seconds gauge\na_seconds 1.5\n"
        );
    }

    #[test]
    fn the_accept_header_chooses_the_format() {
        // Headers that Prometheus 2.53 and 3 send.
        let header_of_2 = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,\
                    text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        let header_of_3 = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                    text/plain;version=1.0.0;q=0.4";
        for open in [header_of_2, header_of_3, "application/openmetrics-text"] {
            assert_eq!(
                TextFormat::from_accept_header(Some(open)),
                TextFormat::OpenMetrics,
                "{open}"
            );
        }
        let classic = "text/plain;version=0.0.4;q=0.5,application/openmetrics-text;q=0.4";
        let refused_format = "application/openmetrics-text;q=0";
        for classic in [
            "*/*",
            "text/plain",
            "",
            "text/html, */*;q=0.8",
            classic,
            refused_format,
        ] {
            assert_eq!(
                TextFormat::from_accept_header(Some(classic)),
                TextFormat::Prometheus,
                "{classic}"
            );
        }
        assert_eq!(TextFormat::from_accept_header(None), TextFormat::Prometheus);
    }
}

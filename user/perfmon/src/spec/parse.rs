// SPDX-License-Identifier: MIT OR Apache-2.0
//! The syntax of events: a list of
//!
//! ```text
//! NAME            a name:            cycles   INST_RETIRED.ANY
//! rUUEE           a raw encoding:    r1c0, with a counter mask r20000c0
//! cpu/TERM,.../   fields:            cpu/event=0x3c,umask=0x01,cmask=1,inv,edge,name=mine/
//! cpu_atom/TERM,.../  fields, for one kind of core
//! NAME/TERM,.../  a name and fields: instructions/period=10007/
//! fixedN          a fixed counter:   fixed0
//! ```
//!
//! each followed by any of `:u` `:k` `:uk` (the modes) and `:PMC0` `:FIXED0` (the counter). The events are separated by
//! commas, with or without blanks. Events in braces, `{a,b}`, are a group, whose modifiers (`{a,b}:u`) apply to all of
//! them.

use std::ops::Range;

use super::cache_event::CacheEvent;
use super::error::Fault;
use super::names;
use crate::pmu::{CoreKind, Vendor};

/// A piece of the text, and its byte range in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SpannedText {
    pub(super) text: String,
    pub(super) span: Range<usize>,
}

/// One event, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spec {
    pub(super) body: SpecBody,
    /// The name of the kind of core that alone counts the event; `None` if the text names none.
    pub(super) core_kind: Option<SpannedText>,
    /// The modifiers: the text after each `:`.
    pub(super) modifiers: Vec<SpannedText>,
    /// The byte range of the whole event in the text.
    pub(super) span: Range<usize>,
    /// The number of the event's group in the text.
    pub(super) group: Option<usize>,
    /// The text of the group's modifiers, with their colons.
    pub(super) group_modifiers: String,
}

impl Spec {
    /// Returns the event as it was written in `text`, with the modifiers of its group.
    pub(super) fn label(&self, text: &str) -> String {
        format!("{}{}", &text[self.span.clone()], self.group_modifiers)
    }
}

/// An event without its modifiers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SpecBody {
    /// A name, a raw encoding or a fixed counter.
    Word(SpannedText),
    /// `cpu/.../`.
    Terms(Vec<Term>),
}

/// `KEY` or `KEY=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Term {
    pub(super) key: SpannedText,
    pub(super) value: Option<SpannedText>,
}

/// Parses the events of `text`.
pub(super) fn parse(text: &str) -> Result<Vec<Spec>, Fault> {
    let mut parser = Parser { text, position: 0 };
    let mut specs = Vec::new();
    let mut groups = 0;
    loop {
        parser.skip_blanks();
        if parser.text[parser.position..].starts_with('{') {
            specs.extend(parser.parse_group(groups)?);
            groups += 1;
        } else {
            specs.push(parser.parse_event()?);
        }
        parser.skip_blanks();
        if parser.is_at_end() {
            return Ok(specs);
        }
        if !parser.accept(',') {
            return Err(parser.separator_fault());
        }
    }
}

/// Characters that end a word.
const DELIMITERS: [char; 6] = [',', ':', '/', '{', '}', ' '];

struct Parser<'a> {
    text: &'a str,
    /// Byte index of the next character.
    position: usize,
}

impl Parser<'_> {
    fn is_at_end(&self) -> bool {
        self.position == self.text.len()
    }

    /// Returns the span of the next character; it is empty at the end.
    fn next_span(&self) -> Range<usize> {
        let length = self.text[self.position..]
            .chars()
            .next()
            .map_or(0, char::len_utf8);
        self.position..self.position + length
    }

    /// Consumes the next character if it is `expected`, and returns whether it was.
    fn accept(&mut self, expected: char) -> bool {
        let is_next = self.text[self.position..].starts_with(expected);
        if is_next {
            self.position += expected.len_utf8();
        }
        is_next
    }

    /// Returns the fault if no comma follows an event.
    fn separator_fault(&self) -> Fault {
        self.late_fields_fault().unwrap_or_else(|| {
            Fault::new(self.next_span(), "a comma must stand between two events")
        })
    }

    /// Returns the fault of fields after the modifiers of an event, as in `instructions:u/period=9/`; `None` if the next
    /// character is no slash.
    fn late_fields_fault(&self) -> Option<Fault> {
        let (before, after) = self.text.split_at(self.position);
        let after = after.strip_prefix('/')?;
        let fault = Fault::new(
            self.next_span(),
            "the fields of an event stand before its modifiers",
        );
        let event = before.trim_end().rsplit([',', '{', ' ']).next();
        let parts = event.and_then(|event| event.split_once(':'));
        let help = match (parts, after.split_once('/')) {
            (Some((name, modifiers)), Some((fields, _))) if !name.contains(['/', '}']) => {
                format!("Write {name}/{fields}/{modifiers}")
            }
            _ => "For example: instructions/period=10007/u".to_owned(),
        };
        Some(fault.help(help))
    }

    /// Skips blanks.
    fn skip_blanks(&mut self) {
        let rest = &self.text[self.position..];
        self.position += rest.len() - rest.trim_start_matches(' ').len();
    }

    /// Consumes and returns the text before the first of these characters.
    fn take_until(&mut self, stops: &[char]) -> SpannedText {
        let rest = &self.text[self.position..];
        let length = rest.find(stops).unwrap_or(rest.len());
        let span = self.position..self.position + length;
        self.position = span.end;
        SpannedText {
            text: self.text[span.clone()].to_owned(),
            span,
        }
    }

    /// Parses `{a,b}` and its modifiers.
    fn parse_group(&mut self, number: usize) -> Result<Vec<Spec>, Fault> {
        let start = self.position;
        self.accept('{');
        let mut specs = Vec::new();
        loop {
            self.skip_blanks();
            if self.text[self.position..].starts_with('{') {
                return Err(Fault::new(self.next_span(), "a group can't be in a group"));
            }
            specs.push(self.parse_event()?);
            self.skip_blanks();
            if self.accept('}') {
                break;
            }
            if !self.accept(',') {
                if let Some(fault) = self.late_fields_fault() {
                    return Err(fault);
                }
                let span = start..self.position;
                return Err(
                    Fault::new(span, "the closing brace of the group is missing")
                        .help("For example: {instructions,cycles}"),
                );
            }
        }
        let end = self.position;
        let modifiers = self.parse_modifiers();
        let group_modifiers = &self.text[end..self.position];
        for spec in &mut specs {
            spec.group = Some(number);
            group_modifiers.clone_into(&mut spec.group_modifiers);
            spec.modifiers.extend(modifiers.iter().cloned());
        }
        Ok(specs)
    }

    fn parse_event(&mut self) -> Result<Spec, Fault> {
        let start = self.position;
        let word = self.take_until(&DELIMITERS);
        if word.text.is_empty() {
            return Err(Fault::new(self.next_span(), "an event is missing here")
                .help("For example: -e instructions:u,cycles:u,r1c0"));
        }
        let mut modifiers = Vec::new();
        let mut core_kind = None;
        let body = if self.accept('/') {
            let is_name = is_name(&word.text);
            let is_kind = CoreKind::NAMES.contains(&&*word.text);
            if word.text != "cpu" && !is_kind && !is_name {
                return Err(Fault::new(
                    word.span,
                    format!("no PMU is called `{}` here", word.text),
                )
                .help("Only the PMU of the cores is supported: `cpu/.../`."));
            }
            let mut terms = self.parse_terms(start)?;
            if is_name {
                // perf's form `instructions/period=9/` means the same as `cpu/instructions,period=9/`.
                let value = None;
                terms.insert(0, Term { key: word, value });
            } else if is_kind {
                core_kind = Some(word);
            }
            // As perf does, accepts a modifier without a colon: `cpu/.../u`.
            let modifier = self.take_until(&DELIMITERS);
            if !modifier.text.is_empty() {
                modifiers.push(modifier);
            }
            SpecBody::Terms(terms)
        } else {
            SpecBody::Word(word)
        };
        modifiers.extend(self.parse_modifiers());
        Ok(Spec {
            body,
            core_kind,
            modifiers,
            span: start..self.position,
            group: None,
            group_modifiers: String::new(),
        })
    }

    fn parse_modifiers(&mut self) -> Vec<SpannedText> {
        let mut modifiers = Vec::new();
        while self.accept(':') {
            modifiers.push(self.take_until(&DELIMITERS));
        }
        modifiers
    }

    /// Parses the text between `cpu/` and the next `/`.
    fn parse_terms(&mut self, start: usize) -> Result<Vec<Term>, Fault> {
        let mut terms = Vec::new();
        loop {
            self.skip_blanks();
            let key = self.take_until(&[',', '=', '/']);
            let value = self.accept('=').then(|| self.take_until(&[',', '/']));
            let is_empty = key.text.is_empty();
            if is_empty && (value.is_some() || !self.text[self.position..].starts_with('/')) {
                if self.is_at_end() {
                    return Err(missing_slash_fault(start..self.position));
                }
                return Err(Fault::new(
                    key.span.start..self.position.max(key.span.start + 1),
                    "a field is missing here",
                ));
            }
            if !is_empty {
                terms.push(Term { key, value });
            }
            if self.accept('/') {
                break;
            }
            if !self.accept(',') {
                return Err(missing_slash_fault(start..self.position));
            }
        }
        if terms.is_empty() {
            return Err(Fault::new(
                start..self.position,
                "there is no field between the slashes",
            )
            .help("For example: cpu/event=0x3c,umask=0x00/"));
        }
        Ok(terms)
    }
}

/// Returns whether the word before a slash is the name of an event, and not of a PMU.
fn is_name(word: &str) -> bool {
    let mut vendors = [Vendor::Intel, Vendor::Amd].into_iter();
    word.contains('.')
        || vendors.any(|vendor| names::find(vendor, word).is_some())
        || CacheEvent::find(word).is_some()
}

fn missing_slash_fault(span: Range<usize>) -> Fault {
    Fault::new(span, "the closing slash is missing").help("For example: cpu/event=0x3c,umask=0x00/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Formats events as `body|modifier|modifier`, and fields as `key=value`.
    fn format_specs(text: &str) -> Vec<String> {
        let specs = parse(text).expect("it is well formed");
        let format_spec = |spec: &Spec| {
            let body = match &spec.body {
                SpecBody::Word(word) => word.text.clone(),
                SpecBody::Terms(terms) => {
                    let term = |t: &Term| match &t.value {
                        Some(value) => format!("{}={}", t.key.text, value.text),
                        None => t.key.text.clone(),
                    };
                    format!("/{}/", terms.iter().map(term).collect::<Vec<_>>().join(" "))
                }
            };
            let modifiers = spec.modifiers.iter().map(|m| format!("|{}", m.text));
            modifiers.fold(body, |all, m| all + &m)
        };
        specs.iter().map(format_spec).collect()
    }

    #[test]
    fn lists_and_modifiers_are_parsed() {
        assert_eq!(format_specs("cycles"), ["cycles"]);
        assert_eq!(
            format_specs("cycles:u,r1c0:k:PMC1"),
            ["cycles|u", "r1c0|k|PMC1"]
        );
        assert_eq!(
            format_specs("INST_RETIRED.ANY,x"),
            ["INST_RETIRED.ANY", "x"]
        );
    }

    #[test]
    fn fields_are_parsed() {
        assert_eq!(format_specs("cpu/event=0x3c,inv/u"), ["/event=0x3c inv/|u"]);
        assert_eq!(
            format_specs("cpu/event=1,name=a.b/:k,b"),
            ["/event=1 name=a.b/|k", "b"]
        );
    }

    #[test]
    fn groups_have_their_events_and_modifiers() {
        let groups = |text| {
            let specs = parse(text).expect("it is well formed");
            specs.iter().map(|spec| spec.group).collect::<Vec<_>>()
        };
        let (none, first, second) = (None, Some(0), Some(1));
        assert_eq!(groups("a,{b,c},d"), [none, first, first, none]);
        assert_eq!(groups("{a},{ b , c }"), [first, second, second]);
        assert_eq!(format_specs("{a:k,b}:u,c"), ["a|k|u", "b|u", "c"]);
        assert_eq!(format_specs("{a,cpu/inv/}:u"), ["a|u", "/inv/|u"]);
    }

    #[test]
    fn blanks_may_stand_around_a_comma() {
        assert_eq!(
            format_specs("cycles:u, r1c0 ,  x "),
            ["cycles|u", "r1c0", "x"]
        );
    }

    #[test]
    fn faults_have_the_span_of_the_mistake() {
        let table: &[(&str, Range<usize>, &str)] = &[
            ("", 0..0, "event is missing"),
            ("a,", 2..2, "event is missing"),
            ("a,,b", 2..3, "event is missing"),
            (":u", 0..1, "event is missing"),
            ("a}", 1..2, "comma"),
            ("{a,b", 0..4, "closing brace"),
            ("{a b}", 0..3, "closing brace"),
            ("{}", 1..2, "event is missing"),
            ("{a,{b}}", 3..4, "in a group"),
            ("{a}b", 3..4, "comma"),
            ("a{", 1..2, "comma"),
            ("a b", 2..3, "comma"),
            ("a, ", 3..3, "event is missing"),
            ("uncore/event=1/", 0..6, "no PMU"),
            ("cpu/event=1", 0..11, "closing slash"),
            ("cpu/", 0..4, "closing slash"),
            ("cpu//", 0..5, "no field"),
            ("cpu/=1/", 4..6, "field is missing"),
            ("cpu/,inv/", 4..5, "field is missing"),
        ];
        for (text, span, message) in table {
            let fault = parse(text).expect_err(text);
            assert_eq!(&fault.span, span, "{text}: {}", fault.message);
            assert!(fault.message.contains(message), "{text}: {}", fault.message);
        }
    }

    proptest! {
        /// No text causes a panic, and each fault has a span that can be shown.
        #[test]
        fn any_text_is_parsed_or_refused(text in "[a-z0-9,:/={}é\t ]{0,24}") {
            match parse(&text) {
                Ok(specs) => prop_assert!(!specs.is_empty()),
                Err(fault) => {
                    let message = fault.into_error(&text).to_string();
                    prop_assert!(message.contains('^'));
                }
            }
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The text of an event with precise samples, for help on an event that lacks them.

use super::modifiers::parse_counter;
use super::parse::Spec;

/// Returns the text of the event in `text`, changed to ask for precise samples: with perf's
/// modifier `pp`, and without a counter, because the text of an event with samples can't choose a
/// counter.
pub(super) fn precise_text(spec: &Spec, text: &str) -> String {
    let starts = spec.modifiers.iter().map(|modifier| modifier.span.start);
    let own_starts = starts.filter(|start| spec.span.contains(start));
    let body_end = own_starts.min().unwrap_or(spec.span.end);
    let body = text[spec.span.start..body_end].trim_end_matches(':');
    let separator = if body.ends_with('/') { "" } else { ":" };
    let modifiers = spec.modifiers.iter().map(|modifier| &*modifier.text);
    let modes: String = modifiers
        .filter(|modifier| parse_counter(modifier).is_none())
        .flat_map(str::chars)
        .filter(|letter| !matches!(letter, 'p' | 'P'))
        .collect();
    format!("{body}{separator}{modes}pp")
}

#[cfg(test)]
mod tests {
    use super::super::parse::parse;
    use super::*;

    #[test]
    fn precise_texts_are_what_to_type() {
        let precise = |text: &str| {
            let specs = parse(text).expect("it is well formed");
            let texts = specs.iter().map(|spec| precise_text(spec, text));
            texts.collect::<Vec<_>>()
        };
        assert_eq!(precise("cycles, r1c0:u"), ["cycles:pp", "r1c0:upp"]);
        assert_eq!(
            precise("cpu/event=0xc0,name=foo/"),
            ["cpu/event=0xc0,name=foo/pp"]
        );
        assert_eq!(precise("cpu/event=0xc0/u"), ["cpu/event=0xc0/upp"]);
        assert_eq!(precise("cpu/event=0xc0/:u"), ["cpu/event=0xc0/upp"]);
        assert_eq!(precise("instructions:PMC0"), ["instructions:pp"]);
        assert_eq!(precise("r1c0:k:pmc1,x:FIXED0:u"), ["r1c0:kpp", "x:upp"]);
        assert_eq!(precise("cycles:uP"), ["cycles:upp"]);
        assert_eq!(precise("{cycles,r1c0:u}:D"), ["cycles:Dpp", "r1c0:uDpp"]);
    }
}

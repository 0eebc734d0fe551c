// SPDX-License-Identifier: MIT OR Apache-2.0
//! Formulas of metrics: arithmetic over the counts of events and over other metrics.
//!
//! The operators, their precedence and their meaning are the same as in Linux's perf: `if` binds
//! least, then `|`, `^`, `&`, `<` and `>`, `+` and `-`, `*`, `/` and `%`. A condition holds unless
//! it is 0. A division by 0 has no value, but `d_ratio` by 0 gives 0. A name is written between two
//! `@` if it has characters that a word can't have.

use std::fmt;

/// A formula.
#[derive(Clone, Debug, PartialEq)]
pub enum Formula {
    /// A constant.
    Number(f64),
    /// The count of an event, or the value of another metric.
    Name(String),
    /// A fact about the machine or the measurement, as `#SMT_on`.
    Literal(String),
    /// The negated value.
    Negative(Box<Formula>),
    /// An operator and its two operands.
    Two(Operator, Box<Formula>, Box<Formula>),
    /// A choice between two formulas by a condition.
    If {
        /// The value if the condition is not 0.
        then: Box<Formula>,
        /// The condition.
        condition: Box<Formula>,
        /// The value if the condition is 0.
        otherwise: Box<Formula>,
    },
}

/// An operator of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `|` of whole numbers.
    Or,
    /// `^` of whole numbers.
    ExclusiveOr,
    /// `&` of whole numbers.
    And,
    /// `<`: 1 or 0.
    Less,
    /// `>`: 1 or 0.
    Greater,
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%` of whole numbers.
    Remainder,
    /// `min(a, b)`
    Least,
    /// `max(a, b)`
    Greatest,
    /// `d_ratio(a, b)`: a / b, or 0 if b is 0.
    Ratio,
}

/// A mistake in a formula.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// A description of the mistake.
    pub what: &'static str,
    /// The position of the mistake in the text, in bytes.
    pub at: usize,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at character {}", self.what, self.at + 1)
    }
}

impl std::error::Error for Mistake {}

/// The operators between two operands, in levels: the first level binds least.
const OPERATOR_LEVELS: [&[(u8, Operator)]; 6] = [
    &[(b'|', Operator::Or)],
    &[(b'^', Operator::ExclusiveOr)],
    &[(b'&', Operator::And)],
    &[(b'<', Operator::Less), (b'>', Operator::Greater)],
    &[(b'+', Operator::Add), (b'-', Operator::Subtract)],
    &[
        (b'*', Operator::Multiply),
        (b'/', Operator::Divide),
        (b'%', Operator::Remainder),
    ],
];

/// The functions of two values.
const FUNCTIONS: [(&str, Operator); 3] = [
    ("min", Operator::Least),
    ("max", Operator::Greatest),
    ("d_ratio", Operator::Ratio),
];

impl Formula {
    /// Reads a formula.
    ///
    /// # Errors
    /// Returns the first mistake.
    pub fn parse(text: &str) -> Result<Self, Mistake> {
        let mut parser = Parser { text, position: 0 };
        let formula = parser.parse_choice()?;
        match parser.peek() {
            None => Ok(formula),
            Some(_) => Err(parser.mistake("an operator is missing")),
        }
    }

    /// Replaces facts by numbers. If the facts decide a condition, also replaces the choice by the
    /// formula that is chosen.
    ///
    /// If `fact` returns `None` for a fact, the fact stays in the formula.
    #[must_use]
    pub fn with_facts(self, fact: &dyn Fn(&str) -> Option<f64>) -> Self {
        let resolve = |formula: Box<Self>| formula.with_facts(fact);
        match self {
            Self::Literal(name) => fact(&name).map_or(Self::Literal(name), Self::Number),
            Self::Number(_) | Self::Name(_) => self,
            Self::Negative(formula) => match resolve(formula) {
                Self::Number(number) => Self::Number(-number),
                other => Self::Negative(Box::new(other)),
            },
            Self::Two(operator, a, b) => match (resolve(a), resolve(b)) {
                (Self::Number(a), Self::Number(b)) => Self::Number(operator.apply(a, b)),
                (a, b) => Self::Two(operator, Box::new(a), Box::new(b)),
            },
            Self::If {
                then,
                condition,
                otherwise,
            } => match resolve(condition) {
                Self::Number(0.0) => resolve(otherwise),
                Self::Number(_) => resolve(then),
                condition => Self::If {
                    then: Box::new(resolve(then)),
                    condition: Box::new(condition),
                    otherwise: Box::new(resolve(otherwise)),
                },
            },
        }
    }

    /// Calls `each` with each name, in the order of the text.
    pub fn names<'a>(&'a self, each: &mut dyn FnMut(&'a str)) {
        match self {
            Self::Name(name) => each(name),
            Self::Number(_) | Self::Literal(_) => {}
            Self::Negative(formula) => formula.names(each),
            Self::Two(_, a, b) => {
                a.names(each);
                b.names(each);
            }
            Self::If {
                then,
                condition,
                otherwise,
            } => [then, condition, otherwise]
                .into_iter()
                .for_each(|formula| formula.names(each)),
        }
    }

    /// Returns the formula's value, or NaN if it has none. `lookup` returns the value of a name, or
    /// NaN for an unknown name.
    pub fn value(&self, lookup: &mut dyn FnMut(&str) -> f64) -> f64 {
        match self {
            Self::Number(number) => *number,
            Self::Name(name) => lookup(name),
            Self::Literal(_) => f64::NAN,
            Self::Negative(formula) => -formula.value(lookup),
            Self::Two(operator, a, b) => {
                let a = a.value(lookup);
                operator.apply(a, b.value(lookup))
            }
            Self::If {
                then,
                condition,
                otherwise,
            } => {
                let condition = condition.value(lookup);
                if condition.is_nan() {
                    f64::NAN
                } else if condition == 0.0 {
                    otherwise.value(lookup)
                } else {
                    then.value(lookup)
                }
            }
        }
    }
}

impl Operator {
    fn apply(self, a: f64, b: f64) -> f64 {
        if a.is_nan() || b.is_nan() {
            return f64::NAN;
        }
        #[expect(clippy::cast_possible_truncation, reason = "as C casts it to long")]
        let to_integer = |number: f64| number as i64;
        match self {
            Self::Or => (to_integer(a) | to_integer(b)) as f64,
            Self::ExclusiveOr => (to_integer(a) ^ to_integer(b)) as f64,
            Self::And => (to_integer(a) & to_integer(b)) as f64,
            Self::Less => f64::from(u8::from(a < b)),
            Self::Greater => f64::from(u8::from(a > b)),
            Self::Add => a + b,
            Self::Subtract => a - b,
            Self::Multiply => a * b,
            Self::Divide if b == 0.0 => f64::NAN,
            Self::Remainder => to_integer(a)
                .checked_rem(to_integer(b))
                .map_or(f64::NAN, |rest| rest as f64),
            Self::Least => a.min(b),
            Self::Greatest => a.max(b),
            Self::Ratio if b == 0.0 => 0.0,
            Self::Divide | Self::Ratio => a / b,
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    position: usize,
}

impl<'a> Parser<'a> {
    /// Parses `a if b else c`, or a formula without a choice.
    fn parse_choice(&mut self) -> Result<Formula, Mistake> {
        let then = self.parse_level(0)?;
        if !self.take_word("if") {
            return Ok(then);
        }
        let condition = self.parse_level(0)?;
        if !self.take_word("else") {
            return Err(self.mistake("`else` is missing"));
        }
        Ok(Formula::If {
            then: Box::new(then),
            condition: Box::new(condition),
            otherwise: Box::new(self.parse_choice()?),
        })
    }

    /// Parses operands joined by the operators of this level. Operands contain the operators of higher levels.
    fn parse_level(&mut self, level: usize) -> Result<Formula, Mistake> {
        let Some(operators) = OPERATOR_LEVELS.get(level) else {
            return self.parse_operand();
        };
        let mut left = self.parse_level(level + 1)?;
        while let Some((_, operator)) = self
            .peek()
            .and_then(|next| operators.iter().find(|(sign, _)| *sign == next))
        {
            self.position += 1;
            let right = self.parse_level(level + 1)?;
            left = Formula::Two(*operator, Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    fn parse_operand(&mut self) -> Result<Formula, Mistake> {
        let Some(first) = self.peek() else {
            return Err(self.mistake("the formula ends too early"));
        };
        match first {
            b'-' => {
                self.position += 1;
                Ok(Formula::Negative(Box::new(self.parse_operand()?)))
            }
            b'(' => {
                self.position += 1;
                let formula = self.parse_choice()?;
                self.expect(b')', "`)` is missing")?;
                Ok(formula)
            }
            b'@' => {
                let rest = &self.text[self.position + 1..];
                let Some(length) = rest.find('@') else {
                    return Err(self.mistake("the second `@` is missing"));
                };
                self.position += length + 2;
                Ok(Formula::Name(rest[..length].to_owned()))
            }
            b'#' => {
                self.position += 1;
                Ok(Formula::Literal(format!("#{}", self.parse_word())))
            }
            b'0'..=b'9' | b'.' => self.parse_number(),
            _ => self.parse_name_or_call(),
        }
    }

    fn parse_number(&mut self) -> Result<Formula, Mistake> {
        let rest = &self.text.as_bytes()[self.position..];
        let mut end = 0;
        while let Some(byte) = rest.get(end) {
            let is_sign = *byte == b'-' && matches!(rest[end - 1], b'e' | b'E');
            if !(byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E') || is_sign) {
                break;
            }
            end += 1;
        }
        let number = self.text[self.position..self.position + end].parse();
        let number = number.map_err(|_| self.mistake("this is not a number"))?;
        self.position += end;
        Ok(Formula::Number(number))
    }

    fn parse_name_or_call(&mut self) -> Result<Formula, Mistake> {
        let start = self.position;
        let word = self.parse_word();
        if word.is_empty() {
            return Err(self.mistake("an operand is missing"));
        }
        if self.peek() != Some(b'(') {
            return Ok(Formula::Name(word.to_owned()));
        }
        let Some((_, operator)) = FUNCTIONS.iter().find(|(name, _)| *name == word) else {
            self.position = start;
            return Err(self.mistake("there is no such function"));
        };
        self.position += 1;
        let a = self.parse_choice()?;
        self.expect(b',', "`,` is missing")?;
        let b = self.parse_choice()?;
        self.expect(b')', "`)` is missing")?;
        Ok(Formula::Two(*operator, Box::new(a), Box::new(b)))
    }

    /// Consumes and returns letters, digits, dots, underscores and colons.
    fn parse_word(&mut self) -> &'a str {
        let rest = &self.text[self.position..];
        let is_other = |c: char| !(c.is_ascii_alphanumeric() || "._:".contains(c));
        let length = rest.find(is_other).unwrap_or(rest.len());
        self.position += length;
        &rest[..length]
    }

    fn take_word(&mut self, word: &str) -> bool {
        self.peek();
        let start = self.position;
        let is_word = self.parse_word() == word;
        if !is_word {
            self.position = start;
        }
        is_word
    }

    fn expect(&mut self, byte: u8, what_is_wrong: &'static str) -> Result<(), Mistake> {
        if self.peek() == Some(byte) {
            self.position += 1;
            Ok(())
        } else {
            Err(self.mistake(what_is_wrong))
        }
    }

    /// Skips blanks, and returns the next byte.
    fn peek(&mut self) -> Option<u8> {
        let rest = &self.text[self.position..];
        self.position += rest.len() - rest.trim_start().len();
        self.text.as_bytes().get(self.position).copied()
    }

    fn mistake(&self, what: &'static str) -> Mistake {
        Mistake {
            what,
            at: self.position,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> f64 {
        let formula = Formula::parse(text).expect(text);
        formula.value(&mut |name| match name {
            "a" => 6.0,
            "b.c:u" => 4.0,
            "x-y/z,cmask=1/" => 8.0,
            "zero" => 0.0,
            _ => f64::NAN,
        })
    }

    #[test]
    fn values_are_as_in_perf() {
        let table = [
            ("1 + 2 * 3", 7.0),
            ("2 * 3 - 4 / 2 - 1", 3.0),
            ("-a + 7", 1.0),
            ("2 - -1", 3.0),
            ("a / b.c:u", 1.5),
            ("@x-y/z,cmask=1/@ / 2", 4.0),
            ("1 if a > 5 else 2", 1.0),
            ("1 if a < 5 else 2 if a < 7 else 3", 2.0),
            ("(a if zero else b.c:u) * 2", 8.0),
            ("a > 5 & b.c:u < 5", 1.0),
            ("a > 5 & (b.c:u > 5 | 1)", 1.0),
            ("6 ^ 3", 5.0),
            ("7 % 4", 3.0),
            ("min(a, b.c:u) + max(1, 2)", 6.0),
            ("d_ratio(a, zero)", 0.0),
            ("d_ratio(a, 4)", 1.5),
            ("1e3", 1000.0),
            ("2.5e-1 * 4", 1.0),
            ("max((a - 9 if 1 else 2), 0)", 0.0),
        ];
        for (text, expected) in table {
            assert!((value(text) - expected).abs() < 1e-12, "{text}");
        }
    }

    #[test]
    fn formulas_without_a_value_give_nan() {
        for text in [
            "a / zero",
            "1 + absent",
            "#SMT_on",
            "1 if absent else 2",
            "1 % 0",
            "max(a, absent)",
        ] {
            assert!(value(text).is_nan(), "{text}");
        }
    }

    #[test]
    fn facts_decide_choices() {
        let formula = Formula::parse("(a / 2 if #SMT_on else b) * (1 if #core_wide < 1 else c)");
        let facts = |smt| {
            move |name: &str| match name {
                "#SMT_on" => Some(smt),
                "#core_wide" => Some(0.0),
                _ => None,
            }
        };
        let names = |smt: f64| {
            let formula = formula.clone().expect("it is well formed");
            let formula = formula.with_facts(&facts(smt));
            let mut names = String::new();
            formula.names(&mut |name| names += name);
            names
        };
        assert_eq!((names(0.0), names(1.0)), ("b".to_owned(), "a".to_owned()));
    }

    #[test]
    fn mistakes_are_found_at_their_places() {
        let table = [
            ("", "the formula ends too early", 0),
            ("1 +", "the formula ends too early", 3),
            ("(1", "`)` is missing", 2),
            ("1 2", "an operator is missing", 2),
            ("1 if 2", "`else` is missing", 6),
            ("min(1)", "`,` is missing", 5),
            ("sqrt(1)", "there is no such function", 0),
            ("1 + *", "an operand is missing", 4),
            ("@a", "the second `@` is missing", 0),
            ("1.2.3", "this is not a number", 0),
        ];
        for (text, what, at) in table {
            assert_eq!(Formula::parse(text), Err(Mistake { what, at }), "{text}");
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mangled names of entities of C++20 modules (Itanium C++ ABI, "Mangling", `<module-name>`), which `cpp_demangle` does
//! not know.
//!
//! `_ZW3foo3barv` is the function `bar` of module `foo`; other tools show it as `bar@foo()`. Before demangling, the module
//! becomes part of the name of its entity, in characters that `cpp_demangle` accepts.

/// The placeholder for `@` between an entity and its module.
const MODULE_PLACEHOLDER: &str = "$module$";
/// The placeholder for `:` between a module and its partition.
const PARTITION_PLACEHOLDER: &str = "$partition$";
/// Prefixes of the name of an entity: those of tables, of guards, and of entities in a function.
const PREFIXES: [&str; 7] = ["_ZTV", "_ZTT", "_ZTI", "_ZTS", "_ZGV", "_ZZ", "_Z"];

/// A mangled name that `cpp_demangle` knows.
pub(super) struct ModulelessName {
    pub(super) mangled: String,
    /// The innermost name, and its module. If it is a class, the names of its constructors have no module.
    last: (String, String),
}

impl ModulelessName {
    /// Returns the demangled name with modules as other tools write them.
    pub(super) fn restore(&self, demangled: &str) -> String {
        let mut text = demangled.to_owned();
        let (entity, module) = &self.last;
        // A constructor or destructor follows its class, which may be a template.
        for class in [format!("{entity}{module}::"), ">::".to_owned()] {
            for tilde in ["", "~"] {
                let [long, short] =
                    [module.as_str(), ""].map(|m| format!("{class}{tilde}{entity}{m}("));
                text = text.replace(&long, &short);
            }
        }
        text.replace(MODULE_PLACEHOLDER, "@")
            .replace(PARTITION_PLACEHOLDER, ":")
    }
}

/// Returns the module whose initializer has this name.
pub(super) fn initialized_module(name: &str) -> Option<String> {
    let (module, rest) = take_module(name.strip_prefix("_ZGI")?);
    (rest.is_empty() && !module.is_empty()).then(|| module.replace(PARTITION_PLACEHOLDER, ":"))
}

/// Makes modules part of the names of their entities. Returns `None` if the name has no module, or if it refers back to
/// its parts by their numbers: modules have such numbers, too, so the numbers would be wrong without the modules.
pub(super) fn without_modules(name: &str) -> Option<ModulelessName> {
    if !name.contains('W') {
        return None;
    }
    let prefix = PREFIXES.iter().find(|prefix| name.starts_with(**prefix))?;
    let mut rest = &name[prefix.len()..];
    let is_nested = rest.starts_with('N');
    // Qualifiers of member functions (r, V, K, R, O), and the namespace std.
    rest = rest.strip_prefix('N').unwrap_or(rest);
    rest = rest.trim_start_matches(|c| is_nested && "rVKRO".contains(c));
    rest = rest.strip_prefix("St").unwrap_or(rest);
    let mut mangled = name[..name.len() - rest.len()].to_owned();
    let (mut has_module, mut last) = (false, (String::new(), String::new()));
    loop {
        let (module, after) = take_module(rest);
        // L stands before a name without linkage to other units.
        let after = match after.strip_prefix('L') {
            Some(after) if !module.is_empty() => after,
            _ => after,
        };
        let Some((entity, after)) = take_source_name(after) else {
            break;
        };
        has_module |= !module.is_empty();
        let module = match &module[..] {
            "" => String::new(),
            module => format!("{MODULE_PLACEHOLDER}{module}"),
        };
        mangled += &format!("{}{entity}{module}", entity.len() + module.len());
        last = (entity.to_owned(), module);
        rest = after;
        if !is_nested {
            break;
        }
    }
    mangled += rest;
    (has_module && !has_back_reference(rest)).then_some(ModulelessName { mangled, last })
}

/// Splits off the name of a module with its partition; empty if there is none.
fn take_module(text: &str) -> (String, &str) {
    let (mut module, mut rest) = (String::new(), text);
    while let Some(after) = rest.strip_prefix('W') {
        let (separator, after) = match after.strip_prefix('P') {
            Some(after) => (PARTITION_PLACEHOLDER, after),
            None if module.is_empty() => ("", after),
            None => (".", after),
        };
        let Some((part, after)) = take_source_name(after) else {
            break;
        };
        module = module + separator + part;
        rest = after;
    }
    (module, rest)
}

/// Splits off an identifier, which follows its length.
fn take_source_name(text: &str) -> Option<(&str, &str)> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let length: usize = text[..digits].parse().ok()?;
    text[digits..].split_at_checked(length)
}

/// Returns whether a mangled name may have a number of an earlier part, such as `S1_`.
fn has_back_reference(text: &str) -> bool {
    let is_digit = |c: char| c.is_ascii_digit() || c.is_ascii_uppercase();
    let mut parts = text.split('S').skip(1);
    parts.any(|part| part.trim_start_matches(is_digit).starts_with('_'))
}

#[cfg(test)]
mod tests {
    use super::super::demangle::demangle;

    /// The names that GCC and Clang make, and what `c++filt` shows.
    #[test]
    fn entities_of_modules_are_named_like_other_tools_do() {
        for (mangled, name) in [
            ("_ZW3foo3barv", "bar@foo()"),
            ("_ZW3fooW3bar1fv", "f@foo.bar()"),
            ("_ZW3fooWP4part3bari", "bar@foo:part(int)"),
            ("_ZW3fooL3barv", "bar@foo()"),
            ("_ZN2nsW3foo3barEv", "ns::bar@foo()"),
            ("_ZNSt3abcW3foo1fEv", "std::abc::f@foo()"),
            ("_ZNW3foo1A1fEv", "A@foo::f()"),
            ("_ZNKW3foo1A1fEv", "A@foo::f() const"),
            ("_ZNW3foo1AC1Ev", "A@foo::A()"),
            ("_ZNW3foo1AD2Ev", "A@foo::~A()"),
            ("_ZNW3foo1AIiE1fEv", "A@foo<int>::f()"),
            ("_ZNW3foo1AIiEC1Ev", "A@foo<int>::A()"),
            ("_ZThn8_NW3foo1A1fEv", "non-virtual thunk to A@foo::f()"),
            // cpp_demangle words this in another way.
            ("_ZTVW3foo1A", "{vtable(A@foo)}"),
            ("_ZZW3foo3barvE1x", "bar@foo()::x"),
            ("_ZGIW3foo", "initializer for module foo"),
            ("_ZGIW3fooW3barWP1p", "initializer for module foo.bar:p"),
        ] {
            assert_eq!(demangle(mangled), name);
        }
    }

    /// Names that stay unchanged: they refer back to a module, name an operator, or are cut off or
    /// malformed.
    #[test]
    fn names_that_cannot_be_read_stay_mangled() {
        for name in [
            "_ZW3foo3barPNS_1AE",
            "_ZN2nsW3foo1A1fES1_",
            "_ZW3fooplP1A",
            "_ZW3foo",
            "_ZW9foo3barv",
            "_ZW",
            "_ZGI",
            "_ZGIW3fo",
            "_ZGIW3foov",
        ] {
            assert_eq!(demangle(name), name);
        }
    }

    #[test]
    fn other_names_have_no_module() {
        for (mangled, name) in [
            ("_ZN6Widget4WrapEv", "Widget::Wrap()"),
            ("_Z1W1W", "W(W)"),
            ("_ZN1WC1ERKS_", "W::W(W const&)"),
        ] {
            assert_eq!(demangle(mangled), name);
        }
    }
}

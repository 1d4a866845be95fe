//! Tables of known exceptions, which can only shrink.

use std::collections::BTreeMap;

/// A place that exceeds a limit, with the size that it may have and the reason.
pub type Exception = (&'static str, usize, &'static str);

/// By how much a place may be smaller than its exception says, so that small changes leave the table alone.
const SLACK: usize = 20;

/// Compares sizes with a limit and its exceptions. Returns the findings: what exceeds its limit, and exceptions that are no longer
/// needed or much too large. `sizes` has each place with the line that a finding names.
pub fn compare(
    what: &str,
    limit: usize,
    sizes: &BTreeMap<String, (usize, usize)>,
    table: &[Exception],
) -> Vec<String> {
    let mut findings = Vec::new();
    for (place, (line, size)) in sizes {
        let allowed = table.iter().find(|(of, ..)| of == place).map_or(limit, |(_, size, _)| *size);
        if *size > allowed {
            let path = place.split(' ').next().unwrap_or(place);
            findings.push(format!(
                "{path}:{line}: {place} has {size} {what}, at most {allowed}; cut it by subject"
            ));
        }
    }
    for (place, size, reason) in table {
        let found = sizes.get(*place).map_or(0, |(_, size)| *size);
        if reason.is_empty() {
            findings.push(format!("{place}: the exception has no reason; write one"));
        }
        if found <= limit {
            findings
                .push(format!("{place}: the exception is no longer needed; remove its line from the table"));
        } else if found + SLACK < *size {
            findings.push(format!("{place}: has {found} {what}; lower the {size} of its exception"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(size: usize, table: &[Exception]) -> Vec<String> {
        compare("lines", 10, &BTreeMap::from([("a.rs f".to_owned(), (3, size))]), table)
    }

    #[test]
    fn a_place_over_its_limit_is_a_finding_with_path_and_line() {
        assert_eq!(findings(10, &[]), [""; 0]);
        assert_eq!(findings(11, &[]), ["a.rs:3: a.rs f has 11 lines, at most 10; cut it by subject"]);
        assert_eq!(findings(11, &[("a.rs f", 11, "a table")]), [""; 0]);
        assert_eq!(findings(12, &[("a.rs f", 11, "a table")]).len(), 1);
    }

    #[test]
    fn an_exception_that_is_not_needed_or_much_too_large_is_a_finding() {
        assert!(findings(10, &[("a.rs f", 11, "a table")])[0].contains("no longer needed"));
        assert!(findings(1, &[("gone.rs", 11, "a table")])[0].contains("no longer needed"));
        assert!(findings(12, &[("a.rs f", 33, "a table")])[0].contains("lower the 33"));
        assert_eq!(findings(12, &[("a.rs f", 32, "a table")]), [""; 0]);
        assert!(findings(12, &[("a.rs f", 12, "")])[0].contains("has no reason"));
    }
}
